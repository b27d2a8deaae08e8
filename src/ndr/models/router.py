"""The Neural Data Router, and with other parts every Transformer of the paper."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ndr.models.encoder import Encoder
from ndr.models.network import Network, check_tokens, evaluating
from ndr.models.settings import AbsoluteRelative, CopyGated, Geometric, Relative, RouterSettings
from ndr.models.trace import StepRecord, Trace, stack
from ndr.nn import (
    AbsoluteAttention,
    AbsoluteRelativeAttention,
    AdaptiveComputationTime,
    CopyGate,
    CrispSigmoid,
    GeometricAttention,
    Layer,
    RelativeAttention,
    ResidualUpdate,
)
from ndr.nn.position import sinusoid


class Classified(NamedTuple):
    """The score of each answer, what training can keep small, and the columns that were read."""

    scores: Float[Tensor, "batch class"]
    cost: Float[Tensor, ""] | None
    """the mean remainder with halting, the mean effort of a column with a copy gate"""
    read: Float[Tensor, "batch width"]


class NeuralDataRouter(Network):
    """Embedding → the same layer × steps → readout from the first or last column.

    >>> router = NeuralDataRouter(RouterSettings(tokens=("0", "1"), answers=("even", "odd")))
    >>> router = NeuralDataRouter.from_pretrained("ndr-listops-small")
    """

    settings: RouterSettings
    KIND = "router"

    def __init__(self, settings: RouterSettings) -> None:
        super().__init__()
        self.settings = settings
        width, tokens = settings.width, len(settings.tokens)
        self.end, self.begin = tokens, tokens + 1
        self.embedding = nn.Embedding(tokens + 2, width)
        self.absolute = settings.attention.kind == "absolute"
        # The plain Transformer's rate in the paper's runs, whatever the other rates are.
        self.position_dropout = nn.Dropout(0.1)
        halting = AdaptiveComputationTime(width, settings.halting) if settings.halting else None
        self.encoder = Encoder(Layer(build_attention(settings), build_update(settings)), settings.steps, halting)
        self.output = nn.Linear(width, len(settings.answers)) if settings.output == "linear" else None
        tied = settings.answers if settings.output == "tied" else ()
        self.answer_ids = [settings.tokens.index(answer) for answer in tied]
        init_embedding(self.embedding, settings.embedding)

    def forward(
        self,
        tokens: Int[Tensor, "batch column"],
        lengths: Int[Tensor, " batch"] | None = None,
        *,
        steps: int | None = None,
    ) -> Float[Tensor, "batch class"]:
        return self.classify(tokens, lengths, steps=steps).scores

    def classify(
        self,
        tokens: Int[Tensor, "batch column"],
        lengths: Int[Tensor, " batch"] | None = None,
        *,
        steps: int | None = None,
        ask: int | None = None,
        wake: Int[Tensor, "batch framed"] | None = None,
        rest: int = 0,
    ) -> Classified:
        """`ask` reads from the column of that token instead of the readout; a column leaves out the steps before its
        `wake`; `rest` are steps that follow, of which alone the effort counts.
        """
        columns, padding = self.frame(tokens, lengths)
        steps = self.steps_now(steps, columns.shape[1])
        encoded = self.encoder(self.embed(columns), padding, steps=steps, wake=wake)
        cost = encoded.effort if encoded.remainder is None else encoded.remainder
        if rest:
            encoded = self.encoder(encoded.states, padding, steps=rest)
            cost = encoded.effort
        read = self.read(encoded.states, lengths, ask)
        return Classified(self.score(read), None if cost is None else cost.mean(), read)

    def settle(
        self, tokens: Int[Tensor, "batch column"], lengths: Int[Tensor, " batch"] | None = None, *, bound: int
    ) -> tuple[Float[Tensor, "batch class"], Int[Tensor, " batch"]]:
        """The score of each answer after as many steps as it takes until nothing changes, and how many those were."""
        columns, padding = self.frame(tokens, lengths)
        encoded = self.encoder(self.embed(columns), padding, steps=bound, until_still=True)
        return self.score(self.read(encoded.states, lengths)), encoded.steps

    def steps_now(self, steps: int | None, columns: int = 0) -> int:
        """What the caller asks for, or the settings' number: for training, or for so many columns in anything else."""
        if steps is not None:
            return steps
        if self.training:
            return self.settings.steps
        least = self.settings.test_steps or self.settings.steps
        return max(least, math.ceil(self.settings.steps_per_column * columns))

    def frame(
        self, tokens: Int[Tensor, "batch column"], lengths: Int[Tensor, " batch"] | None
    ) -> tuple[Int[Tensor, "batch framed"], Bool[Tensor, "batch framed"] | None]:
        """B, the tokens, E after the last real one; and where the padding is."""
        check_tokens(tokens, lengths)
        begin = tokens.new_full((tokens.shape[0], 1), self.begin)
        end = torch.full_like(begin, self.end)
        if lengths is None:
            return torch.cat([begin, tokens, end], dim=1), None
        columns = torch.cat([begin, tokens, torch.zeros_like(begin)], dim=1)
        last = lengths[:, None] + 1
        padding = torch.arange(columns.shape[1], device=tokens.device)[None, :] > last
        return columns.scatter(1, last, end), padding

    def embed(self, columns: Int[Tensor, "batch framed"]) -> Float[Tensor, "batch framed width"]:
        states: Tensor = self.embedding(columns)
        if self.absolute:
            position = sinusoid(torch.arange(columns.shape[1], device=columns.device), self.settings.width)
            states = self.position_dropout(states + position.to(states.dtype))
        return states

    def read(
        self, states: Float[Tensor, "batch framed width"], lengths: Int[Tensor, " batch"] | None, ask: int | None = None
    ) -> Float[Tensor, "batch width"]:
        """The column of the token that is asked, or else the readout."""
        if ask is not None:
            # The first column is B.
            return states[:, ask + 1]
        if self.settings.readout == "first":
            return states[:, 0]
        if lengths is None:
            return states[:, -1]
        return states[torch.arange(states.shape[0], device=states.device), lengths + 1]

    def score(self, states: Float[Tensor, "*columns width"]) -> Float[Tensor, "*columns class"]:
        """What a column says of each answer."""
        if self.output is not None:
            scores: Tensor = self.output(states)
            return scores
        return states @ self.embedding.weight[self.answer_ids].T / math.sqrt(self.settings.width)

    def embed_answers(self, answers: Int[Tensor, " batch"]) -> Float[Tensor, "batch width"]:
        """Answers as the tokens that they are (with a tied output)."""
        embedded: Tensor = self.embedding.weight[self.answer_ids][answers]
        return embedded

    @torch.no_grad()
    def trace(self, text: str, *, steps: int | None = None) -> Trace:
        """Everything that happens to `text`, step by step (in evaluation mode)."""
        tokens = self.vocabulary.tokenize(text)
        ids = torch.tensor([self.vocabulary.encode(tokens)], dtype=torch.long, device=self.device)
        record: list[StepRecord] = []
        with evaluating(self):
            start = self.embed(self.frame(ids, None)[0])
            encoded = self.encoder(start, steps=self.steps_now(steps, start.shape[1]), record=record)
            answer = self.score(self.read(encoded.states, None)).argmax(-1)
            parts = stack(record, start)
            logits = self.score(parts["states"].to(self.embedding.weight)).float().cpu()
        columns = ("B", *tokens, "E")
        return Trace(
            text=text,
            columns=columns,
            answer=self.settings.answers[int(answer)],
            readout=0 if self.settings.readout == "first" else len(columns) - 1,
            answers=self.settings.answers,
            logits=logits,
            **parts,
        )


def build_attention(settings: RouterSettings) -> nn.Module:
    width, attention = settings.width, settings.attention
    if isinstance(attention, Geometric):
        return GeometricAttention(
            width,
            attention.heads,
            dropout=attention.dropout,
            normalise=attention.normalise,
            directional=attention.directional,
            bias=attention.bias,
            stretch=attention.stretch,
        )
    if isinstance(attention, Relative):
        return RelativeAttention(width, attention.heads, dropout=attention.dropout)
    if isinstance(attention, AbsoluteRelative):
        return AbsoluteRelativeAttention(width, attention.heads, dropout=attention.dropout)
    return AbsoluteAttention(width, attention.heads)


def build_update(settings: RouterSettings) -> nn.Module:
    width, update = settings.width, settings.update
    if isinstance(update, CopyGated):
        return CopyGate(
            width,
            update.hidden,
            dropout=update.dropout,
            gate_dropout=update.gate_dropout,
            candidate=nn.Tanh() if update.candidate == "tanh" else None,
            squash=CrispSigmoid(update.stretch) if update.squash == "crisp" else None,
            bias=update.bias,
        )
    return ResidualUpdate(width, update.hidden, dropout=update.dropout)


def init_embedding(embedding: nn.Embedding, how: str) -> None:
    """Torch's N(0, 1) is already there; the paper's other rows draw narrower ones."""
    if how == "kaiming":
        nn.init.normal_(embedding.weight, std=math.sqrt(2 / embedding.embedding_dim))
    elif how == "xavier":
        nn.init.xavier_uniform_(embedding.weight)
