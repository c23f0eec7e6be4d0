"""Pictures of speech: mels under one another, their pitch, and which token was spoken when.

Drawn with matplotlib's objects alone; pyplot keeps global state and would make threads collide.
"""

from __future__ import annotations

import io
import math
import textwrap
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from myxtts.errors import DataError
from myxtts.features.audio import HOP, NUM_MELS, SAMPLE_RATE

WIDTH_PX = 1200
DPI = 100
MEL_PANEL_IN, MIN_ALIGNMENT_IN = 2.3, 3.0  # inches
COLOURS = "magma"  # perceptually uniform, and grey prints keep its order
PITCH_COLOUR = "#3ee6e6"  # stands off from every colour of the map
RANGE = 9.0  # natural log: 78 dB below the loudest is black
MAX_LABELS = 64  # above that every second, third … token is named
LABEL_PX = 12  # the height a token's name needs
MAX_TITLE = 110  # characters in one line
KILOHERTZ = (0.5, 1, 2, 4, 8)

_lock = threading.Lock()  # matplotlib's font cache and the warning filters are the process's own


def draw_speech(
    mels: Mapping[str, np.ndarray],
    *,
    alignment: np.ndarray | None = None,
    symbols: Sequence[str] = (),
    pitch: Mapping[str, np.ndarray] | None = None,
    title: str = "",
) -> bytes:
    """Draw named log-mels [F, 80] one above the other and an alignment [T, F] below, as a PNG.

    `pitch` holds contours in Hz by the mels' names, 0 where unvoiced. `symbols` name the rows of
    the alignment. The same input gives the same bytes.
    """
    pitch = pitch or {}
    _check(mels, alignment, symbols, pitch)
    with _lock, warnings.catch_warnings():
        # A script the font lacks is drawn as boxes; a picture is no place to fail or to complain.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        return _draw(mels, alignment, symbols, pitch, title)


def _draw(
    mels: Mapping[str, np.ndarray],
    alignment: np.ndarray | None,
    symbols: Sequence[str],
    pitch: Mapping[str, np.ndarray],
    title: str,
) -> bytes:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [MEL_PANEL_IN] * len(mels)
    if alignment is not None:
        heights.append(_alignment_height_in(alignment))
    style: dict[Any, Any] = {
        "font.family": "DejaVu Sans",  # comes with matplotlib and has the whole IPA
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "text.parse_math": False,  # a dollar in a sentence is a dollar
        "text.usetex": False,
    }
    with mpl.rc_context(style):
        figure = Figure(
            figsize=(WIDTH_PX / DPI, sum(heights) + 0.5 + 0.3 * bool(title)),
            dpi=DPI,
            layout="constrained",
        )
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(textwrap.shorten(title, MAX_TITLE, placeholder=" …"), fontsize=13)
        panels = figure.subplots(
            len(heights), 1, sharex=True, squeeze=False, height_ratios=heights
        )[:, 0]
        loudest = _loudest(mels)
        for panel, (name, mel) in zip(panels, mels.items(), strict=False):
            _draw_mel(panel, name, mel, loudest, pitch.get(name))
        if alignment is not None:
            _draw_alignment(panels[-1], alignment, symbols)
        longest = max(len(mel) for mel in mels.values())
        if alignment is not None:
            longest = max(longest, alignment.shape[1])
        panels[-1].set_xlim(0.0, longest * HOP / SAMPLE_RATE)
        panels[-1].set_xlabel("seconds")
        png = io.BytesIO()
        figure.savefig(png, format="png", metadata={"Software": None})
        return png.getvalue()


def _draw_mel(
    panel: Any, name: str, mel: np.ndarray, loudest: float, pitch: np.ndarray | None
) -> None:
    seconds = len(mel) * HOP / SAMPLE_RATE
    image = panel.imshow(
        mel.T,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=COLOURS,
        vmin=loudest - RANGE,
        vmax=loudest,
        extent=(0.0, seconds, 0.0, NUM_MELS),
    )
    panel.set_facecolor("0.92")  # where this clip has ended and another has not
    panel.set_title(name)
    panel.set_ylabel("kHz")
    panel.set_yticks([_band(1000.0 * k) for k in KILOHERTZ], [f"{k:g}" for k in KILOHERTZ])
    panel.set_ylim(0.0, NUM_MELS)
    bar = panel.figure.colorbar(image, ax=panel, pad=0.01, aspect=18)
    bar.set_label("log amplitude")
    if pitch is not None:
        _draw_pitch(panel, pitch)


def _draw_pitch(panel: Any, pitch: np.ndarray) -> None:
    hertz = np.where(np.isfinite(pitch) & (pitch > 0), pitch, np.nan)
    over = panel.twinx()
    middles = (np.arange(len(hertz)) + 0.5) * HOP / SAMPLE_RATE
    style = {"color": PITCH_COLOUR, "linewidth": 1.6, "solid_capstyle": "round"}
    over.plot(middles, hertz, marker=".", markersize=2.5, **style)
    over.set_ylim(0.0, max(400.0, 1.2 * np.nanmax(np.append(hertz, 0.0))))
    over.set_ylabel("pitch, Hz")


def _draw_alignment(panel: Any, alignment: np.ndarray, symbols: Sequence[str]) -> None:
    tokens, frames = alignment.shape
    image = panel.imshow(
        np.nan_to_num(alignment),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=COLOURS,
        vmin=0.0,
        vmax=1.0,
        extent=(0.0, frames * HOP / SAMPLE_RATE, 0.0, tokens),
    )
    panel.set_facecolor("0.92")
    panel.set_title("alignment")
    panel.set_ylim(0.0, tokens)
    bar = panel.figure.colorbar(image, ax=panel, pad=0.01, aspect=25)
    bar.set_label("share of the frame")
    if not symbols:
        panel.set_ylabel("token")
        return
    every = _name_every(tokens)
    rows = range(0, tokens, every)
    panel.set_yticks([row + 0.5 for row in rows], [_visible(symbols[row]) for row in rows])
    panel.tick_params(axis="y", labelsize=9 if tokens <= 20 else 8, length=2)
    panel.set_ylabel("token" if every == 1 else f"token (1 of {every} named)")


def _band(hertz: float) -> float:
    """Where a frequency lies among the mel bands, counted from the panel's bottom."""

    def mel(value: float) -> float:
        if value < 1000.0:
            return value * 0.015
        return 15.0 + 27.0 * math.log(value / 1000.0) / math.log(6.4)

    # Band i peaks in the middle of its row; 8 kHz is half a row above the last.
    return min(mel(hertz) / mel(8000.0) * (NUM_MELS + 1) - 0.5, NUM_MELS)


def _loudest(mels: Mapping[str, np.ndarray]) -> float:
    """The top of the colour scale, shared so that the panels can be compared."""
    seen = [mel[np.isfinite(mel)] for mel in mels.values()]
    return max((float(values.max()) for values in seen if values.size), default=0.0)


def _alignment_height_in(alignment: np.ndarray) -> float:
    named = -(-len(alignment) // _name_every(len(alignment)))
    return max(MIN_ALIGNMENT_IN, named * LABEL_PX / DPI + 0.6)  # the rest goes to title and axis


def _name_every(tokens: int) -> int:
    return -(-tokens // MAX_LABELS)


def _visible(symbol: str) -> str:
    return "␣" if symbol.isspace() else symbol


def _check(
    mels: Mapping[str, np.ndarray],
    alignment: np.ndarray | None,
    symbols: Sequence[str],
    pitch: Mapping[str, np.ndarray],
) -> None:
    if not mels:
        raise DataError("There is no mel to draw.", "at least one, named: {'original': mel}")
    for name, mel in mels.items():
        if mel.ndim != 2 or mel.shape[1] != NUM_MELS or not len(mel):
            raise DataError(
                f"The mel {name!r} has the shape {list(mel.shape)}.",
                f"[frames, {NUM_MELS}] with at least one frame",
            )
    for name, contour in pitch.items():
        if name not in mels or contour.ndim != 1:
            raise DataError(
                f"The pitch {name!r} fits no mel (shape {list(contour.shape)}).",
                f"[frames] in Hz, named as its mel: {', '.join(mels)}",
            )
    if alignment is None:
        return
    if alignment.ndim != 2 or not alignment.size:
        raise DataError(
            f"The alignment has the shape {list(alignment.shape)}.", "[tokens, frames], not empty"
        )
    if symbols and len(symbols) != len(alignment):
        raise DataError(
            f"{len(symbols)} symbols cannot name {len(alignment)} tokens.",
            "one symbol for each row of the alignment, or none at all",
        )
