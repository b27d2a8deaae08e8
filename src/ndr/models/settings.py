"""What a network is made of, as small frozen records that travel as JSON inside its checkpoint.

Each part of a layer has a record of its own, so a record can only hold settings that its part understands.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Settings(BaseModel):
    """Frozen, typed; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Rate = Annotated[float, Field(ge=0, lt=1)]
Stretch = Annotated[float, Field(ge=0, le=100)]
Size = Annotated[int, Field(ge=1, le=1_000_000)]
Few = Annotated[int, Field(ge=1, le=100)]
Word = Annotated[str, Field(min_length=1)]


class Geometric(Settings):
    """Read from the closest match."""

    kind: Literal["geometric"] = "geometric"
    heads: Size = 1
    dropout: Rate = 0.1
    """of the keys"""
    normalise: bool = False
    """rescale the weights of each target to sum to 1"""
    directional: bool = True
    """tell left from right (Eq. 9)"""
    bias: float = 0.0
    """γ at the start: below 0, columns begin by looking farther"""
    stretch: Stretch = 0.0
    """how far the match probability reaches beyond 0 and 1 before it is cut off there: exact matches"""


class Relative(Settings):
    """Softmax over content and offset."""

    kind: Literal["relative"] = "relative"
    heads: Size = 1
    dropout: Rate = 0.0


class AbsoluteRelative(Settings):
    """Softmax over content and a gated mix of offset and position."""

    kind: Literal["absolute-relative"] = "absolute-relative"
    heads: Size = 1
    dropout: Rate = 0.0


class Absolute(Settings):
    """Softmax over content; a sinusoid is added to the embedding."""

    kind: Literal["absolute"] = "absolute"
    heads: Size = 1


class CopyGated(Settings):
    """Copy a column unless its gate opens."""

    kind: Literal["copy-gate"] = "copy-gate"
    hidden: Size = 512
    dropout: Rate = 0.0
    gate_dropout: Rate = 0.0
    candidate: Literal["layer-norm", "tanh"] = "layer-norm"
    squash: Literal["sigmoid", "crisp"] = "sigmoid"
    """crisp: a stretched sigmoid cut at exactly 0 and exactly 1"""
    stretch: Annotated[float, Field(gt=0, le=100)] = 0.1
    """of the crisp squash"""
    bias: float = -3.0


class Residual(Settings):
    """Add to a column, then normalise."""

    kind: Literal["residual"] = "residual"
    hidden: Size = 256
    dropout: Rate = 0.0


class Texts(Settings):
    """What every network must know about its task to read text and answer in text."""

    task: str | None = None
    """the name of the task the network was made for"""
    variant: str = "clean"
    """and its variant"""
    tokens: Annotated[tuple[Word, ...], Field(min_length=1)]
    answers: Annotated[tuple[Word, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _words_differ(self) -> Self:
        for what, words in (("tokens", self.tokens), ("answers", self.answers)):
            if len(set(words)) < len(words):
                raise ValueError(f"{what} must all differ")
        return self


class RouterSettings(Texts):
    """An encoder: embedding, one layer applied for a number of steps, readout from one column."""

    kind: Literal["router"] = "router"
    width: Size = 256
    steps: Size = 14
    test_steps: Size | None = None
    """steps outside training; the same as in training when left out"""
    steps_per_column: Annotated[float, Field(ge=0, le=1_000)] = 0.0
    """and at least so many for each column: longer inputs take longer"""
    attention: Annotated[Geometric | Relative | AbsoluteRelative | Absolute, Field(discriminator="kind")] = Geometric()
    update: Annotated[CopyGated | Residual, Field(discriminator="kind")] = CopyGated()
    halting: Literal["A", "U"] | None = None
    """adaptive computation time, in Graves's variant (A) or that of Universal Transformers (U)"""
    readout: Literal["first", "last"] = "last"
    embedding: Literal["normal", "kaiming", "xavier"] = "normal"
    """how the embedding is drawn"""
    output: Literal["linear", "tied"] = "linear"
    """how a column is scored: by a layer of its own, or by the embedding of each answer's token"""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "RouterSettings":
        if self.width % self.attention.heads:
            raise ValueError(f"width {self.width} cannot be split into {self.attention.heads} heads")
        if self.output == "tied" and not set(self.answers) <= set(self.tokens):
            raise ValueError("a tied output needs every answer to be a token")
        return self


class RecurrentSettings(Texts):
    """An LSTM over the tokens, in one direction or in both."""

    kind: Literal["recurrent"] = "recurrent"
    hidden: Size = 200
    """over both directions together"""
    layers: Few = 1
    embedding: Size = 16
    bidirectional: bool = False
    dropout: Rate = 0.5
    readout: Literal["both-ends", "paper"] = "both-ends"
    """paper: of several bidirectional layers, take the states that the paper's runs took"""

    @model_validator(mode="after")
    def _even(self) -> "RecurrentSettings":
        if self.bidirectional and self.hidden % 2:
            raise ValueError(f"hidden must be even to be shared by two directions, not {self.hidden}")
        return self


class DNCSettings(Texts):
    """A differentiable neural computer: an LSTM controller beside an addressable memory."""

    kind: Literal["dnc"] = "dnc"
    hidden: Size = 200
    embedding: Size = 16
    cells: Size = 21
    reads: Size = 4
    dropout: Rate = 0.5


ModelSettings = Annotated[RouterSettings | RecurrentSettings | DNCSettings, Field(discriminator="kind")]
