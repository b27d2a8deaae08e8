"""Whether a recipe, or a network from a stranger, fits into this machine, asked before memory is taken."""

import os

import torch

from ndr.errors import Refusal
from ndr.models.network import build
from ndr.models.outline import outline
from ndr.models.settings import RouterSettings
from ndr.train.recipe import Recipe

# Bytes of a float32; and its weight, its gradient and the two means of AdamW.
FLOAT = 4
COPIES = 4


def physical_memory() -> int:
    """Of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def least_memory(recipe: Recipe, shortest: int) -> int:
    """What training needs at the very least: the weights and their companions, and every step's states for backward."""
    with outline():
        weights = sum(parameter.numel() for parameter in build(recipe.model).parameters())
    states = 0
    if isinstance(recipe.model, RouterSettings):
        steps = recipe.model.steps if recipe.steps is None else recipe.steps.low
        columns = min(recipe.batch * (shortest + 2), recipe.columns or recipe.batch * (shortest + 2))
        states = columns * recipe.model.width * max(steps, 1)
    return FLOAT * (COPIES * weights + states)


def check_memory(recipe: Recipe, shortest: int, device: torch.device) -> None:
    """Refuse what cannot fit; a device other than the CPU says so itself."""
    needed, there = least_memory(recipe, shortest), physical_memory()
    if device.type == "cpu" and needed > there:
        raise Refusal(
            f"training this recipe needs at least {needed / 2**30:,.0f} GiB of memory and this machine has "
            f"{there / 2**30:,.0f}; make the model, its steps or the batch smaller"
        )
