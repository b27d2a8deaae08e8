"""How a gate's logits become a number between closed (0) and open (1)."""

from torch import Tensor, nn

from ndr.ops.reference import crisp


class CrispSigmoid(nn.Module):
    """A sigmoid stretched beyond [0, 1] and cut off there, so that a gate can be exactly closed or exactly open."""

    def __init__(self, stretch: float = 0.1) -> None:
        super().__init__()
        if stretch <= 0:
            raise ValueError(f"stretch must be positive, not {stretch}: at 0 this is an ordinary sigmoid")
        self.stretch = stretch

    def forward(self, logits: Tensor) -> Tensor:
        return crisp(logits.sigmoid(), self.stretch)
