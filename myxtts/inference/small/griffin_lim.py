"""Griffin-Lim in NumPy: the rounds of `inference.vocoder`, one mel at a time.

Shapes: F frames, M mels, K bins, N samples of a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.features.audio import FFT, HOP, SAMPLE_RATE
from myxtts.features.filters import LOG_FLOOR
from myxtts.inference.vocoder_tables import (
    BREATH_BINS,
    CLIMBS,
    GAIN_LIMITS,
    GAIN_POWER,
    HIGH_PITCH,
    INNER_BINS,
    INNER_FFT,
    INNER_HOP,
    INVERSION_ROUNDS,
    LOW_PITCH,
    OVERLAP,
    ROUNDS,
    band_smoother,
    checked,
    mel_filters,
    mel_shares,
    pulse_train,
)

Floats = npt.NDArray[np.float32]
Spectra = npt.NDArray[Any]  # complex64; NumPy's own types do not know that it can transform them


class SmallGriffinLim:
    """The built-in vocoder without TensorFlow; nothing is random."""

    sample_rate = SAMPLE_RATE

    def __init__(self, *, iterations: int = ROUNDS, momentum: float = 0.99) -> None:
        self.iterations, self.momentum = iterations, np.float32(momentum)

    def __call__(
        self, log_mels: Sequence[np.ndarray], pitches: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Speak each mel [F, M], with its pitch [F] if known; the waves come in the same order."""
        mels = [checked(mel, index=index) for index, mel in enumerate(log_mels)]
        contours = pitches or [np.zeros(len(mel), np.float32) for mel in mels]
        return [
            self._invert(mel, contour) if len(mel) else np.zeros(0, np.float32)
            for mel, contour in zip(mels, contours, strict=True)
        ]

    def _invert(self, mel: Floats, contour: Floats) -> Floats:
        audible = mel > np.log(LOG_FLOOR) + 1e-4
        amplitudes = np.where(audible, np.exp(mel), 0.0).astype(np.float32)
        wanted = amplitudes * np.float32(INNER_FFT / FFT)
        filters, shares = mel_filters(), mel_shares()
        window, scale = _window_and_scale(INNER_FFT, len(mel))
        pulses = np.zeros([len(mel) + OVERLAP - 1, INNER_HOP], np.float32)
        if contour.any():
            pulses = pulse_train(contour)
        buzz = np.fft.rfft(_side_by_side(pulses) * window)
        voiced = (contour > 0)[:, None]
        fine = np.where(voiced, _fine_structure(buzz), np.float32(1.0))
        magnitude = _invert_mel(wanted, fine)
        # The lower the voice, the less of its harmonics is in the mel: then the buzz has them all.
        trust = np.clip((HIGH_PITCH - contour) / (HIGH_PITCH - LOW_PITCH), 0.0, 1.0)
        trust = np.where(voiced, trust[:, None], 0.0).astype(np.float32)
        average = wanted / (filters.sum(axis=0) + np.float32(1e-9))
        combed = average @ band_smoother() @ shares * fine
        magnitude = magnitude + trust * (combed - magnitude)
        wanted = wanted + trust * (magnitude @ filters - wanted)
        phase = np.where(voiced, np.angle(buzz), _starting_phase(magnitude)).astype(np.float32)
        spectrum: Spectra = np.empty(magnitude.shape, np.complex64)
        spectrum.real, spectrum.imag = magnitude * np.cos(phase), magnitude * np.sin(phase)
        return _at_full_rate(self._rounds(spectrum, magnitude, wanted, window, scale))

    def _rounds(
        self,
        spectrum: Spectra,
        magnitude: Floats,
        wanted: Floats,
        window: Floats,
        scale: Floats,
    ) -> Spectra:
        """The rounds; all arrays are made once, since making them takes as long as the sums."""
        # NumPy transforms float32 four times as fast where it also scales the result: without a
        # factor of that type it goes by way of float64. The size is made up for in the filters.
        filters, shares = mel_filters() * np.float32(INNER_FFT), mel_shares()
        frames: Any = np.empty([len(spectrum), INNER_FFT], np.float32)
        hops, before, ahead = (np.zeros_like(scale) for _ in range(3))
        overlapping = _side_by_side(ahead)
        moved, level = np.empty_like(spectrum), np.empty_like(magnitude)
        ratio, gain = np.empty_like(magnitude), np.empty_like(wanted)
        for number in range(self.iterations):
            np.fft.irfft(spectrum, out=frames)
            frames *= window
            _overlap_add(frames, hops)
            hops *= scale
            # The transform is linear: momentum of the wave is momentum of its spectrum.
            np.subtract(hops, before, out=ahead)
            ahead *= self.momentum if number else np.float32(0.0)
            ahead += hops
            np.multiply(overlapping, window, out=frames)
            np.fft.rfft(frames, out=moved, norm="forward")
            np.abs(moved, out=level)
            np.maximum(level, np.float32(1e-10 / INNER_FFT), out=level)
            # Phases that disagree cancel each other: ask for more where the mel came out too low.
            np.matmul(level, filters, out=gain)
            gain += np.float32(1e-9)
            np.divide(wanted, gain, out=gain)
            np.clip(gain, *GAIN_LIMITS, out=gain)
            np.power(gain, np.float32(GAIN_POWER), out=gain)
            np.matmul(gain, shares, out=ratio)
            ratio *= magnitude
            ratio /= level
            np.multiply(moved, ratio, out=spectrum)
            hops, before = before, hops
        return spectrum


def _fine_structure(buzz: Spectra) -> Floats:
    filters = mel_filters()
    level = np.abs(buzz)
    smooth = (level @ filters / (filters.sum(axis=0) + np.float32(1e-9))) @ mel_shares()
    fine: Floats = 1.0 + _buzzing() * (level / (smooth + np.float32(1e-6)) - 1.0)
    return fine


@lru_cache(maxsize=1)
def _buzzing() -> Floats:
    return np.interp(np.arange(INNER_BINS), *BREATH_BINS).astype(np.float32)


def _invert_mel(amplitudes: Floats, fine: Floats) -> Floats:
    filters, shares = mel_filters(), mel_shares()
    magnitude: Floats = amplitudes @ shares * fine
    for _ in range(INVERSION_ROUNDS):
        magnitude *= (amplitudes / (magnitude @ filters + np.float32(1e-12))) @ shares
    return magnitude


def _starting_phase(magnitude: Floats) -> Floats:
    """Phases [F, K] of one steady tone under each spectral peak."""
    frames, bins = magnitude.shape
    index = np.arange(bins, dtype=np.float32)
    log = np.log(magnitude + np.float32(1e-9))
    left = np.concatenate([log[:, :1], log[:, :-1]], axis=1)
    right = np.concatenate([log[:, 1:], log[:, -1:]], axis=1)
    uphill = np.where(right > log, 1, 0)
    uphill = np.where((left > log) & (left > right), -1, uphill)
    peak = np.arange(bins) + uphill
    first = np.arange(frames)[:, None] * bins  # of a frame's bins, in the row of all
    for _ in range(CLIMBS):
        peak = peak.ravel().take(peak + first)
    bend = left - 2.0 * log + right
    shift = np.clip(0.5 * (left - right) / np.minimum(bend, np.float32(-1e-6)), -0.5, 0.5)
    tone = (index + shift).ravel().take(peak + first)
    turn = np.mod(tone * np.float32(2.0 * np.pi / OVERLAP), np.float32(2.0 * np.pi))
    turn += np.float32(np.pi) * ((np.arange(bins) - peak) & 1).astype(np.float32)
    phases = np.empty_like(magnitude)
    phase = np.zeros(bins, np.float32)
    for frame in range(frames):
        phase = phase.take(peak[frame]) + turn[frame]
        phases[frame] = phase
    return phases


def _at_full_rate(spectrum: Spectra) -> Floats:
    window, scale = _window_and_scale(FFT, len(spectrum))
    hops = np.empty_like(scale)
    _overlap_add(np.fft.irfft(spectrum, FFT) * np.float32(FFT / INNER_FFT) * window, hops)
    first = FFT // 2 // HOP
    wave: Floats = (hops * scale)[first : first + len(spectrum)].reshape(-1)
    return wave


def _window_and_scale(fft: int, frames: int) -> tuple[Floats, Floats]:
    """The window [N], and what undoes its overlapping squares [F + 3, N / 4]."""
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(fft) / fft)).astype(np.float32)
    cover = np.empty([frames + OVERLAP - 1, fft // OVERLAP], np.float32)
    _overlap_add(np.broadcast_to(np.square(window), [frames, fft]), cover)
    return window, 1.0 / np.maximum(cover, np.float32(1e-3))


def _overlap_add(frames: Floats, hops: Floats) -> None:
    """Sum frames [F, N] a hop apart, into hops [F + 3, N / 4]."""
    count, hop = len(frames), frames.shape[1] // OVERLAP
    hops[:count], hops[count:] = frames[:, :hop], 0.0
    for part in range(1, OVERLAP):
        hops[part : part + count] += frames[:, part * hop : (part + 1) * hop]


def _side_by_side(hops: Floats) -> Floats:
    """Frames [F, N] of hops [F + 3, N / 4]: a view, since they lie one behind the other."""
    hop = hops.shape[1]
    flat = hops.reshape(-1)
    frames: Floats = np.lib.stride_tricks.sliding_window_view(flat, hop * OVERLAP)[::hop]
    return frames
