"""The files that docs/scale.md shows are files that the commands take."""

import re
from pathlib import Path

from ndr.scale import read_jobs
from ndr.scale.space import read_search

DOCS = Path(__file__).parents[2] / "docs" / "scale.md"


def test_files_in_the_docs_can_be_used(tmp_path: Path):
    grid, search = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    file = tmp_path / "grid.toml"
    file.write_text(grid)
    jobs = read_jobs([str(file)], "small")
    assert len(jobs) == 3 + 3 * 4
    assert all(job.problem is None for job in jobs)
    file = tmp_path / "search.toml"
    file.write_text(search)
    assert read_search(str(file), {}).runs == 40
