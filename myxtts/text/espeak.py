"""Phonemes and speech from espeak-ng, through the library that `espeakng-loader` brings along."""

from __future__ import annotations

import _ctypes
import ctypes
import importlib
import importlib.util
import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.errors import DataError

INSTALL_REMEDY = "pip install espeakng-loader"
VARIANT_FOLDER = "voices/!v"  # below the data folder; `en-us+f2` reads the file f2 there

# Values of speak_lib.h. SYNCHRONOUS hands the samples to the callback on the calling thread;
# its RETRIEVAL sibling would do the same on a thread of espeak's own.
_OUTPUT_SYNCHRONOUS = 2
_DONT_EXIT = 0x8000  # a missing data file is reported, instead of ending the process
_CHARS_UTF8 = 1
_PHONEMES_IN_BRACKETS = 0x100  # [[…]] are espeak's own names of phonemes
_PHONEMES_IPA = 2
_POSITION_CHARACTER = 1
_RATE, _VOLUME, _PITCH, _RANGE = 1, 2, 3, 4

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)
_LANGUAGE_SWITCH = re.compile(r"\([a-z]{2,3}(?:-[a-z0-9]+)*\)")  # "(en)…(fa)": a note, no sound


class _Library:
    """The loaded library; espeak keeps its state in C globals, so a process has one."""

    def __init__(self) -> None:
        try:
            loader = importlib.import_module("espeakng_loader")  # an optional extra
        except ImportError as error:
            raise DataError("espeak-ng is not installed.", INSTALL_REMEDY) from error
        self._path = loader.get_library_path()
        self.data_path = os.fspath(loader.get_data_path())
        self.variants = frozenset(
            entry.name for entry in Path(self.data_path, VARIANT_FOLDER).iterdir()
        )
        self._chunks: list[bytes] = []
        self._callback = _Callback(self._collect)  # espeak holds a bare pointer: keep it alive
        self._voice: str | None = None
        self._load()

    def _load(self) -> None:
        try:
            self._lib = ctypes.CDLL(self._path)
        except OSError as error:
            raise DataError(f"espeak-ng cannot be loaded: {error}.", INSTALL_REMEDY) from error
        self._lib.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._lib.espeak_Info.restype = ctypes.c_char_p
        self.sample_rate: int = self._lib.espeak_Initialize(
            _OUTPUT_SYNCHRONOUS, 0, os.fsencode(self.data_path), _DONT_EXIT
        )
        used = ctypes.c_char_p()
        self.version: str = self._lib.espeak_Info(ctypes.byref(used)).decode()
        # espeak cuts paths at 160 bytes and then looks for a system-wide copy of its data.
        if self.sample_rate <= 0 or used.value != os.fsencode(self.data_path):
            raise DataError(
                f"espeak-ng cannot read its data in {self.data_path}.",
                "install into an environment with a path shorter than 140 characters",
            )
        self._lib.espeak_SetSynthCallback(self._callback)
        self._voice = None

    def _reload(self) -> None:
        # The flutter phase and other statics outlive espeak_Terminate; only unloading resets them.
        self._lib.espeak_Terminate()
        _ctypes.dlclose(self._lib._handle)
        self._load()

    def _collect(self, samples: Any, num_samples: int, _events: Any) -> int:
        if samples and num_samples > 0:
            self._chunks.append(ctypes.string_at(samples, 2 * num_samples))
        return 0

    def _set_voice(self, voice: str) -> None:
        if voice == self._voice:
            return
        self._voice = None
        _, plus, variant = voice.partition("+")
        if plus and variant not in self.variants:  # espeak would ignore it without a word
            raise DataError(
                f"espeak-ng has no voice variant {variant!r} (asked for as {voice!r}).",
                f"one of {', '.join(sorted(self.variants))}",
            )
        if self._lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise DataError(f"espeak-ng has no voice {voice!r}.", "a voice such as en-us, de or fa")
        self._voice = voice

    def phonemize(self, text: str, voice: str) -> str:
        self._set_voice(voice)
        buffer = ctypes.create_string_buffer(_encode(text))
        rest = ctypes.c_void_p(ctypes.addressof(buffer))
        clauses = []
        while rest.value:  # one clause a call; espeak sets the pointer to NULL at the end
            clause = self._lib.espeak_TextToPhonemes(ctypes.byref(rest), _CHARS_UTF8, _PHONEMES_IPA)
            clauses.append(_LANGUAGE_SWITCH.sub("", (clause or b"").decode()).strip())
        return " ".join(filter(None, clauses))

    def speak(
        self, text: str, voice: str, parameters: dict[int, int], *, brackets: bool
    ) -> np.ndarray:
        self._reload()
        self._set_voice(voice)
        for parameter, value in parameters.items():
            self._lib.espeak_SetParameter(parameter, value, 0)
        self._lib.espeak_ng_SetRandSeed(1)
        ctypes.CDLL(None).srand(1)  # the klatt voices draw their breath noise from libc's rand()
        self._chunks.clear()
        data = _encode(text)
        flags = _CHARS_UTF8 | (_PHONEMES_IN_BRACKETS if brackets else 0)
        status = self._lib.espeak_Synth(
            data, ctypes.c_size_t(len(data) + 1), 0, _POSITION_CHARACTER, 0, flags, None, None
        )
        if status != 0:
            raise DataError(
                f"espeak-ng could not speak {text!r} (status {status}).", "a shorter text"
            )
        samples: np.ndarray = np.frombuffer(b"".join(self._chunks), dtype=np.int16).copy()
        self._chunks.clear()
        return samples


_lock = threading.Lock()
_library: _Library | None = None


def is_available() -> bool:
    """Say whether espeak-ng is installed and its library loads."""
    if importlib.util.find_spec("espeakng_loader") is None:
        return False
    try:
        with _lock:
            _loaded()
    except (DataError, OSError, RuntimeError):
        return False
    return True


def list_variants() -> list[str]:
    """Name the voice variants of the installed data, for use as `en-us+f2`."""
    with _lock:
        return sorted(_loaded().variants)


def library_version() -> str:
    """Name the version of espeak-ng, since another one may speak other samples."""
    with _lock:
        return _loaded().version


def phonemize(text: str, voice: str) -> str:
    """Turn text into IPA with stress and length marks, clauses joined by a space.

    Punctuation leaves no trace in it; split the text at the marks to keep them.
    """
    with _lock:
        return _loaded().phonemize(text, voice)


def speak(
    text: str,
    *,
    voice: str,
    rate: int = 150,
    pitch: int = 50,
    pitch_range: int = 50,
    brackets: bool = False,
) -> tuple[np.ndarray, int]:
    """Speak text and return int16 mono samples and their rate.

    The same arguments give the same bytes, whatever was spoken before. `rate` is in words per
    minute, `pitch` and `pitch_range` run from 0 to 100 around the voice's own at 50. With
    `brackets`, what stands in `[[…]]` is said as the phonemes that it names.
    """
    for name, value, low, high in (
        ("rate", rate, 80, 450),
        ("pitch", pitch, 0, 100),
        ("pitch_range", pitch_range, 0, 100),
    ):
        if not low <= value <= high:
            raise DataError(f"{name} {value} is out of range.", f"a {name} from {low} to {high}")
    parameters = {_RATE: rate, _VOLUME: 100, _PITCH: pitch, _RANGE: pitch_range}
    with _lock:
        library = _loaded()
        return library.speak(text, voice, parameters, brackets=brackets), library.sample_rate


def _loaded() -> _Library:
    global _library
    if _library is None:
        _library = _Library()
    return _library


def _encode(text: str) -> bytes:
    return text.replace("\0", " ").encode(errors="replace")  # a NUL would end the text for C
