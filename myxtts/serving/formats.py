"""Audio as clients ask for it, encoded while it is made: WAV, PCM, MP3, FLAC and Opus."""

from __future__ import annotations

import struct
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

Kind = Literal["wav", "pcm", "mp3", "flac", "opus"]
CONTENT_TYPES: dict[str, str] = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
}
OPENAI_RATE = 24_000  # what OpenAI's clients take raw samples for; Opus has no rate near ours
UNKNOWN_SIZE = 0xFFFFFFFF
_SOUNDFILE = {"mp3": ("MP3", "MPEG_LAYER_III"), "flac": ("FLAC", "PCM_16"), "opus": ("OGG", "OPUS")}

Floats = npt.NDArray[np.float32]


class Encoder:
    """Turns waves into the bytes of one format, piece by piece."""

    def __init__(self, kind: str, sample_rate: int, *, samples: int | None = None) -> None:
        """`samples` is the length, where it is known beforehand: a WAV says it first."""
        self.kind = kind
        self.rate = OPENAI_RATE if kind in ("pcm", "opus") else sample_rate
        self._resampler: Any = None
        if self.rate != sample_rate:
            self._resampler = soxr.ResampleStream(sample_rate, self.rate, 1, dtype="float32")
        # The first frame of an MP3 tells its length, which is written last: a stream has none. A
        # FLAC without its length is refused by libsndfile, so it is sent when it is whole.
        self._sink = _Sink(skips_first=kind == "mp3", is_whole=kind == "flac")
        self._header = _wav_header(self.rate, samples) if kind == "wav" else b""
        self._file: Any = None
        if kind in _SOUNDFILE:
            form, subtype = _SOUNDFILE[kind]
            # Without the frame that tells it, the length of an MP3 follows from a constant rate.
            how = {"bitrate_mode": "CONSTANT", "compression_level": 0.6} if kind == "mp3" else {}
            self._file = soundfile.SoundFile(
                self._sink,
                "w",
                samplerate=self.rate,
                channels=1,
                format=form,
                subtype=subtype,
                **how,
            )

    def add(self, wave: Floats, *, last: bool = False) -> bytes:
        """The bytes that are ready with one more piece."""
        if self._resampler is not None:
            wave = self._resampler.resample_chunk(np.ascontiguousarray(wave), last=last)
        header, self._header = self._header, b""
        whole = np.rint(wave.clip(-1.0, 1.0) * 32767.0).astype("<i2")
        if self._file is None:
            return header + whole.tobytes()
        self._file.write(whole)
        return header + self._sink.take()

    def end(self) -> bytes:
        """The last bytes."""
        rest = self.add(np.zeros(0, np.float32), last=True)
        if self._file is not None:
            self._file.close()
            self._file = None
            rest += self._sink.take(at_end=True)
        return rest

    def close(self) -> None:
        """Nobody wants the rest."""
        if self._file is not None:
            self._file.close()
            self._file = None


class _Sink:
    """A file that is sent as it is written: what is written over later is already gone."""

    def __init__(self, *, skips_first: bool = False, is_whole: bool = False) -> None:
        self._data, self._sent, self._place = bytearray(), 0, 0
        self._skips_first, self._is_whole = skips_first, is_whole

    def take(self, *, at_end: bool = False) -> bytes:
        """What was written since, unless all of it is wanted at once."""
        if self._is_whole and not at_end:
            return b""
        data = bytes(self._data)
        self._sent += len(data)
        self._data.clear()
        return data

    def write(self, data: bytes) -> int:
        if self._skips_first:
            self._skips_first, self._sent, self._place = False, len(data), len(data)
            return len(data)
        end = self._sent + len(self._data)
        first = self._place - self._sent
        if self._place == end:
            self._data += data
        elif first >= 0:
            self._data[first : first + len(data)] = data
        self._place += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self._place, 2: self._sent + len(self._data)}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        """Nothing is held back."""

    def read(self, _size: int = -1) -> bytes:
        return b""

    def readinto(self, _buffer: Any) -> int:
        return 0


def _wav_header(rate: int, samples: int | None) -> bytes:
    """Of 16-bit mono. A stream does not know its length: 0xFFFFFFFF, as OpenAI's own has it."""
    size = UNKNOWN_SIZE if samples is None else 2 * samples
    riff = UNKNOWN_SIZE if samples is None else 36 + size
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", riff, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", size),
    )
