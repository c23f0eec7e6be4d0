"""How loud speech is: brought to a target as it is made, and never beyond full scale.

Loudness is that of ITU-R BS.1770-4 (EBU R 128), in LUFS: weighted as ears weigh it, pauses left
out. Needs no TensorFlow.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from myxtts.errors import ConfigError

CEILING = 0.97  # of full scale: what is between samples may be a little louder
LOOK_AHEAD_S = 0.005
TARGETS = (-40.0, -5.0)  # LUFS; beyond the second, speech would be limited all the time

BLOCK_S, STEP_S = 0.4, 0.1  # over which loudness is measured
SILENT_LUFS, RELATIVE_LU = -70.0, -10.0  # blocks softer than this do not count
MOST_GAIN = 100.0  # 40 dB: what is softer than that is no speech

Floats = npt.NDArray[np.float32]


def check_target(target: float | None) -> None:
    """Refuse a loudness that no speech can have."""
    if target is not None and not TARGETS[0] <= target <= TARGETS[1]:  # nor is NaN
        raise ConfigError(
            f"The loudness {target:g} LUFS cannot be reached.",
            f"from {TARGETS[0]:g} to {TARGETS[1]:g}; -16 is usual for speech, -23 for broadcasting",
        )


def limit(wave: Floats, sample_rate: int) -> Floats:
    """The wave without peaks above the ceiling; one that has none is returned as it is.

    The gain goes down before a peak and up again behind it, so that nothing is cut off.
    """
    peaks = np.abs(wave)
    if not wave.size or peaks.max() <= CEILING:
        return wave
    gain = np.minimum(1.0, CEILING / np.maximum(peaks, CEILING))
    half = max(1, round(LOOK_AHEAD_S * sample_rate))
    lowest = _lowest_around(gain, half)
    window = np.hanning(2 * half + 3)[1:-1]  # narrower than what it smooths: never above the gain
    padded = np.pad(lowest, half, mode="edge")
    smooth = np.convolve(padded, window / window.sum(), "valid")
    limited: Floats = (wave * np.minimum(smooth, gain)).astype(np.float32)
    return limited.clip(-CEILING, CEILING)  # of rounding only


def _lowest_around(values: npt.NDArray[np.floating], half: int) -> npt.NDArray[np.floating]:
    """The least of each value and its `half` neighbours on both sides, by doubling."""
    width = 2 * half + 1
    padded = np.pad(values, half, constant_values=1.0)
    done = 1
    while done < width:
        step = min(done, width - done)
        padded = np.minimum(padded[: len(padded) - step], padded[step:])
        done += step
    return padded


class Leveller:
    """Brings what is spoken to a loudness, line after line.

    Each line's gain is that of all lines so far and itself, so that a stream need not wait for its
    end, soft lines stay softer than loud ones, and the whole comes out near the target.
    """

    def __init__(self, target: float, sample_rate: int) -> None:
        check_target(target)
        self.target, self._rate = target, sample_rate
        self._powers: list[npt.NDArray[np.float64]] = []

    def __call__(self, wave: Floats) -> Floats:
        """The line, louder or softer; peaks above full scale are left to the limiter."""
        self._powers.append(_block_powers(wave, self._rate))
        loudness = _gated(np.concatenate(self._powers))
        if loudness is None:
            return wave
        gain = min(MOST_GAIN, 10.0 ** ((self.target - loudness) / 20.0))
        levelled: Floats = (wave * np.float32(gain)).astype(np.float32)
        return levelled


def loudness_of(wave: Floats, sample_rate: int) -> float | None:
    """Integrated loudness in LUFS; None of silence."""
    return _gated(_block_powers(wave, sample_rate))


def _block_powers(wave: Floats, rate: int) -> npt.NDArray[np.float64]:
    """Mean squares of the weighted wave in blocks of 0.4 s, each 0.1 s behind the last."""
    if not wave.size:
        return np.zeros(0)
    block, step = round(BLOCK_S * rate), round(STEP_S * rate)
    weighted = _weigh(np.asarray(wave, np.float64), rate)
    if len(weighted) < block:  # a short word is one block
        return np.array([np.mean(np.square(weighted))])
    sums = np.concatenate([[0.0], np.cumsum(np.square(weighted))])
    starts = np.arange(0, len(weighted) - block + 1, step)
    powers: npt.NDArray[np.float64] = (sums[starts + block] - sums[starts]) / block
    return powers


def _gated(powers: npt.NDArray[np.float64]) -> float | None:
    with np.errstate(divide="ignore"):
        levels = -0.691 + 10.0 * np.log10(powers)
    loud = powers[levels > SILENT_LUFS]
    if not loud.size:
        return None
    threshold = -0.691 + 10.0 * np.log10(loud.mean()) + RELATIVE_LU
    return float(-0.691 + 10.0 * np.log10(powers[levels > max(threshold, SILENT_LUFS)].mean()))


def _weigh(wave: npt.NDArray[np.float64], rate: int) -> npt.NDArray[np.float64]:
    """K-weighting, as a product in the frequency domain: its two filters are short."""
    size = 1 << (len(wave) + rate // 4 - 1).bit_length()  # room for the filters to ring out
    spectrum = np.fft.rfft(wave, size) * _response(size, rate)
    weighted: npt.NDArray[np.float64] = np.fft.irfft(spectrum, size)[: len(wave)]
    return weighted


@lru_cache(maxsize=8)
def _response(size: int, rate: int) -> npt.NDArray[np.complex128]:
    """Of the shelf for the head and the high-pass, from their analogue designs at any rate."""
    z = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    shelf_k = np.tan(np.pi * 1681.974450955533 / rate)
    high, q = 10.0 ** (3.999843853973347 / 20.0), 0.7071752369554196
    middle = high**0.4996667741545416
    k2 = shelf_k * shelf_k
    scale = 1.0 + shelf_k / q + k2
    shelf = (
        (high + middle * shelf_k / q + k2)
        + 2.0 * (k2 - high) * z
        + (high - middle * shelf_k / q + k2) * z**2
    ) / (scale + 2.0 * (k2 - 1.0) * z + (1.0 - shelf_k / q + k2) * z**2)
    pass_k, q = np.tan(np.pi * 38.13547087602444 / rate), 0.5003270373238773
    k2 = pass_k * pass_k
    scale = 1.0 + pass_k / q + k2
    # The standard does not divide the numerator by the scale.
    high_pass = (1.0 - 2.0 * z + z**2) / (
        1.0 + 2.0 * (k2 - 1.0) / scale * z + (1.0 - pass_k / q + k2) / scale * z**2
    )
    response: npt.NDArray[np.complex128] = shelf * high_pass
    return response
