"""python -m tests.faults --count 200: inject faults, judge what becomes of them, print the tally."""

import argparse
import shutil
import time

from ..tally import put
from .campaign import Campaign, campaign_folder, table
from .process import preload


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    options.add_argument("--count", type=int, default=200, help="how many faults")
    options.add_argument("--seed", type=int, default=0, help="which faults")
    options.add_argument("--no-grids", action="store_true", help="leave out grids, which take a while each")
    options.add_argument("--page", action="store_true", help="put the tally into docs/reliability.md")
    options.add_argument("--only", default="", help="only faults and commands whose names contain this")
    chosen = options.parse_args()
    preload()
    began = time.monotonic()
    folder = campaign_folder()
    verdicts, idle = [], 0
    try:
        campaign = Campaign(folder, chosen.seed, grids=not chosen.no_grids)
        for number, (victim, fault) in enumerate(campaign.pairs()):
            if len(verdicts) == chosen.count:
                break
            if chosen.only not in f"{victim.name} / {fault}":
                continue
            verdict = campaign.inject(number, victim, fault)
            if not verdict.counts:
                idle += 1
                print(f"   - {victim.name} / {fault}: did not take hold", flush=True)
                continue
            verdicts.append(verdict)
            state = f"LOST: {verdict.lost}" if verdict.lost else verdict.told or "went on"
            print(f"{len(verdicts):4} {victim.name} / {fault}: {state}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    command = f"`python -m tests.faults --count {chosen.count} --seed {chosen.seed}`"
    missed = f"{idle} more did not take hold and are not counted"
    tally = f"{table(verdicts)}\n\n{command}, {time.monotonic() - began:,.0f} s; {missed}."
    print(f"\n{tally}")
    if chosen.page:
        put("faults", tally)
    raise SystemExit(any(verdict.lost for verdict in verdicts))


if __name__ == "__main__":
    main()
