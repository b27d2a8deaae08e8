"""Looks every locked dependency up among the known vulnerabilities, with pip-audit.

Succeeds only when each of them was looked up and nothing is known: a service that does not answer is no good news,
though pip-audit by itself would call it so.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from entries import DEVELOPMENT

CLEAN, VULNERABLE, UNKNOWN = 0, 1, 2


def main() -> int:
    verdicts = [audit(lock) for lock in DEVELOPMENT]
    for code, sentences in verdicts:
        print(*sentences, sep="\n", file=sys.stderr if code else sys.stdout)
    return max(code for code, _ in verdicts)


def audit(lock: Path) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format=json", "--timeout=15"]
    run = subprocess.run([*command, "--progress-spinner=off", "-r", str(lock)], capture_output=True, text=True)
    return verdict(lock.name, run.stdout, run.stderr)


def verdict(lock: str, answer: str, complaint: str) -> tuple[int, list[str]]:
    """What pip-audit's answer means, as an exit code and as sentences."""
    try:
        looked_up = json.loads(answer)["dependencies"]
    except (ValueError, KeyError):
        reason = complaint.strip().rpartition("\n")[2][:300] or "no reason given"
        return UNKNOWN, [f"{lock} was not audited, because the vulnerability service cannot be asked: {reason}"]
    skipped = [each["name"] for each in looked_up if "skip_reason" in each]
    if skipped or not looked_up:
        missing = f"{len(skipped)} of {len(looked_up)} dependencies, such as {skipped[0]}" if skipped else "anything"
        return UNKNOWN, [f"{lock} was not audited, because the vulnerability service said nothing about {missing}"]
    known = [f"{each['name']} {each['version']}: {describe(flaw)}" for each in looked_up for flaw in each["vulns"]]
    if known:
        return VULNERABLE, known
    return CLEAN, [f"{lock}: nothing is known against {len(looked_up)} dependencies"]


def describe(flaw: dict[str, Any]) -> str:
    return f"{flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'no version yet'}"


if __name__ == "__main__":
    sys.exit(main())
