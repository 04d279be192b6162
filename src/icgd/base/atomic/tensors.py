"""Tensors on disk: safetensors with a checksum over names, types, shapes, numbers and metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from icgd.base.atomic.whole_file import write_bytes
from icgd.errors import InvalidFile

DIGEST = "digest"
ODD_CONTENT = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    OverflowError,
    MemoryError,
)
"""What libraries raise for headers that are valid and mean nothing, such as a type they do not know."""


def digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Changes with any bit of any tensor, any name, type or shape, and any entry of the metadata.

    >>> one, other = torch.tensor([0.0]), torch.tensor([-0.0])
    >>> digest({"a": one}, {}) == digest({"a": other}, {})
    False
    """
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        head = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        sha.update(f"{head}\n".encode())
        # A copy: one number alone may keep a stride that no view of bytes can have.
        flat = tensor.reshape(-1).clone(memory_format=torch.contiguous_format)
        sha.update(flat.view(torch.uint8).numpy().tobytes())
    rest = {name: value for name, value in metadata.items() if name != DIGEST}
    sha.update(json.dumps(rest, sort_keys=True).encode())
    return f"sha256:{sha.hexdigest()}"


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a safetensors file with its checksum in the metadata."""
    stored = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return save(stored, metadata={**metadata, DIGEST: digest(stored, metadata)})


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """A safetensors file, whole or not at all, with the modes of any other file."""
    write_bytes(path, tensor_bytes(tensors, metadata))


def read_tensors(
    path: Path, what: str, *, compare: bool = True
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata; the checksum, where there is one, has been compared.

    what     the kind of file, for messages
    compare  False: take what is there, whatever the checksum says
    """
    try:
        # Read, not mapped: what is compared is what is used, whatever happens to the file later.
        content = path.read_bytes()
        tensors: dict[str, Tensor] = load(content)
        metadata = _metadata(content)
        actual = digest(tensors, metadata)
    except (SafetensorError, OSError, *ODD_CONTENT) as error:
        raise InvalidFile(
            f"{path} is not a readable {what} ({_first_line(error)}). The file is damaged."
        ) from error
    if compare and DIGEST in metadata and metadata[DIGEST] != actual:
        raise InvalidFile(
            f"{path} is damaged: its content does not match its checksum. Use a copy, or write it again."
        )
    return tensors, metadata


def _metadata(content: bytes) -> dict[str, str]:
    """Of a file that has been read as safetensors: 8 bytes of length, then a header in JSON."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    stored: dict[str, str] = header.get("__metadata__") or {}
    return stored


def _first_line(error: Any) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
