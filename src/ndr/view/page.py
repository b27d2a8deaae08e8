"""The explorer's page: served in parts, or written as one file that needs nothing else."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ndr.errors import Refusal
from ndr.whole import check_target, write_whole

if TYPE_CHECKING:
    from ndr.view.studio import Studio

SCRIPTS = ("colours.js", "decode.js", "source.js", "drawing.js", "score.js", "map.js", "words.js", "link.js", "app.js")
FILES = ("style.css", "icon.svg", *SCRIPTS)


def page_file(name: str) -> str:
    """One of the page's files, from inside the package."""
    return (resources.files("ndr.view") / "page" / name).read_text("utf-8")


def served_page() -> str:
    """The page with its parts beside it."""
    parts = ['<link rel="icon" href="/page/icon.svg">', '<link rel="stylesheet" href="/page/style.css">']
    parts += [f'<script src="/page/{name}" defer></script>' for name in SCRIPTS]
    return page_file("index.html").replace("<!--head-->", "\n".join(parts))


def inlined_page(data: object) -> str:
    """The page with its parts and its data inside. Its policy lets these parts run and no address be asked."""
    style = page_file("style.css")
    # The scripts wait for the whole page, as `defer` does for served ones; inline ones cannot be deferred.
    script = "\n".join(page_file(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    # "<" never stands in the data, so nothing in it can end the element that holds it.
    recorded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    tail = f'<script type="application/json" id="recorded">{recorded}</script>\n<script>{script}</script>\n</body>'
    return page_file("index.html").replace("<!--head-->", head).replace("</body>", tail)


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def record(studio: "Studio", texts: Sequence[str], steps: int | None) -> dict[str, object]:
    """Everything that the page can ask of these texts."""
    models = [model.model_dump(mode="json") for model in studio.models.models]
    records: list[dict[str, object]] = []
    for place in range(len(models)):
        for text in texts:
            entry: dict[str, object] = {"model": place, "text": text}
            try:
                entry["parsed"] = studio.parse(place, text).model_dump(mode="json")
                entry["trace"] = studio.trace(place, text, steps).model_dump(mode="json")
            except Refusal as refusal:
                if place == 0:
                    raise
                # Another network may read another language; its panel says so.
                entry["problem"] = str(refusal)
            records.append(entry)
        models[place]["examples"] = list(texts)
    return {"models": models, "records": records}


def export(studio: "Studio", out: str | Path, texts: Sequence[str], steps: int | None) -> Path:
    """Write the explorer with these texts as one HTML file."""
    path = check_target(Path(out), (".html", ".htm"))
    if not texts:
        texts = studio.exhibits[0].examples()[:3]
    if not texts:
        raise Refusal("give at least one text with --text: this network's task has no examples")
    page = inlined_page(record(studio, texts, steps))
    write_whole(path, page.encode())
    return path
