"""The most likely way through the sounds of a long text, frame by frame; in NumPy, for hours.

A model's own search (`models.alignment`) holds tokens times frames at once, which for an hour is
sixty gigabytes. Here only a band of states around the best one is looked at, so that time and
memory grow with the length alone; and states that may be silent can be left out.
Shapes: F frames, M mels, S states, W states of the band.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
BAND = 3072  # states: more than three minutes of speech
BLOCK = 128  # frames between two moves of the band
_NEVER = np.float32(-1e30)


def best_path(
    mels: Floats,
    means: Floats,
    optional: npt.NDArray[np.bool_],
    silence: Floats,
    *,
    band: int = BAND,
) -> tuple[npt.NDArray[np.int64], Floats] | None:
    """The state of each frame [F] and its log-likelihood [F]; None if the text does not fit.

    A state is a Gaussian of unit variance round its mean; an optional one, never next to another,
    may also be `silence`, or be left out. The path begins and ends with the first and last state
    or, if that is optional, the one beside it.
    """
    frames, states = len(mels), len(means)
    width = min(band, states)
    needed = states - int(optional.sum())
    if frames < needed or not frames:
        return None
    came = np.empty([frames, -(-width // 4)], np.uint8)  # two bits a state
    lows = np.empty([frames], np.int64)
    halves = 0.5 * np.square(means).sum(1)
    quiet = mels @ silence - 0.5 * np.float32(silence @ silence)
    total = np.full([width + 2], _NEVER, np.float32)  # two more in front, which nobody reaches
    low, skip = 0, _skips(optional, 0, width)
    for start in range(0, frames, BLOCK):
        if start:
            best = low + int(total[2:].argmax())
            moved = min(max(low, best - width // 3), states - width)
            if moved > low:
                shift = moved - low
                total[2:-shift] = total[2 + shift :]
                total[-shift:] = _NEVER
                low, skip = moved, _skips(optional, moved, width)
        stop = min(start + BLOCK, frames)
        inside = slice(low, low + width)
        heard = mels[start:stop] @ means[inside].T - halves[inside]
        gaps = np.flatnonzero(optional[inside])
        heard[:, gaps] = np.maximum(heard[:, gaps], quiet[start:stop, None])
        for frame in range(start, stop):
            if frame == 0:
                total[2] = heard[0, 0]
                if optional[0] and width > 1:
                    total[3] = heard[0, 1]
                way = np.zeros([width], np.uint8)
            else:
                stay, one = total[2:], total[1:-1]
                two = np.where(skip, total[:-2], _NEVER)
                better = one > stay
                way = better.astype(np.uint8)
                reached = np.maximum(stay, one)
                way[two > reached] = 2
                total[2:] = np.maximum(reached, two) + heard[frame - start]
            came[frame] = _pack(way)
            lows[frame] = low
    last = states - 1
    if optional[last] and last and _at(total, last - 1, low) > _at(total, last, low):
        last -= 1
    if _at(total, last, low) <= _NEVER / 2:
        return None  # the path never came so far
    path = _follow(came, lows, last)
    score = np.einsum("fm,fm->f", mels, means[path]) - halves[path]
    score = np.where(optional[path], np.maximum(score, quiet), score)
    return path, score.astype(np.float32)


def _skips(optional: npt.NDArray[np.bool_], low: int, width: int) -> npt.NDArray[np.bool_]:
    """Whether the state before each one of the band may be left out."""
    before = np.arange(low, low + width) - 1
    return np.where(before >= 0, optional[np.maximum(before, 0)], False)


def _at(total: Floats, state: int, low: int) -> float:
    place = state - low
    return float(total[2 + place]) if 0 <= place < len(total) - 2 else float(_NEVER)


def _pack(way: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    padded = np.zeros([-(-len(way) // 4) * 4], np.uint8)
    padded[: len(way)] = way
    four = padded.reshape(-1, 4)
    packed = four[:, 0] | four[:, 1] << 2 | four[:, 2] << 4 | four[:, 3] << 6
    return np.asarray(packed, np.uint8)


def _follow(
    came: npt.NDArray[np.uint8], lows: npt.NDArray[np.int64], last: int
) -> npt.NDArray[np.int64]:
    path = np.empty([len(came)], np.int64)
    state = last
    for frame in range(len(came) - 1, -1, -1):
        path[frame] = state
        place = state - int(lows[frame])
        state -= int(came[frame, place >> 2]) >> 2 * (place & 3) & 3
    return path
