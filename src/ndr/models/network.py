"""What all networks share: text in, answers out, and a folder to live in."""

import json
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Self

import torch
from jaxtyping import Float, Int
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_model
from torch import Tensor, nn

from ndr.data.vocabulary import Vocabulary
from ndr.errors import Refusal
from ndr.models import hub
from ndr.models.outline import outline
from ndr.models.settings import DNCSettings, ModelSettings, RecurrentSettings, RouterSettings, Texts
from ndr.whole import fill_whole, read_text, write_whole

SHIPPED = Path(__file__).parent / "pretrained"
# The kinds of number, in the words of safetensors, that a network can compute with.
FLOATS = {"F16", "BF16", "F32", "F64"}
CLASSES = {
    "router": ("ndr.models.router", "NeuralDataRouter"),
    "recurrent": ("ndr.models.recurrent", "Recurrent"),
    "dnc": ("ndr.models.dnc", "DNC"),
}


class Network(nn.Module):
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

    def save_pretrained(self, folder: str | Path) -> None:
        """Write model.safetensors, config.json and, unless there is one, README.md."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        config = place / "config.json"
        # Old settings never stand beside new weights: without settings it is not the folder of a network.
        config.unlink(missing_ok=True)
        fill_whole(place / "model.safetensors", lambda unfinished: save_model(self, str(unfinished)))
        settings = self.settings.model_dump(mode="json")
        write_whole(config, json.dumps({"settings": settings}, sort_keys=True, indent=2).encode())
        if not (place / "README.md").exists():
            write_whole(place / "README.md", hub.CARD.format(kind=self.KIND).encode())

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Put a network there",
    ) -> str:
        """Put the network on the Hugging Face hub as `owner/name`; the address of the commit."""
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.upload(Path(folder), name, private=private, token=token, message=commit_message)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> Self:
        """Load a folder written by `save_pretrained`, a network shipped with the package, or `owner/name` of the hub.

        The options are those of `huggingface_hub.snapshot_download` and matter for the hub only.
        """
        folder = find(pretrained_model_name_or_path)
        if not folder.is_dir():
            if str(pretrained_model_name_or_path).count("/") != 1:
                raise Refusal(missing(pretrained_model_name_or_path))
            folder = hub.download(
                str(pretrained_model_name_or_path),
                force_download=force_download,
                token=token,
                cache_dir=cache_dir,
                local_files_only=local_files_only,
                revision=revision,
            )
        settings = read_settings(folder)
        if settings.kind != cls.KIND:
            raise Refusal(f'{folder} holds a network of kind "{settings.kind}", not "{cls.KIND}"; use ndr.models.load')
        return cls.from_weights(settings, folder / "model.safetensors")

    @classmethod
    def from_weights(cls, settings: Texts, path: Path) -> Self:
        """A network with the weights of a safetensors file; names and shapes are compared before memory is taken."""
        with outline():
            network = cls(settings)
        expected = {name: list(value.shape) for name, value in network.state_dict().items()}
        try:
            with safe_open(path, framework="pt") as file:
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            found = {name: value.get_shape() for name, value in slices.items()}
            differing = sorted(name for name in expected | found if expected.get(name) != found.get(name))
            if differing:
                raise Refusal(f"{path} holds the weights of another network: {differing[0]} differs")
            kinds = {value.get_dtype() for value in slices.values()}
            if len(kinds) != 1 or not kinds <= FLOATS:
                raise Refusal(f"{path} holds numbers of kind {', '.join(sorted(kinds))}; one kind of float is needed")
            network.load_state_dict(load_file(path), assign=True)
        except FileNotFoundError as error:
            raise Refusal(f"{path} is missing") from error
        except (SafetensorError, OSError, ValueError) as error:
            raise error if isinstance(error, Refusal) else Refusal(f"{path} is damaged: {error}") from error
        return network.eval()


def check_tokens(tokens: Tensor, lengths: Tensor | None) -> None:
    """Shapes and types only: looking at the values would stop a compiled or exported network."""
    if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(f"tokens must be integers [batch, column], not {tokens.dtype} {tuple(tokens.shape)}")
    if lengths is not None and (lengths.shape != tokens.shape[:1] or lengths.is_floating_point()):
        raise ValueError(
            f"lengths must be integers [{tokens.shape[0]}], one for each row of tokens, "
            f"not {lengths.dtype} {tuple(lengths.shape)}"
        )


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


def missing(name: str | Path) -> str:
    known = sorted(path.name for path in SHIPPED.glob("*/")) if SHIPPED.is_dir() else []
    return f'there is no folder "{name}" and no shipped network of this name (shipped: {", ".join(known) or "none"})'


def read_settings(folder: Path) -> RouterSettings | RecurrentSettings | DNCSettings:
    """The settings in a folder's config.json, checked before anything is built from them."""
    path = folder / "config.json"
    try:
        data = json.loads(read_text(path))
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
        raise Refusal(missing(name_or_folder))
    module, name = CLASSES[read_settings(folder).kind]
    network: Network = getattr(import_module(module), name).from_pretrained(folder)
    return network
