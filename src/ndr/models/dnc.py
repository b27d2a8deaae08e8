"""Differentiable neural computer with de-allocation and sharp links (Csordás & Schmidhuber, 2019)."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from ndr.models.settings import DNCSettings
from ndr.models.token_by_token import TokenByToken, at_last_token

EPSILON = 1e-6
CONTROL_LIMIT = 20.0


class Memory(NamedTuple):
    """The memory between two tokens."""

    content: Float[Tensor, "batch cell word"]
    usage: Float[Tensor, "batch cell"]
    write: Float[Tensor, "batch cell"]
    precedence: Float[Tensor, "batch cell"]
    links: Float[Tensor, "batch cell cell"]
    read: Float[Tensor, "batch reads cell"]
    words: Float[Tensor, "batch reads word"]


class Control(NamedTuple):
    """What the controller asks of the memory at one token."""

    write_key: Float[Tensor, "batch word"]
    write_strength: Float[Tensor, "batch 1"]
    write_value: Float[Tensor, "batch word"]
    erase: Float[Tensor, "batch word"]
    write_gate: Float[Tensor, "batch 1"]
    allocation_gate: Float[Tensor, "batch 1"]
    free: Float[Tensor, "batch reads"]
    read_keys: Float[Tensor, "batch reads word"]
    read_strengths: Float[Tensor, "batch reads"]
    modes: Float[Tensor, "batch reads 3"]
    """shares of backward, content, forward"""
    sharpness: Float[Tensor, "batch reads 2"]
    """exponents of the forward and the backward distribution"""


class DNC(TokenByToken):
    """An LSTM controller that writes to and reads from a memory of cells at every token."""

    settings: DNCSettings
    KIND = "dnc"

    def __init__(self, settings: DNCSettings) -> None:
        super().__init__()
        self.settings = settings
        word, reads = settings.hidden, settings.reads
        self.embedding = nn.Embedding(len(settings.tokens) + 1, settings.embedding)
        self.dropout = nn.Dropout(settings.dropout)
        self.controller = nn.LSTMCell(settings.embedding + reads * word, settings.hidden)
        self.control_sizes = [word, 1, word, word, 1, 1, reads, reads * word, reads, 3 * reads, 2 * reads]
        self.control = nn.Linear(settings.hidden, sum(self.control_sizes))
        self.from_controller = nn.Linear(settings.hidden, settings.hidden)
        self.from_words = nn.Linear(reads * word, settings.hidden)
        self.output = nn.Linear(settings.hidden, len(settings.answers))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.control, self.from_controller, self.from_words):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        hidden = self.settings.hidden
        for weight in (self.controller.weight_ih, self.controller.weight_hh):
            for index, block in enumerate(weight.chunk(4)):
                # Torch's order: input, forget, candidate, output; the candidate passes through tanh.
                nn.init.xavier_uniform_(block, gain=5 / 3 if index == 2 else 1.0)
        nn.init.zeros_(self.controller.bias_ih)
        nn.init.zeros_(self.controller.bias_hh)
        nn.init.ones_(self.controller.bias_ih[hidden : 2 * hidden])

    def read(
        self, embedded: Float[Tensor, "batch column_and_end width"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch class"]:
        batch, columns, _ = embedded.shape
        memory = self.blank(batch, embedded)
        hidden = cell = embedded.new_zeros(batch, self.settings.hidden)
        outputs = []
        for column in range(columns):
            hidden, cell = self.controller(
                torch.cat([embedded[:, column], memory.words.flatten(1)], -1), (hidden, cell)
            )
            memory = step(memory, self.ask(hidden))
            outputs.append(self.from_controller(hidden) + self.from_words(memory.words.flatten(1)))
        # The network runs on over E and padding, but the answer is taken at the last real token.
        logits: Tensor = self.output(at_last_token(torch.stack(outputs, dim=1), lengths))
        return logits

    def blank(self, batch: int, like: Tensor) -> Memory:
        cells, reads, word = self.settings.cells, self.settings.reads, self.settings.hidden
        flat = like.new_zeros(batch, cells)
        return Memory(
            content=like.new_zeros(batch, cells, word),
            usage=flat,
            write=flat,
            precedence=flat,
            links=like.new_zeros(batch, cells, cells),
            read=like.new_zeros(batch, reads, cells),
            words=like.new_zeros(batch, reads, word),
        )

    def ask(self, hidden: Float[Tensor, "batch hidden"]) -> Control:
        raw = self.control(hidden).clamp(-CONTROL_LIMIT, CONTROL_LIMIT).split(self.control_sizes, dim=-1)
        reads = self.settings.reads
        return Control(
            write_key=raw[0],
            write_strength=1 + softplus(raw[1]),
            write_value=raw[2],
            erase=raw[3].sigmoid(),
            write_gate=raw[4].sigmoid(),
            allocation_gate=raw[5].sigmoid(),
            free=raw[6].sigmoid(),
            read_keys=raw[7].unflatten(-1, (reads, -1)),
            read_strengths=1 + softplus(raw[8]),
            modes=raw[9].unflatten(-1, (reads, 3)).softmax(-1),
            sharpness=1 + softplus(raw[10].unflatten(-1, (reads, 2))),
        )


def step(memory: Memory, control: Control) -> Memory:
    """Free, write, link and read, in this order."""
    kept = (1 - control.free[..., None] * memory.read).prod(1)
    written = memory.write.detach()
    usage = (memory.usage + written - memory.usage * written) * kept
    by_content = address(memory.content, control.write_key[:, None], control.write_strength)[:, 0]
    share = control.allocation_gate
    write = control.write_gate * (share * allocation(usage) + (1 - share) * by_content)
    # De-allocation: what was freed is also wiped.
    erased = kept[..., None] * (1 - write[..., None] * control.erase[:, None])
    content = memory.content * erased + write[..., None] * control.write_value[:, None]
    links = link(memory, write)
    precedence = share_left(write.sum(-1, keepdim=True)) * memory.precedence + write
    forward = sharpen(torch.einsum("bij,brj->bri", links, memory.read), control.sharpness[..., 0])
    backward = sharpen(torch.einsum("bij,bri->brj", links, memory.read), control.sharpness[..., 1])
    looked_up = address(content, control.read_keys, control.read_strengths)
    read = control.modes[..., 0:1] * backward + control.modes[..., 1:2] * looked_up + control.modes[..., 2:3] * forward
    return Memory(content, usage, write, precedence, links, read, read @ content)


def address(
    content: Float[Tensor, "batch cell word"],
    keys: Float[Tensor, "batch reads word"],
    strengths: Float[Tensor, "batch reads"],
) -> Float[Tensor, "batch reads cell"]:
    """Softmax over the cosine between each key and each cell."""
    norms = content.norm(dim=-1)[:, None, :] * keys.norm(dim=-1)[..., None]
    cosine = keys @ content.transpose(-1, -2) / (norms + EPSILON)
    weights: Tensor = (strengths[..., None] * cosine).softmax(-1)
    return weights


def allocation(usage: Float[Tensor, "batch cell"]) -> Float[Tensor, "batch cell"]:
    """Weight on the least used cells: each gets what the freer ones left."""
    usage = EPSILON + (1 - EPSILON) * usage
    # Unused cells tie: only a stable order is the same on every device and in every batch.
    ascending, order = usage.sort(dim=-1, stable=True)
    before = torch.cat([torch.ones_like(ascending[:, :1]), ascending[:, :-1].cumprod(-1)], -1)
    return torch.zeros_like(usage).scatter(-1, order, (1 - ascending) * before)


def link(memory: Memory, write: Float[Tensor, "batch cell"]) -> Float[Tensor, "batch cell cell"]:
    """links[i, j]: cell i was written right after cell j."""
    to, source = write[:, :, None], write[:, None, :]
    links = share_left(to + source) * memory.links + to * memory.precedence[:, None, :]
    return links * (1 - torch.eye(links.shape[-1], device=links.device, dtype=links.dtype))


def share_left(written: Tensor) -> Tensor:
    """What a write leaves of the past. All writes sum to 1 at most, but rounding may say a little more."""
    return (1 - written).clamp_min(0)


def sharpen(
    distribution: Float[Tensor, "batch reads cell"], exponent: Float[Tensor, "batch reads"]
) -> Float[Tensor, "batch reads cell"]:
    """Raise to a power and rescale to sum to 1; a blank distribution (nothing linked yet) becomes a flat one."""
    scale = distribution.amax(-1, keepdim=True) + EPSILON
    shares = distribution / scale + EPSILON
    # The largest share is 1 before it is raised: a high power would leave nothing of small ones to rescale.
    powered = (shares / shares.detach().amax(-1, keepdim=True)).pow(exponent[..., None])
    return powered / powered.sum(-1, keepdim=True)
