"""The outline of a recording, as the path of an SVG picture that takes the page's own colours."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

COLUMNS, HEIGHT = 240, 48
_QUIETEST = 0.02  # a scale of its own for each, but noise alone does not fill the picture


def outline(path: Path) -> str:
    """The `d` of a path in a box of COLUMNS by HEIGHT; a flat line where nothing can be read."""
    try:
        stat = path.stat()
        return _outline(str(path), stat.st_size, stat.st_mtime_ns)
    except OSError:
        return _flat()


@lru_cache(maxsize=512)
def _outline(path: str, size: int, changed: int) -> str:
    import soundfile  # late: --help must be quick

    try:
        samples = soundfile.read(path, dtype="float32", always_2d=True)[0].mean(axis=1)
    except (soundfile.SoundFileError, OSError, ValueError, RuntimeError):
        return _flat()
    if len(samples) < COLUMNS:
        return _flat()
    parts = np.array_split(np.nan_to_num(np.abs(samples)), COLUMNS)
    peaks = np.array([part.max() for part in parts])
    heights = np.maximum(0.6, peaks / max(float(peaks.max()), _QUIETEST) * (HEIGHT / 2 - 1))
    middle = HEIGHT / 2
    # One stroke a column: crisp at any width, and a quarter of the characters of an outline.
    return "".join(
        f"M{x + 0.5:g} {middle - height:.1f}v{2 * height:.1f}" for x, height in enumerate(heights)
    )


def _flat() -> str:
    return f"M0 {HEIGHT / 2:g}h{COLUMNS}"
