"""Many runs: grids and searches on Ray."""

from ndr.scale.engine import Engine
from ndr.scale.grid import run_grid
from ndr.scale.jobs import Job, read_jobs

__all__ = ["Engine", "Job", "read_jobs", "run_grid"]
