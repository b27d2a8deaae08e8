"""SOAP (Vyas et al., 2024): Adam on each matrix in the eigenvectors of its own gradients.

Written here because a run must go on bit by bit from a flat set of tensors, which is all the state there is.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

SIDES = (("rows", "row_basis"), ("columns", "column_basis"))


class Soap(torch.optim.Optimizer):
    """Matrices take Adam's step in a basis that turns with their gradients, everything else where it stands.

    The basis is refreshed every so many iterations, by one step of the power method.
    """

    def __init__(
        self,
        parameters: Any,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.01,
        refresh: int = 10,
        eps: float = 1e-8,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "refresh": refresh, "eps": eps}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    move(parameter, parameter.grad, self.state[parameter], group)


def move(parameter: nn.Parameter, grad: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    if not state:
        # In its own eigenvectors the first gradient is all noise but for its diagonal: it only says how they lie.
        begin(grad, state)
        return
    state["step"] += 1
    count, (mean_memory, square_memory) = int(state["step"]), group["betas"]
    state["mean"].lerp_(grad, 1 - mean_memory)
    turned = turn(grad, state)
    state["square"].mul_(square_memory).addcmul_(turned, turned, value=1 - square_memory)
    spread = (state["square"] / (1 - square_memory**count)).sqrt_().add_(group["eps"])
    update = turn(turn(state["mean"], state) / spread, state, back=True)
    parameter.mul_(1 - group["lr"] * group["weight_decay"])
    parameter.add_(update, alpha=-group["lr"] / (1 - mean_memory**count))
    if grad.dim() == 2:
        state["rows"].lerp_(grad @ grad.T, 1 - square_memory)
        state["columns"].lerp_(grad.T @ grad, 1 - square_memory)
        if count % group["refresh"] == 0:
            refresh(state)


def begin(grad: Tensor, state: dict[str, Tensor]) -> None:
    """What is remembered of a parameter; of a matrix also how its rows and its columns vary together."""
    state["step"] = torch.tensor(0)
    state["mean"], state["square"] = torch.zeros_like(grad), torch.zeros_like(grad)
    if grad.dim() == 2:
        state["rows"], state["columns"] = grad @ grad.T, grad.T @ grad
        for gram, basis in SIDES:
            state[basis] = torch.linalg.eigh(state[gram])[1].flip(1).contiguous()


def turn(matrix: Tensor, state: dict[str, Tensor], back: bool = False) -> Tensor:
    """Into the basis of the gradients, or back out of it; what is not a matrix stays as it is."""
    if matrix.dim() != 2:
        return matrix
    rows, columns = state["row_basis"], state["column_basis"]
    return rows @ matrix @ columns.T if back else rows.T @ matrix @ columns


def refresh(state: dict[str, Tensor]) -> None:
    """Turn both bases towards the eigenvectors; squares follow the order of their directions."""
    for axis, (gram, basis) in enumerate(SIDES):
        turned: Float[Tensor, "size size"] = state[gram] @ state[basis]
        order = (state[basis] * turned).sum(0).argsort(descending=True, stable=True)
        state["square"] = state["square"].index_select(axis, order)
        state[basis] = torch.linalg.qr(turned[:, order])[0].contiguous()
