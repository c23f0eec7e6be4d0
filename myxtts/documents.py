"""Reads JSON and YAML that anybody may have written: plain values, bounded in size and depth.

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

import yaml

MB = 1 << 20
MAX_BYTES = 64 * MB
MAX_YAML_BYTES = MB
_TOO_DEEP = "it is nested too deeply"


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
        raise ValueError(_TOO_DEEP) from None


def read_yaml(path: str | Path) -> Any:
    """What a YAML file says."""
    text = read_bounded(path, max_bytes=MAX_YAML_BYTES).decode("utf-8-sig")
    try:
        return yaml.load(text, _StrictLoader)  # noqa: S506 - a SafeLoader
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except (yaml.YAMLError, OverflowError, TypeError) as error:  # as constructors raise them
        raise ValueError(str(error)) from error


class _StrictLoader(yaml.SafeLoader):
    """A safe loader without aliases, of which a few lines make gigabytes, and without repeats."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            problem = f"an alias (*{event.anchor}); write the value out"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a name", key.start_mark
                )
            if key.value in seen:  # YAML would silently take the last
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
