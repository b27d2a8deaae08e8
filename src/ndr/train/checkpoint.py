"""Checkpoints: one safetensors file each, written whole or not at all, checked when read."""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ndr.errors import Refusal


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in its place in one piece: a reader, or a crash, sees the old file or the new one."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise Refusal(
            f"{path} could not be written ({error.strerror}); make room or mend the rights, then run the command again"
        ) from error


def write_json(path: Path, data: Any) -> None:
    write_whole(path, (json.dumps(data, indent=2) + "\n").encode())


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Tensors and plain state under one checksum."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state)
    write_whole(path, save(plain, {"state": text, "checksum": checksum(plain, text)}))


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What was saved, or None when the file is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError):
        return None
    text = metadata.get("state", "")
    if metadata.get("checksum") != checksum(tensors, text):
        return None
    return tensors, json.loads(text)


def checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
