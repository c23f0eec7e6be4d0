"""The tables of this room: plain text, one entry a line, `#` before a comment."""

from __future__ import annotations

from importlib import resources


def read_lines(name: str) -> list[str]:
    """The entries of a table in `data/`."""
    text = (resources.files("myxtts.text.persian") / "data" / name).read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
