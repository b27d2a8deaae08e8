"""To and from the Hugging Face hub. The library is imported by whoever asks: it takes longer than opening a network."""

from pathlib import Path
from typing import Any

from ndr.errors import Refusal

CARD = """---
library_name: ndr
tags:
- systematic-generalization
---

A network of `ndr`, the Neural Data Router (kind: {kind}). Its settings stand in `config.json`.

```python
from ndr.models import load

network = load("path of this folder")
print(network.settings.tokens, network.settings.answers)
```
"""


def download(name: str, **options: Any) -> Path:
    """The settings and weights of a network on the hub, and nothing else: no pickle is fetched or opened."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["config.json", "model.safetensors"], **options))
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise Refusal(f'there is no folder "{name}", and the hub did not give it: {reason}') from error


def upload(folder: Path, name: str, *, private: bool | None, token: str | None, message: str) -> str:
    """Put a folder there as `owner/name`; the address of the commit."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    repository = api.create_repo(name, private=private, exist_ok=True).repo_id
    return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message))
