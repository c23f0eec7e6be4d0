"""The noise that the flow head starts from, as `models.noise` draws it, in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.features.audio import NUM_MELS

SALT = 4  # of the flow's noise

Words = npt.NDArray[np.uint32]


def flow_noise(seed: int, frames: int) -> npt.NDArray[np.float32]:
    """What a seed's speech of so many frames starts from, [1, F, M]."""
    first, second = np.array([seed % 2**31], np.uint32), np.array([0], np.uint32)
    key = _scramble(first + _scramble(second))
    count = frames * NUM_MELS
    angle = _uniform(key, count, SALT) * np.float32(2.0 * np.pi)
    radius = np.sqrt(np.float32(-2.0) * np.log(_uniform(key, count, SALT + 128)))
    noise: npt.NDArray[np.float32] = radius * np.cos(angle)
    return noise.reshape(1, frames, NUM_MELS)


def _uniform(key: Words, size: int, salt: int) -> npt.NDArray[np.float32]:
    place = _scramble(np.arange(size, dtype=np.uint32) + np.uint32((salt << 24) % 2**32))
    bits = _scramble(place + key)
    uniform: npt.NDArray[np.float32] = ((bits >> np.uint32(8)).astype(np.float32) + 0.5) * (
        np.float32(2.0**-24)
    )
    return uniform


def _scramble(x: Words) -> Words:
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    mixed: Words = x ^ (x >> np.uint32(16))
    return mixed
