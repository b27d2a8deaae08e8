"""LSTM baselines, in one direction or in both."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ndr.models.settings import RecurrentSettings
from ndr.models.token_by_token import TokenByToken, at_last_token


class Recurrent(TokenByToken):
    """Reads the tokens and E. One direction answers from the last token's output, two from their final states."""

    settings: RecurrentSettings
    KIND = "recurrent"

    def __init__(self, settings: RecurrentSettings) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = nn.Embedding(len(settings.tokens) + 1, settings.embedding)
        directions = 2 if settings.bidirectional else 1
        self.lstm = nn.LSTM(
            settings.embedding,
            settings.hidden // directions,
            settings.layers,
            batch_first=True,
            bidirectional=settings.bidirectional,
            # Between layers; torch warns when there is nothing between.
            dropout=settings.dropout if settings.layers > 1 else 0.0,
        )
        self.dropout = nn.Dropout(settings.dropout)
        self.output = nn.Linear(settings.hidden, len(settings.answers))

    def read(
        self, embedded: Float[Tensor, "batch column_and_end width"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch class"]:
        # Packed, so that the backward direction begins at E and not at the padding.
        packed = pack_padded_sequence(embedded, lengths.cpu() + 1, batch_first=True, enforce_sorted=False)
        outputs, (final, _) = self.lstm(packed)
        if self.settings.bidirectional:
            summary = self.final_states(final)
        else:
            summary = at_last_token(pad_packed_sequence(outputs, batch_first=True)[0], lengths)
        logits: Tensor = self.output(summary)
        return logits

    def final_states(self, final: Float[Tensor, "layer_and_direction batch part"]) -> Float[Tensor, "batch hidden"]:
        """Forward and backward state of the last layer; or the two that the paper's runs took."""
        if self.settings.readout == "paper":
            # They read torch's [layer, direction] as [direction, layer].
            swapped = final.view(2, self.settings.layers, *final.shape[1:])
            return torch.cat([swapped[0, -1], swapped[1, -1]], dim=-1)
        return torch.cat([final[-2], final[-1]], dim=-1)
