"""Reads JSON that anybody may have written: plain values, bounded in size and depth.

What is wrong with a document is a ValueError, or an OSError where it cannot be opened at all; who
asked for it knows what to say to the user. What is written is written whole, or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MB = 1 << 20
MAX_BYTES = 64 * MB
TOO_DEEP = "it is nested too deeply"


def read_bounded(path: str | Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file: a pipe would be waited for, a device has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if found.st_size > max_bytes:
            raise ValueError(f"it has {found.st_size / MB:.1f} MB, at most {max_bytes / MB:.0f}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes + 1)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write, which becomes `path` once the block is through, and else is gone."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_json(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Any:
    """What a JSON file says."""
    return parse_json(read_bounded(path, max_bytes=max_bytes))


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
