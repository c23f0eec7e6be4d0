"""What is heard of a reference, in NumPy: log-mels and pitch, as `features.mels` and `.pitch`.

Shapes: S samples, F frames, M mels. One recording at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.features.audio import FFT, HOP, num_frames
from myxtts.features.filters import (
    CELL,
    GRAIN,
    LAG_PREFERENCE,
    LOG_FLOOR,
    MAX_LAG,
    MEL_BINS,
    MIN_LAG,
    NO_OPINION,
    NUM_CELLS,
    OCTAVES,
    PITCH_FFT,
    PITCH_HOP,
    PITCH_RATE,
    PITCH_WINDOW,
    PLACES,
    STRETCH,
    YIN_VOICED,
    half_band,
    hann,
    mel_matrix,
)

Floats = npt.NDArray[np.float32]


def log_mel(wave: Floats) -> Floats:
    """Natural-log mels [F, M] of a wave [S] within ±1."""
    padded = np.pad(wave, FFT // 2, mode="reflect").astype(np.float64)
    frames = _frames(padded, num_frames(len(wave)), FFT, HOP)
    magnitude = np.abs(np.fft.rfft(frames * hann())[:, :MEL_BINS]).astype(np.float32)
    mels: Floats = np.log(np.maximum(magnitude @ mel_matrix()[:MEL_BINS], LOG_FLOOR))
    return mels


def pitch(wave: Floats, length: int) -> Floats:
    """Fundamental frequency [F] in Hz, 0 where unvoiced, of a wave [S] whose rest is padding."""
    cost = _aperiodicity(_halve_rate(wave), num_frames(len(wave)))
    local = cost[:, MIN_LAG : MIN_LAG + NUM_CELLS * CELL] + LAG_PREFERENCE * OCTAVES
    cells = local.reshape(len(cost), NUM_CELLS, CELL)
    path = _cheapest_path(np.minimum(cells.min(axis=-1), np.float32(NO_OPINION)))
    rows = np.arange(len(cost))
    lag = MIN_LAG + CELL * path + cells[rows, path].argmin(axis=-1)
    left, here, right = (cost[rows, lag + step] for step in (-1, 0, 1))
    bend = left - 2.0 * here + right
    shift = np.where(bend > 1e-6, 0.5 * (left - right) / np.maximum(bend, 1e-6), 0.0)
    period = lag.astype(np.float32) + np.clip(shift, -0.5, 0.5)
    voiced = (here < YIN_VOICED) & (np.arange(len(cost)) * HOP <= length) & (length > 0)
    found: Floats = np.where(voiced, PITCH_RATE / period, 0.0).astype(np.float32)
    return found


def _aperiodicity(wave: Floats, count: int) -> Floats:
    """YIN's normalised difference [F, lags]: near 0 at the period."""
    span = PITCH_WINDOW + MAX_LAG
    blocks = _frames(np.pad(wave, [span // 2, span]), count, span, PITCH_HOP)
    heads = np.fft.rfft(blocks[:, :PITCH_WINDOW], PITCH_FFT)
    products = np.fft.rfft(blocks, PITCH_FFT) * heads.conj()
    correlation = np.fft.irfft(products, PITCH_FFT)[:, : MAX_LAG + 1]
    squares = np.square(blocks)
    change = squares[:, PITCH_WINDOW:] - squares[:, :MAX_LAG]
    energy = squares[:, :PITCH_WINDOW].sum(axis=-1, keepdims=True)
    energies = energy + np.pad(np.cumsum(change, axis=-1), [[0, 0], [1, 0]])
    difference = np.maximum(energy + energies - 2.0 * correlation, 0.0)
    lags = np.arange(MAX_LAG + 1, dtype=np.float32)
    running = np.cumsum(difference, axis=-1)
    cost: Floats = ((difference * lags + 1e-7) / (running + 1e-7)).astype(np.float32)
    return cost


def _cheapest_path(costs: Floats) -> npt.NDArray[np.int64]:
    """The cell of each frame [F] for costs [F, C], where a move costs its distance in octaves."""
    steps = np.round(costs / GRAIN) * np.float32(GRAIN)
    moves = np.abs(PLACES[:, None] - PLACES).astype(np.float32)
    totals = [steps[0]]
    for here in steps[1:]:
        totals.append(here + (totals[-1] + moves).min(axis=-1))
    cell = int(totals[-1].argmin())
    path = [cell]
    for total in reversed(totals[:-1]):
        cell = int((total + moves[cell]).argmin())
        path.append(cell)
    return np.array(path[::-1])


def _halve_rate(wave: Floats) -> Floats:
    matrix = half_band()
    margin = (len(matrix) - STRETCH) // 2
    count = -(-len(wave) // STRETCH)
    padded = np.pad(wave, [margin, margin + count * STRETCH - len(wave)])
    halved: Floats = (_frames(padded, count, len(matrix), STRETCH) @ matrix).reshape(-1)
    return halved


def _frames(samples: npt.NDArray[np.floating], count: int, size: int, hop: int) -> npt.NDArray:  # type: ignore[type-arg]
    return np.lib.stride_tricks.sliding_window_view(samples, size)[::hop][:count]
