"""What the explorer's page and its server say to each other."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_TEXT = 4_000
MAX_STEPS = 200
MAX_BODY = MAX_HEADERS = 32_768
# Attention weights in one answer: steps × heads × columns². A byte each, so 8 MB as base64 at the very most.
MAX_WEIGHTS = 6_000_000
# Numbers of states and gates that are held while an answer is made: steps × columns × width.
MAX_NUMBERS = 30_000_000


class Busy(Exception):
    """Too many traces are asked for at once."""


class Request(BaseModel):
    """Strict: nothing is converted, unknown keys are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ParseRequest(Request):
    model: Annotated[int, Field(ge=0, le=1_000, description="place of the network in the list of /api/models")]
    text: Annotated[str, Field(max_length=MAX_TEXT)]


class TraceRequest(ParseRequest):
    steps: Annotated[
        int | None, Field(ge=1, le=MAX_STEPS, description="how often the layer is applied; its own number if left out")
    ] = None


class Model(Message):
    """A network that can be looked into."""

    name: str
    task: str | None
    attention: str
    gated: bool
    halting: bool
    heads: int
    steps: int
    readout: Literal["first", "last"]
    tokens: tuple[str, ...]
    answers: tuple[str, ...]
    examples: tuple[str, ...]


class Models(Message):
    models: tuple[Model, ...]
    most_steps: int = MAX_STEPS
    longest_text: int = MAX_TEXT


class TreeNode(Message):
    """A node of the parse, with its true value."""

    label: str
    column: int = Field(description="its column in the trace, where B is 0")
    value: str
    height: int = Field(description="operations on the longest path below and including it")
    needed: bool = Field(description="false in branches that the result does not depend on")
    parent: int | None
    children: tuple[int, ...]
    first: int
    last: int


class Parsed(Message):
    text: str
    columns: tuple[str, ...] = Field(description="B, the tokens, E")
    tree: tuple[TreeNode, ...] | None = Field(description="root first; null when the network's task has no parser")
    value: str | None = Field(description="the true answer")


class PackedTrace(Message):
    """A trace, small enough for the wire.

    `attention` holds a byte per weight (v/255, so within 0.002 of the network's number); every other array two bytes
    per number, little-endian (v/65535, within 0.00001). All are base64, in row-major order.
    """

    text: str
    columns: tuple[str, ...]
    answers: tuple[str, ...]
    answer: str = Field(description="what the network says")
    readout: int = Field(description="the column that it says it from")
    steps: int
    heads: int
    attention: str = Field(description="uint8 [step, head, target, source]")
    openness: str | None = Field(description="uint16 [step, column]: mean of the gate; null without gates")
    change: str = Field(description="uint16 [step, column]: |after − before| / (|after| + |before|) of the state")
    halting: str | None = Field(description="uint16 [step, column]: weight of the step in the output; null without ACT")
    readouts: str = Field(description="uint16 [step + 1, column, answer]: probability of each answer, had it stopped")


class Problem(Message):
    """Why a request was refused."""

    reason: str
    position: int | None = Field(None, description="character of the text at which it goes wrong, counted from 0")
