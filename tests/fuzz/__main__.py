"""python -m tests.fuzz --count 1000000: hostile inputs for everything that reads what others wrote."""

import argparse
import time

from ..tally import put
from .parsers import SHARES
from .runner import fuzz

# In one process; afterwards it begins anew, with fresh memory.
BATCH = 20_000


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--count", type=int, default=1_000_000, help="how many inputs over all parsers")
    options.add_argument("--seed", type=int, default=0, help="which inputs")
    options.add_argument("--parser", choices=list(SHARES), help="only this one, with all the inputs")
    options.add_argument("--page", action="store_true", help="put the tally into docs/reliability.md")
    options.add_argument("--first", type=int, default=0, help="the number of the first input")
    chosen = options.parse_args()
    shares = {chosen.parser: 1} if chosen.parser else SHARES
    total = sum(shares.values())
    began = time.monotonic()
    lines = ["| reads | inputs | accepted | refused | tracebacks, hangs, deaths |", "|---|---:|---:|---:|---:|"]
    sums = [0, 0, 0, 0]
    everything = []
    for parser, share in shares.items():
        wanted = -(-chosen.count * share // total)
        accepted = refused = 0
        findings = []
        for start in range(chosen.first, chosen.first + wanted, BATCH):
            more = fuzz(parser, chosen.seed, start, min(BATCH, chosen.first + wanted - start))
            accepted, refused, findings = accepted + more[0], refused + more[1], findings + more[2]
        row = (wanted, accepted, refused, len(findings))
        sums = [one + other for one, other in zip(sums, row, strict=True)]
        everything += findings
        lines.append(f"| {parser.replace('_', ' ')} | " + " | ".join(f"{number:,}" for number in row) + " |")
        print(lines[-1], flush=True)
    lines.append("| **all** | " + " | ".join(f"**{number:,}**" for number in sums) + " |")
    command = f"`python -m tests.fuzz --count {chosen.count} --seed {chosen.seed}`"
    tally = "\n".join([*lines, "", f"{command}, {time.monotonic() - began:,.0f} s."])
    print(f"\n{tally}")
    for finding in everything[:50]:
        print(f"{finding.parser} {finding.number}: {finding.what}")
    if chosen.page:
        put("fuzzing", tally)
    raise SystemExit(bool(everything))


if __name__ == "__main__":
    main()
