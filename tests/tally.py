"""Puts what a long run measured into its place on a page, between two comments that name it."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"


def put(name: str, text: str, page: Path = PAGE) -> None:
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before = page.read_text()
    after, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", before, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{page} has no place for {name}")
    page.write_text(after)
