"""Writes the bill of materials: everything that the locks install, as CycloneDX JSON.

The same locks give the same bytes. Licences are those that the installed packages declare.
"""

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from entries import DEVELOPMENT, Entry, read

ROOT = Path(__file__).parent.parent


def main(out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(bill([entry for lock in DEVELOPMENT for entry in read(lock)]), indent=1) + "\n")
    print(out)


def bill(entries: list[Entry]) -> dict[str, Any]:
    project = {"type": "library", "bom-ref": "ndr", "name": "ndr", "version": own_version()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": project},
        "components": [component(entry) for entry in entries],
        "dependencies": [
            {"ref": parent, "dependsOn": sorted(reference(entry) for entry in entries if name in entry.wanted_by)}
            for parent, name in [("ndr", "ndr"), *((reference(entry), entry.name) for entry in entries)]
        ],
    }


def component(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "library", "bom-ref": reference(entry), "name": entry.name}
    found |= {"version": entry.version, "purl": reference(entry)}
    if entry.hashes:
        found["hashes"] = [{"alg": "SHA-256", "content": content} for content in entry.hashes]
    if licence := licence_of(entry):
        found["licenses"] = [licence]
    properties = {"ndr:installed-where": entry.marker, "ndr:pinned-by": "" if entry.hashes else "version only"}
    found["properties"] = [{"name": name, "value": value} for name, value in properties.items() if value]
    return found


def reference(entry: Entry) -> str:
    return f"pkg:pypi/{entry.name}@{entry.version}"


def licence_of(entry: Entry) -> dict[str, Any] | None:
    """Nothing is said of what is not installed here, or in another version."""
    try:
        declared = metadata(entry.name)
    except PackageNotFoundError:
        return None
    if declared["Version"].partition("+")[0] != entry.version:
        return None
    if expression := declared.get("License-Expression"):
        return {"expression": expression}
    classifiers = [line for line in declared.get_all("Classifier") or () if line.startswith("License :: ")]
    name = classifiers[0].rpartition(" :: ")[2] if classifiers else (declared.get("License") or "").partition("\n")[0]
    return {"license": {"name": name}} if name else None


def own_version() -> str:
    found = re.search(r'__version__ = "(.+)"', (ROOT / "src/ndr/__init__.py").read_text())
    assert found
    return found[1]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
