"""What a worker does: one run in its folder, with every failure turned into a reason."""

import os
import time
from pathlib import Path
from typing import Any

from ndr.errors import Refusal, out_of_memory
from ndr.scale.jobs import write_failure
from ndr.train.folder import InUse

# After a kill of the whole command, its workers may live on for a moment.
PATIENCE = 120.0


def trial(config: dict[str, Any]) -> None:
    """A trial of Ray Tune. The folder of the run knows how far it is, so it does not matter who runs it, or when."""
    from ray import tune

    tune.report(run_in_folder(config, lambda row: tune.report({**row, "over": False})))


def run_in_folder(config: dict[str, Any], watch: Any) -> dict[str, Any]:
    """Make or continue the run; what it came to, or why it failed."""
    import torch

    from ndr.train import train
    from ndr.train.recipe import validate

    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        # Inside a SLURM job the training engine would take this single process for one of the job's tasks.
        del os.environ[name]
    torch.set_num_threads(config["threads"])
    out = Path(config["out"])
    try:
        recipe = validate(config["recipe"])
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                result = train(recipe, config["seed"], out, data=config["data"], loggers=(), watch=watch)
                break
            except InUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
    except (Exception, torch.OutOfMemoryError) as error:
        reason = reason_of(error)
        write_failure(out, config["recipe"], config["seed"], reason)
        return {"over": True, "failed": reason}
    best = {split: score["accuracy"] for split, score in result["best"].items()}
    iteration = recipe.iterations_before + result["iterations"]
    return {"over": True, "iteration": iteration, "seconds": result["seconds"], **best}


def reason_of(error: BaseException) -> str:
    """One sentence."""
    text = " ".join(str(error).split())
    if isinstance(error, Refusal):
        return text
    if out_of_memory(error):
        return f"out of memory: use a smaller batch or model ({text[:200] or type(error).__name__})"
    return f"{type(error).__name__}: {text[:300]}"
