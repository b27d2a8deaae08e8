"""Optimisers, the learning rate over time, and their state as plain tensors."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ndr.train.recipe import Optimiser
from ndr.train.soap import Soap


def build_optimisers(network: nn.Module, settings: Optimiser, *, fused: bool = True) -> list[torch.optim.Optimizer]:
    """One optimiser, or with Muon two: one for the matrices inside the network, one for all else."""
    rate, decay, betas = settings.learning_rate, settings.weight_decay, settings.betas
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if settings.kind == "adam":
        return [torch.optim.Adam(parameters, lr=rate, betas=betas, weight_decay=decay, fused=fused)]
    if settings.kind == "adamw":
        return [torch.optim.AdamW(groups(parameters, settings), lr=rate, betas=betas, weight_decay=decay, fused=fused)]
    if settings.kind == "soap":
        return [Soap(groups(parameters, settings), lr=rate, betas=betas, weight_decay=decay)]
    ends = [
        part for part in (getattr(network, "embedding", None), getattr(network, "output", None)) if part is not None
    ]
    outside = {id(parameter) for part in ends for parameter in part.parameters()}
    matrices = [each for each in parameters if each.dim() == 2 and id(each) not in outside]
    others = [each for each in parameters if each.dim() != 2 or id(each) in outside]
    return [
        # Scaled so that one learning rate suits both optimisers.
        torch.optim.Muon(matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups(others, settings), lr=rate, betas=betas, weight_decay=decay, fused=fused),
    ]


def groups(parameters: list[nn.Parameter], settings: Optimiser) -> list[dict[str, Any]]:
    """Scalars apart from the rest, if they have a learning rate of their own."""
    scalars = [each for each in parameters if each.dim() == 0 and settings.scalar_rate != 1]
    rest = [each for each in parameters if each.dim() > 0 or settings.scalar_rate == 1]
    apart = {"params": scalars, "factor": settings.scalar_rate, "weight_decay": 0.0}
    return [{"params": rest, "factor": 1.0}, *([apart] if scalars else [])]


def rate_at(iteration: int, iterations: int, settings: Optimiser, start: int = 0) -> float:
    """The learning rate of an iteration: warm-up, then constant, or falling to nothing at the end of the run.

    `hold` is a share of what follows `start`.
    """
    if iteration < settings.warm_up:
        return settings.learning_rate * (iteration + 1) / settings.warm_up
    held = max(settings.warm_up, start + settings.hold * (iterations - start))
    done = max(0.0, (iteration - held) / max(iterations - held, 1))
    factor = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[settings.decay]
    return settings.learning_rate * factor


def set_rate(optimisers: list[Any], rate: float) -> None:
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)


def optimiser_tensors(optimisers: list[Any]) -> dict[str, Tensor]:
    """The whole state by name; everything else follows from the recipe and the iteration."""
    return {
        f"optimiser.{place}.{index}.{name}": torch.as_tensor(value)
        for place, optimiser in enumerate(optimisers)
        for index, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimisers(optimisers: list[Any], tensors: dict[str, Tensor]) -> None:
    for place, optimiser in enumerate(optimisers):
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            kind, *path = key.split(".", 3)
            if kind == "optimiser" and int(path[0]) == place:
                state.setdefault(int(path[1]), {})[path[2]] = value
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
