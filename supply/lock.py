"""Writes the locks: the exact version of every dependency and the hashes of its files.

Versions that are already locked stay; `--upgrade` takes the newest ones that pyproject.toml allows.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# torch is pinned in a file of its own (torch.txt says why), and its build decides about these.
WITH_TORCH = re.compile(r"(torch|nvidia-[\w-]+|cuda-[\w-]+)==")


def main(options: list[str]) -> None:
    lock("development.txt", "pyproject.toml", "--extra", "dev", "--constraint", "supply/torch.txt", *options)
    lock("tools.txt", "supply/tools.in", *options)


def lock(name: str, source: str, *options: str) -> None:
    path = HERE / name
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version=3.11", "--generate-hashes"]
    command += ["--no-header", "--no-emit-index-url", "--output-file", str(path), source, *options]
    subprocess.run(command, check=True, cwd=HERE.parent)
    # An entry is a line and the indented ones below it.
    entries = re.split(r"^(?=\S)", path.read_text(), flags=re.MULTILINE)
    path.write_text("".join(entry for entry in entries if not WITH_TORCH.match(entry)))


if __name__ == "__main__":
    main(sys.argv[1:])
