"""A room imports only the rooms above it, and the library needs only the light core."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "ndr"
ROOMS = ["tasks", "data", "ops", "nn", "models", "train", "paper", "view", "scale", "bench"]
# Whoever holds a trace may ask for its picture.
EXCEPTIONS = {("models/trace.py", "view")}
LIGHT = {"torch", "numpy", "jaxtyping", "safetensors", "huggingface_hub", "pydantic", "tyro", "rich"}
STANDARD = sys.stdlib_module_names


def imports(path: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, at the top or later."""
    package = ["ndr", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            # `from ndr import view` names a room only in its second half.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "ndr" and len(parts) > 1 and parts[1] in ROOMS else None


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_all_rooms_are_known():
    found = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert found <= set(ROOMS), "a new room needs a place in the order (docs/architecture.md)"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_above_it(room):
    above = ROOMS[: ROOMS.index(room) + 1]
    for path in sorted((SOURCE / room).rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for module in imports(path):
            target = room_of(module)
            if target is not None and (name, target) not in EXCEPTIONS:
                assert target in above, f"{name} imports {module}"


@pytest.mark.parametrize("name", ["errors", "native", "__init__"])
def test_what_all_rooms_share_imports_no_room(name):
    assert not [module for module in imports(SOURCE / f"{name}.py") if room_of(module)]


def test_no_room_imports_the_command_line():
    for path in files():
        if path.parent != SOURCE:
            assert "ndr.cli" not in set(imports(path)), path


@pytest.mark.parametrize("room", ["tasks", "data", "ops", "nn", "models"])
def test_the_library_needs_only_the_light_core(room):
    """Anything heavier is asked for with `require`, inside the function that uses it."""
    for path in sorted((SOURCE / room).rglob("*.py")):
        tops = {module.split(".")[0] for module in imports(path)}
        assert tops <= LIGHT | STANDARD | {"ndr"}, f"{path}: {tops - LIGHT - STANDARD - {'ndr'}}"


def test_no_drawer_for_odds_and_ends():
    for path in files():
        assert path.stem not in ("utils", "helpers", "common", "misc"), path
