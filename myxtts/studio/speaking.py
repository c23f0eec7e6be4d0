"""Speaks in a process of its own, which keeps the last voice loaded: the second sentence is quick.

It does what `myxtts synthesize` does, without starting TensorFlow each time.
"""

from __future__ import annotations

import os
import re
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from myxtts.errors import DataError, MyXTTSError
from myxtts.messages import Message
from myxtts.studio.project import RefusedError

LONGEST_TEXT = 5000  # characters
MOST_KEPT = 40  # files; older ones are removed
_FILE = re.compile(r"speech-\d{8}-\d{6}(-\d+)?\.wav")


@dataclass(frozen=True)
class Request:
    """What to say, and how."""

    text: str
    model: str  # a folder, or "base"
    references: tuple[str, ...]
    language: str  # of the text, where the voice knows it
    speed: float
    pitch_shift: float
    out: str


class Speaker:
    """One process, one sentence at a time; the page asks how it goes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()
        self._current: Future[float] | None = None
        self.error: MyXTTSError | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a sentence is being made."""
        return self._current is not None and not self._current.done()

    def say(self, **how: Any) -> str:
        """Begin to speak; returns the name of the file that will be there."""
        if not how["text"].strip():
            raise DataError("The text is empty.", "some words to say")
        if len(how["text"]) > LONGEST_TEXT:
            raise RefusedError(
                Message("The text is longer than {} characters.", (str(LONGEST_TEXT),)),
                Message("a shorter one, or myxtts synthesize --text-file"),
            )
        with self._lock:
            if self.is_busy:
                raise MyXTTSError("It is speaking already.", "wait until it ends")
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            self.error = None
            out = self._new_file()
            self._current = self._pool.submit(_say, Request(out=str(out), **how))
            self._current.add_done_callback(self._done)
            return out.name

    def files(self) -> list[Path]:
        """What was said, the newest first."""
        found = [path for path in self._folder.glob("speech-*.wav") if _FILE.fullmatch(path.name)]
        return sorted(found, key=lambda path: (path.stat().st_mtime, path.name), reverse=True)

    def find(self, name: str) -> Path | None:
        """The file of that name."""
        path = self._folder / name
        return path if _FILE.fullmatch(name) and path.is_file() else None

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _done(self, future: Future[float]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            self._pool = None
            error = MyXTTSError("The process that speaks has ended.", "try again")
        if error is not None and not isinstance(error, MyXTTSError):
            error = MyXTTSError(f"{type(error).__name__}: {error}", "another text or reference")
        self.error = error
        for old in self.files()[MOST_KEPT:]:
            old.unlink(missing_ok=True)
            old.with_suffix(".txt").unlink(missing_ok=True)

    def _new_file(self) -> Path:
        name = time.strftime("speech-%Y%m%d-%H%M%S")
        path, number = self._folder / f"{name}.wav", 1
        while path.exists():
            number += 1
            path = self._folder / f"{name}-{number}.wav"
        return path


_loaded: tuple[tuple[str, int], Any] | None = None  # in the process that speaks


def _say(request: Request) -> float:
    """In the other process: load the voice if it is another, speak, write. Seconds of speech."""
    from myxtts.inference.audio_files import write_audio
    from myxtts.inference.references import read_references

    synthesizer = _load(request.model)
    chunks = synthesizer.stream(
        request.text,
        voice=synthesizer.listen_to_pieces(read_references(list(request.references))),
        language=_known(synthesizer.files, request.language),
        speed=request.speed,
        pitch_shift=request.pitch_shift,
    )
    out = Path(request.out)
    seconds = write_audio(out, chunks, sample_rate=synthesizer.sample_rate)
    out.with_suffix(".txt").write_text(request.text, encoding="utf-8", errors="replace")
    return float(seconds)


def _known(files: Any, language: str) -> str | None:
    """The language if the voice heard it, else the voice's own."""
    return language if language in files.languages else None


def _load(model: str) -> Any:
    global _loaded
    from myxtts.inference.voice_files import load_voice

    files = load_voice(model)
    key = (model, files.step)
    if _loaded is None or _loaded[0] != key:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        from myxtts.inference.synthesizer import Synthesizer
        from myxtts.pipeline.hardware import HARDWARE

        if _loaded is None:
            HARDWARE.hide_gpus()  # a training on them is not disturbed
        _loaded = (key, Synthesizer(files))
    return _loaded[1]
