"""Lists of runs: from tables, recipes and files; each once, and none mistaken for another."""

import json
from pathlib import Path

import pytest

from ndr.errors import Refusal
from ndr.paper.results import FAILURE
from ndr.scale import read_jobs
from ndr.scale.grid import chosen
from ndr.scale.jobs import write_failure

NAME = "ctl-forward-ndr-small"


def write(path: Path, data: dict) -> str:
    path.write_text(json.dumps(data))
    return str(path)


def test_a_table_gives_the_runs_of_its_rows():
    jobs = read_jobs(["table1"], "paper", ("ndr", "dnc"), 2)
    assert len(jobs) == 2 * 2 * 2
    assert {job.name for job in jobs} >= {"ctl-forward-dnc-paper-seed1", "ctl-backward-ndr-paper-seed0"}
    assert all(job.recipe is not None and job.name == f"{job.recipe.name}-seed{job.seed}" for job in jobs)


def test_tables_that_share_runs_do_not_repeat_them():
    one, both = read_jobs(["table1"], "paper"), read_jobs(["table1", "table5"], "paper")
    assert len(both) == len(one) + 3 * 2 * 5


def test_a_file_gives_every_combination(tmp_path: Path):
    entry = {"recipe": NAME, "set": {"batch": 7}, "grid": {"model.width": [8, 16], "optimiser.kind": ["adam", "muon"]}}
    jobs = read_jobs([write(tmp_path / "g.json", {"seeds": [3, 5], "runs": [entry]})], "small")
    assert [job.name for job in jobs[:3]] == [
        f"{NAME}-batch=7-width=8-kind=adam-seed3",
        f"{NAME}-batch=7-width=8-kind=adam-seed5",
        f"{NAME}-batch=7-width=8-kind=muon-seed3",
    ]
    assert len(jobs) == 8
    assert {(job.recipe.batch, job.recipe.model.width, job.recipe.optimiser.kind) for job in jobs if job.recipe} == {
        (7, width, kind) for width in (8, 16) for kind in ("adam", "muon")
    }


def test_toml_files_and_settings_of_all_runs(tmp_path: Path):
    file = tmp_path / "g.toml"
    file.write_text(f'seeds = 2\n[set]\nbatch = 5\n[[runs]]\nrecipe = "{NAME}"\nname = "mine"\n')
    jobs = read_jobs([str(file)], "small", changes=("iterations=11",))
    assert [job.name for job in jobs] == ["mine-seed0", "mine-seed1"]
    assert all(job.recipe is not None and (job.recipe.batch, job.recipe.iterations) == (5, 11) for job in jobs)


def test_changed_recipes_bear_another_name():
    (bare,), (changed,) = read_jobs([NAME], "small"), read_jobs([NAME], "small", changes=("model.width=16",))
    assert bare.name == f"{NAME}-seed0"
    assert changed.name == f"{NAME}-width=16-seed0"


def test_a_bad_recipe_is_a_job_with_a_problem(tmp_path: Path):
    runs = [{"recipe": NAME, "set": {"bach": 3}}, {"recipe": "nothing"}, {"recipe": NAME}]
    jobs = read_jobs([write(tmp_path / "g.json", {"runs": runs})], "small")
    assert [job.status(tmp_path) for job in jobs] == ["failed", "failed", "waiting"]
    assert 'did you mean "batch"' in str(jobs[0].reason(tmp_path))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"runs": [{"recipe": NAME, "seed": 1}]}, "runs.0.seed"),
        ({"run": []}, "Field required"),
        ({"runs": [{"recipe": NAME, "set": {"batch": 3}, "name": "a"}, {"recipe": NAME, "name": "a"}]}, "called"),
        ([], "does not hold"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, data: dict, sentence: str):
    with pytest.raises(Refusal, match=sentence):
        read_jobs([write(tmp_path / "g.json", data)], "small")


@pytest.mark.parametrize("seeds", [0, -1, 99999999999999999999])
@pytest.mark.parametrize("what", ["table1", NAME])
def test_a_number_of_seeds_that_nobody_means_is_refused(what: str, seeds: int):
    with pytest.raises(Refusal, match="the number of seeds lies between 1 and 100"):
        read_jobs([what], "small", (), seeds)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(Refusal, match='did you mean "table1"'):
        read_jobs(["tabl1"], "small")


def test_only_named_failures_are_retried(tmp_path: Path):
    jobs = read_jobs([NAME], "small", seeds=3)
    for seed in (0, 1):
        write_failure(tmp_path / jobs[seed].name, {"name": NAME}, seed, "out of memory")
    assert [job.status(tmp_path) for job in jobs] == ["failed", "failed", "waiting"]
    assert chosen(jobs, tmp_path, []) == jobs
    assert [job.seed for job in chosen(jobs, tmp_path, [jobs[1].name])] == [1]
    assert [job.status(tmp_path) for job in jobs] == ["failed", "waiting", "waiting"]
    assert [job.seed for job in chosen(jobs, tmp_path, ["all"])] == [0]
    assert not (tmp_path / jobs[0].name / FAILURE).exists()
    with pytest.raises(Refusal, match="the grid has no run"):
        chosen(jobs, tmp_path, ["nobody"])
