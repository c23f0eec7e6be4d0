"""Reads YAML that anybody may have written, as `myxtts.documents` reads JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from myxtts.documents import MB, TOO_DEEP, read_bounded

MAX_BYTES = MB


def read_yaml(path: str | Path) -> Any:
    """What a YAML file says."""
    text = read_bounded(path, max_bytes=MAX_BYTES).decode("utf-8-sig")
    try:
        return yaml.load(text, _StrictLoader)  # noqa: S506 - a SafeLoader
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
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
