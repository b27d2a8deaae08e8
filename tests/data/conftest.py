from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test keeps its splits in a folder of its own."""
    monkeypatch.setenv("NDR_DATA", str(tmp_path / "kept"))
    return tmp_path / "kept"
