"""What networks that read one token after another share."""

from abc import abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ndr.models.network import Network, check_tokens


class TokenByToken(Network):
    """Embeds the tokens and E behind the last of them; what is made of those is for `read` to say."""

    embedding: nn.Embedding
    dropout: nn.Dropout

    def forward(
        self,
        tokens: Int[Tensor, "batch column"],
        lengths: Int[Tensor, " batch"] | None = None,
        *,
        steps: int | None = None,
    ) -> Float[Tensor, "batch class"]:
        if steps is not None:
            raise ValueError("a recurrent network takes one step per token: steps cannot be chosen")
        check_tokens(tokens, lengths)
        if lengths is None:
            lengths = tokens.new_full(tokens.shape[:1], tokens.shape[1])
        embedded = self.dropout(self.embedding(append_end(tokens, lengths, len(self.settings.tokens))))
        return self.read(embedded, lengths)

    @abstractmethod
    def read(
        self, embedded: Float[Tensor, "batch column_and_end width"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch class"]:
        """The score of each answer; `lengths` counts the tokens without E."""


def append_end(tokens: Tensor, lengths: Tensor, end: int) -> Int[Tensor, "batch column_and_end"]:
    room = torch.cat([tokens, tokens.new_zeros(tokens.shape[0], 1)], dim=1)
    return room.scatter(1, lengths[:, None], end)


def at_last_token(outputs: Float[Tensor, "batch column width"], lengths: Int[Tensor, " batch"]) -> Tensor:
    # Without any token there is only E to answer from.
    return outputs[torch.arange(outputs.shape[0], device=outputs.device), (lengths - 1).clamp_min(0)]
