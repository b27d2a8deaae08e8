"""The launcher of docs/scale.md, with submitit's executor for this machine in the place of SLURM's."""

from pathlib import Path

import pytest

from ndr.train import load_recipe, train

submitit = pytest.importorskip("submitit")


@pytest.mark.slow
def test_runs_are_jobs_of_submitit(tmp_path: Path, data: Path, tiny: dict[str, object]):
    recipe = load_recipe("ctl-forward-ndr-small", [f"{key}={value}" for key, value in tiny.items()])
    executor = submitit.AutoExecutor(folder=tmp_path / "slurm", cluster="local")
    executor.update_parameters(timeout_min=5, cpus_per_task=1)
    with executor.batch():
        job = executor.submit(train, recipe, 3, tmp_path / "run", data=data, loggers=())
    result = job.result()
    assert (result["iterations"], result["seed"]) == (12, 3)
    assert (tmp_path / "run" / "result.json").is_file()
