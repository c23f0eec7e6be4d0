"""A checkpoint as bytes, for replicas that cannot read the folder it lies in."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.numpy import load, save

from myxtts.documents import parse_json
from myxtts.runs.checkpoints import Checkpoint


def pack(checkpoint: Checkpoint | None) -> bytes:
    """All of it, or that there is none."""
    if checkpoint is None:
        return b""
    groups = {name: save(dict(arrays)) for name, arrays in checkpoint.tensors.items()}
    about = {
        "folder": str(checkpoint.folder),
        "step": checkpoint.step,
        "state": checkpoint.state,
        "sizes": {name: len(content) for name, content in groups.items()},
    }
    head = json.dumps(about).encode()
    return b"".join([len(head).to_bytes(8, "big"), head, *groups.values()])


def unpack(content: bytes) -> Checkpoint | None:
    """What `pack` was given."""
    if not content:
        return None
    at = 8 + int.from_bytes(content[:8], "big")
    about = parse_json(content[8:at])
    tensors = {}
    for name, size in about["sizes"].items():
        tensors[name] = load(content[at : at + size])
        at += size
    return Checkpoint(Path(about["folder"]), about["step"], tensors, about["state"])
