"""python -m tests.fuzz --count 1000000 [--guided]: hostile inputs for everything that reads what others wrote."""

import argparse
import time
from collections.abc import Iterable

from ..tally import put
from .guided import guide
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
    options.add_argument("--guided", action="store_true", help="let coverage choose the inputs (Atheris)")
    options.add_argument("--first", type=int, default=0, help="the number of the first input")
    chosen = options.parse_args()
    shares = {chosen.parser: 1} if chosen.parser else SHARES
    counts = {parser: -(-chosen.count * share // sum(shares.values())) for parser, share in shares.items()}
    began = time.monotonic()
    lines, findings = (
        by_coverage(counts, chosen.seed) if chosen.guided else at_random(counts, chosen.seed, chosen.first)
    )
    words = f"--count {chosen.count} --seed {chosen.seed}{' --guided' if chosen.guided else ''}"
    tally = "\n".join([*lines, "", f"`python -m tests.fuzz {words}`, {time.monotonic() - began:,.0f} s."])
    print(f"\n{tally}")
    print("\n".join(findings[:50]), end="\n" * bool(findings))
    if chosen.page:
        put("guided fuzzing" if chosen.guided else "fuzzing", tally)
    raise SystemExit(bool(findings))


def at_random(counts: dict[str, int], seed: int, first: int) -> tuple[list[str], list[str]]:
    """The tally as lines of Markdown, and what was found."""
    lines = ["| reads | inputs | accepted | refused | tracebacks, hangs, deaths |", "|---|---:|---:|---:|---:|"]
    rows, everything = [], []
    for parser, wanted in counts.items():
        accepted = refused = 0
        findings = []
        for start in range(first, first + wanted, BATCH):
            more = fuzz(parser, seed, start, min(BATCH, first + wanted - start))
            accepted, refused, findings = accepted + more[0], refused + more[1], findings + more[2]
        rows.append((wanted, accepted, refused, len(findings)))
        everything += [f"{parser} {finding.number}: {finding.what}" for finding in findings]
        lines.append(row(parser.replace("_", " "), rows[-1]))
    return [*lines, row("**all**", [sum(column) for column in zip(*rows, strict=True)])], everything


def by_coverage(counts: dict[str, int], seed: int) -> tuple[list[str], list[str]]:
    """The same, with the places of the code that were reached instead of accepted and refused."""
    lines = ["| reads | inputs | branches reached | tracebacks, hangs, deaths |", "|---|---:|---:|---:|"]
    rows, everything = [], []
    for parser, wanted in counts.items():
        tried, reached, finding = guide(parser, seed, wanted)
        rows.append((tried, reached, int(finding is not None)))
        lines.append(row(parser.replace("_", " "), rows[-1]))
        if finding is not None:
            everything.append(f"{parser}: {finding}")
            print(everything[-1], flush=True)
    tried, _, found = (sum(column) for column in zip(*rows, strict=True))
    return [*lines, row("**all**", (tried, "", found))], everything


def row(name: str, cells: Iterable[object]) -> str:
    line = f"| {name} | " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |"
    print(line, flush=True)
    return line


if __name__ == "__main__":
    main()
