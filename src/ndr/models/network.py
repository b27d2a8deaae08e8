"""What all networks share: text in, answers out, and a folder to live in."""

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from huggingface_hub import PyTorchModelHubMixin
from jaxtyping import Float, Int
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from ndr.data.vocabulary import Vocabulary
from ndr.errors import Refusal
from ndr.models.settings import DNCSettings, ModelSettings, RecurrentSettings, RouterSettings, Texts

SHIPPED = Path(__file__).parent / "pretrained"
CLASSES = {
    "router": ("ndr.models.router", "NeuralDataRouter"),
    "recurrent": ("ndr.models.recurrent", "Recurrent"),
    "dnc": ("ndr.models.dnc", "DNC"),
}


def json_coders(settings: type[Texts]) -> dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """How huggingface_hub writes a network's settings into config.json and reads them back."""
    return {settings: (lambda value: value.model_dump(mode="json"), settings.model_validate)}


class Network(nn.Module, PyTorchModelHubMixin, library_name="ndr", tags=["systematic-generalization"]):
    """A network over token ids [batch, column], without begin and end tokens: each network adds what it needs.

    `lengths` says how many ids of each row are real; without it all are.
    """

    settings: Texts
    KIND: ClassVar[str]

    @abstractmethod
    def forward(
        self,
        tokens: Int[Tensor, "batch column"],
        lengths: Int[Tensor, " batch"] | None = None,
        *,
        steps: int | None = None,
    ) -> Float[Tensor, "batch class"]:
        """The score of each answer."""

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.settings.tokens, self.settings.answers)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @torch.no_grad()
    def answer(self, texts: Sequence[str], *, steps: int | None = None) -> list[str]:
        """What the network says of each text (in evaluation mode, whatever mode it is in)."""
        encoded = [self.vocabulary.encode(self.vocabulary.tokenize(text)) for text in texts]
        if not encoded:
            return []
        lengths = torch.tensor([len(ids) for ids in encoded])
        tokens = nn.utils.rnn.pad_sequence([torch.tensor(ids, dtype=torch.long) for ids in encoded], batch_first=True)
        with evaluating(self):
            logits = self(tokens.to(self.device), lengths.to(self.device), steps=steps)
        return [self.settings.answers[index] for index in logits.argmax(-1).tolist()]

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Load a folder written by `save_pretrained`, or a router shipped with the package by its name."""
        folder = find(pretrained_model_name_or_path)
        if not folder.is_dir():
            hosted: Self = super().from_pretrained(str(pretrained_model_name_or_path), **options)
            return hosted
        settings = read_settings(folder)
        if settings.kind != cls.KIND:
            raise Refusal(f'{folder} holds a network of kind "{settings.kind}", not "{cls.KIND}"; use ndr.models.load')
        return cls.from_weights(settings, folder / "model.safetensors")

    @classmethod
    def from_weights(cls, settings: Texts, path: Path) -> Self:
        """A network with the weights of a safetensors file; names and shapes are compared before memory is taken."""
        with torch.device("meta"):
            network = cls(settings)
        expected = {name: list(value.shape) for name, value in network.state_dict().items()}
        try:
            with safe_open(path, framework="pt") as file:
                found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - not a dict
            differing = sorted(name for name in expected | found if expected.get(name) != found.get(name))
            if differing:
                raise Refusal(f"{path} holds the weights of another network: {differing[0]} differs")
            network.load_state_dict(load_file(path), assign=True)
        except FileNotFoundError as error:
            raise Refusal(f"{path} is missing") from error
        except (SafetensorError, OSError, ValueError) as error:
            raise error if isinstance(error, Refusal) else Refusal(f"{path} is damaged: {error}") from error
        return network.eval()


class evaluating:  # noqa: N801 - reads like a statement
    """Evaluation mode for a while."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __enter__(self) -> None:
        self.before = self.module.training
        self.module.eval()

    def __exit__(self, *_: object) -> None:
        self.module.train(self.before)


def find(name_or_folder: str | Path) -> Path:
    """A folder of the user's comes first; otherwise a shipped network of this name."""
    folder = Path(name_or_folder)
    shipped = SHIPPED / folder.name
    return shipped if not folder.exists() and str(name_or_folder) == folder.name and shipped.is_dir() else folder


def read_settings(folder: Path) -> RouterSettings | RecurrentSettings | DNCSettings:
    """The settings in a folder's config.json, checked before anything is built from them."""
    path = folder / "config.json"
    try:
        data = json.loads(path.read_text())
        adapter: TypeAdapter[RouterSettings | RecurrentSettings | DNCSettings] = TypeAdapter(ModelSettings)
        return adapter.validate_python(data["settings"])
    except FileNotFoundError as error:
        raise Refusal(f"{folder} holds no network: there is no config.json") from error
    except (ValueError, KeyError, TypeError, ValidationError, RecursionError) as error:
        raise Refusal(f"{path} does not describe a network of this version of ndr") from error


def build(settings: RouterSettings | RecurrentSettings | DNCSettings) -> Network:
    """A new network of these settings, with random weights."""
    module, name = CLASSES[settings.kind]
    network: Network = getattr(import_module(module), name)(settings)
    return network


def load(name_or_folder: str | Path) -> Network:
    """Any network from its folder, or a shipped one by its name."""
    folder = find(name_or_folder)
    if not folder.is_dir():
        known = sorted(path.name for path in SHIPPED.glob("*/")) if SHIPPED.is_dir() else []
        shipped = ", ".join(known) or "none"
        raise Refusal(f'there is no folder "{name_or_folder}" and no shipped network of this name (shipped: {shipped})')
    module, name = CLASSES[read_settings(folder).kind]
    network: Network = getattr(import_module(module), name).from_pretrained(folder)
    return network
