"""Where a long recording is cut: in the middle of the quietest places between words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.recordings.audio import LEVEL_S, Floats

LEAST_S, MOST_S, BEST_S = 1.5, 11.8, 6.0  # of a clip; the longest fits training's 1024 mel frames
EDGE_S = 0.25  # kept of a pause before and behind what is said
LEAST_PAUSE_S = 0.15  # where nothing but loudness tells words apart
REACH_S = 0.12  # into a word whose end may be heard early or late
REACH_DB = 100.0  # by which a place must be quieter for each second inside a word
QUIET_DB = 6.0  # above the quietest point: still the same quiet place
_LONG_PAUSE_S = 0.4  # longer ones are no better to cut at
_PAUSE_WEIGHT, _LEVEL_WEIGHT, _LENGTH_WEIGHT, _TOO_SHORT = 2.0, 3.0, 2.0, 25.0
_SPEECH_DB, _NOISE_DB = 75, 5  # percentiles of the levels


class Unit(NamedTuple):
    """What must not be cut: a word, or a stretch of speech."""

    start: float  # seconds
    end: float


class Cut(NamedTuple):
    """A clip: which units, and from where to where with the quiet around them."""

    first: int
    last: int  # excluded
    start: float
    end: float


def quietest(
    level: Floats, start: float, end: float, *, reach: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, float, float]:
    """The middle of the quietest place between two times, its level, and how long it is quiet.

    `reach` is how far before and behind them it may also be, if it is much quieter there.
    """
    first = max(0, int((start - reach[0]) / LEVEL_S))
    last = min(len(level), max(first + 1, int(np.ceil((end + reach[1]) / LEVEL_S))))
    if first >= last:
        return start, 0.0, 0.0
    inside = level[first:last]
    times = (np.arange(first, last) + 0.5) * LEVEL_S
    outside = np.maximum(0.0, np.maximum(start - times, times - end))
    best = int((inside + REACH_DB * outside).argmin())
    lowest = float(inside[best])
    quiet = inside <= lowest + QUIET_DB
    left = right = best
    while left > 0 and quiet[left - 1]:
        left -= 1
    while right + 1 < len(quiet) and quiet[right + 1]:
        right += 1
    middle = (first + (left + right + 1) / 2) * LEVEL_S
    return middle, lowest, (right + 1 - left) * LEVEL_S


def cut_units(units: Sequence[Unit], level: Floats) -> list[Cut]:
    """Clips of whole units, each of 1.5 to 11.8 s where that can be; none is left out.

    Of all ways the one is taken whose cuts are quietest and longest, and whose clips are nearest
    to 6 s: the cheapest sum, found from the end of each clip backwards.
    """
    if not units:
        return []
    seconds = len(level) * LEVEL_S
    places = [max(0.0, units[0].start - EDGE_S)]
    costs = [0.0]
    speech, noise = np.percentile(level, [_SPEECH_DB, _NOISE_DB])
    for before, behind in pairwise(units):
        reach = (
            min(REACH_S, (before.end - before.start) / 2),
            min(REACH_S, (behind.end - behind.start) / 2),
        )
        place, lowest, length = quietest(level, before.end, behind.start, reach=reach)
        loud = np.clip((lowest - noise) / max(speech - noise, 1.0), 0.0, 1.0)
        pause = max(behind.start - before.end, 0.0) if lowest < speech - 10.0 else 0.0
        pause = min(max(pause, length if lowest < speech - 20.0 else 0.0), _LONG_PAUSE_S)
        places.append(place)
        # Never less than nothing, or more cuts would always be better.
        short = 1.0 - pause / _LONG_PAUSE_S
        costs.append(_LEVEL_WEIGHT * float(loud) + _PAUSE_WEIGHT * short)
    places.append(min(seconds, units[-1].end + EDGE_S))
    costs.append(0.0)
    cheapest, came = [0.0], [0]
    for last in range(1, len(units) + 1):
        best, origin = float("inf"), last - 1
        for first in range(last - 1, -1, -1):
            cut = _clip(units, places, first, last)
            length = cut.end - cut.start
            if length > MOST_S and first < last - 1:
                break
            cost = cheapest[first] + costs[last] + _LENGTH_WEIGHT * (length / BEST_S - 1.0) ** 2
            cost += _TOO_SHORT * max(0.0, LEAST_S - length)
            if cost < best:
                best, origin = cost, first
        cheapest.append(best)
        came.append(origin)
    cuts, last = [], len(units)
    while last > 0:
        cuts.append(_clip(units, places, came[last], last))
        last = came[last]
    return cuts[::-1]


def speech_units(speech: npt.NDArray[np.bool_], level: Floats) -> list[Unit]:
    """Stretches of speech between pauses; one too long for a clip is cut where it is quietest."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], speech, [False]]).astype(np.int8)))
    frame = HOP / SAMPLE_RATE
    units: list[Unit] = []
    for start, end in zip(edges[::2] * frame, edges[1::2] * frame, strict=True):
        if units and start - units[-1].end < LEAST_PAUSE_S:
            units[-1] = Unit(units[-1].start, float(end))
        else:
            units.append(Unit(float(start), float(end)))
    return [part for unit in units for part in _parts(unit, level)]


def _parts(unit: Unit, level: Floats) -> list[Unit]:
    if unit.end - unit.start <= MOST_S - 2 * EDGE_S:
        return [unit]
    quarter = (unit.end - unit.start) / 4
    middle = quietest(level, unit.start + quarter, unit.end - quarter)[0]
    return _parts(Unit(unit.start, middle), level) + _parts(Unit(middle, unit.end), level)


def _clip(units: Sequence[Unit], places: Sequence[float], first: int, last: int) -> Cut:
    start = max(places[first], units[first].start - EDGE_S)
    end = min(places[last], units[last - 1].end + EDGE_S)
    return Cut(first, last, max(0.0, start), max(end, start))
