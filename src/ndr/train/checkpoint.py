"""Checkpoints: one safetensors file each, written whole or not at all, checked when read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ndr.errors import Refusal
from ndr.train.memory import physical_memory
from ndr.whole import read_text, write_whole

__all__ = [
    "checksum",
    "is_intact",
    "load_checkpoint",
    "read_json",
    "read_sealed",
    "save_checkpoint",
    "seal",
    "write_json",
    "write_whole",
]


def write_json(path: Path, data: Any) -> None:
    write_whole(path, (json.dumps(data, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except FileNotFoundError as error:
        raise Refusal(f"{path} is missing: {path.parent} is not the folder of a run") from error
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(damaged(path, str(error))) from error


def damaged(path: Path, why: str = "its checksum is another") -> str:
    return f"{path} is damaged ({why}); remove {path} and run the training again, which writes it anew"


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with a checksum of itself."""
    return {**record, "checksum": digest(record)}


def read_sealed(path: Path) -> dict[str, Any]:
    """A sealed record without its seal."""
    record = read_json(path)
    if not isinstance(record, dict):
        raise Refusal(damaged(path, "it holds no record"))
    if not is_intact(record):
        raise Refusal(damaged(path))
    return {key: value for key, value in record.items() if key != "checksum"}


def is_intact(record: Mapping[str, Any]) -> bool:
    """Whether a record is as it was sealed; those of earlier versions bear no seal."""
    content = {key: value for key, value in record.items() if key != "checksum"}
    return bool(record.get("checksum", digest(content)) == digest(content))


def digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Tensors and plain state under one checksum."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state)
    write_whole(path, save(plain, {"state": text, "checksum": checksum(plain, text)}))


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What was saved, or None when the file is missing or damaged. One that cannot be read is neither."""
    try:
        if path.stat().st_size > physical_memory():
            return None
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise Refusal(f"{path} cannot be read ({error}); mend that and run the same command again") from error
    text = metadata.get("state", "")
    if metadata.get("checksum") != checksum(tensors, text):
        return None
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (tensors, state) if isinstance(state, dict) else None


def checksum(tensors: Mapping[str, Tensor], text: str = "") -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
