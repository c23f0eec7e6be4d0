"""Everything a run tells about itself goes through here: its event file, TensorBoard, W&B.

The event file is JSON Lines: `{"time": unix seconds, "kind": ..., "step": ..., "values": {...}}`.
`started`, `resumed`, `metrics` and `ended` are written here, other kinds by whoever has news.
`on_event` hears every event as a reader of the file would.
NaN and infinities are the strings "NaN", "Infinity" and "-Infinity", which keeps the file valid
JSON and a diverged loss visible; the readers below turn them back into numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from myxtts import __version__
from myxtts.documents import parse_json
from myxtts.errors import MyXTTSError
from myxtts.runs.event_schema import is_sound
from myxtts.runs.sinks import Sink, TensorBoard, WandB

log = logging.getLogger(__name__)

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class RunLog:
    """Writes what happens in a run. Once it is open, no failure to write ends the training.

    A sink that fails (disk full, network gone) is warned of once and tried again at every write;
    events that could not be written are counted in `lost_events`. The thread that trains writes
    everything, so there is no lock.
    """

    def __init__(
        self,
        events_file: Path,
        *,
        tensorboard_dir: Path | None,
        wandb: bool = False,
        config: Mapping[str, Any] | None = None,
        run_name: str = "",
        resumed_at: int = 0,
        devices: Any = None,
        on_event: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.lost_events = 0
        self._on_event = on_event
        self._complained: set[str] = set()
        self._sinks: list[Sink] = []
        news = {
            "run": run_name,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "version": __version__,
            "tensorboard_dir": tensorboard_dir,
            "config": _plain(config or {}),
        }
        if devices is not None:
            news["devices"] = devices
        if wandb:
            board = WandB(
                run_name,
                config=news["config"],
                folder=events_file.parent,
                run_id=_last_wandb_id(events_file),
            )
            self._sinks.append(board)
            news["wandb_id"] = board.run_id
        try:
            self._file = _EventFile(events_file)
            continues = self._file.had_events or resumed_at > 0
            if tensorboard_dir is not None:
                self._sinks.append(TensorBoard(tensorboard_dir, first_step=resumed_at + 1))
        except OSError as error:
            raise MyXTTSError(
                f"The run's log cannot be written: {error}",
                "give a --checkpoint-dir and --tensorboard-log-dir you may write to",
            ) from error
        self.event("resumed" if continues else "started", step=resumed_at, **news)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self.close(error="" if error is None else f"{type(error).__name__}: {error}")

    def event(self, kind: str, /, *, step: int | None = None, **values: Any) -> None:
        """Write one event; values may be nested, and NumPy's or TensorFlow's."""
        self._write_event(kind, step, values)

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Write numbers of one step: event `metrics`, TensorBoard and W&B."""
        numbers = {name: float(value) for name, value in values.items()}
        self._write_event("metrics", step, numbers)
        for sink in self._sinks:
            self._attempt(sink.name, sink.scalars, step, numbers)

    def picture(self, step: int, name: str, png: bytes) -> None:
        """Show a PNG in TensorBoard and W&B."""
        for sink in self._sinks:
            self._attempt(sink.name, sink.picture, step, name, png)

    def audio(self, step: int, name: str, wave: np.ndarray[Any, Any], sample_rate: int) -> None:
        """Let a mono wave (from -1 to 1) be heard in TensorBoard and W&B."""
        samples = np.clip(np.asarray(wave, np.float32).reshape(-1), -1, 1)
        for sink in self._sinks:
            self._attempt(sink.name, sink.audio, step, name, samples, sample_rate)

    def close(self, *, error: str = "") -> None:
        """Write `ended` and close everything; a second call does nothing."""
        if self._file.closed:
            return
        self.event("ended", error=error, lost_events=self.lost_events)
        if self.lost_events:
            log.warning("%d events of this run could not be written", self.lost_events)
        self._attempt("Event file", self._file.close)
        for sink in self._sinks:
            self._attempt(sink.name, sink.close, bool(error))

    def _write_event(self, kind: str, step: int | None, values: Mapping[str, Any]) -> None:
        event = _plain(
            {"time": round(time.time(), 3), "kind": kind, "step": step, "values": values}
        )
        if not self._attempt("Event file", self._file.write, event):
            self.lost_events += 1
        if self._on_event is not None:
            self._attempt("Live view", self._on_event, _revive(event))

    def _attempt(self, sink: str, write: Callable[..., object], *args: object) -> bool:
        """Whether it worked. Any error of a sink is taken: training is worth more than its log."""
        try:
            write(*args)
        except Exception as error:
            log.debug("%s failed", sink, exc_info=True)
            if sink not in self._complained:
                self._complained.add(sink)
                log.warning("%s: cannot write (%s); training goes on", sink, error)
            return False
        return True


class EventReader:
    """Follows an event file: `poll` gives what was written since the last call."""

    def __init__(self, events_file: Path) -> None:
        self._path = events_file
        self._offset = 0
        self.skipped = 0  # odd lines: half-written ones, and what no version of ours has written

    def poll(self) -> Iterator[dict[str, Any]]:
        """The whole lines that are new. A half-written last one waits for its rest."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if os.fstat(file.fileno()).st_size < self._offset:
                self._offset = 0  # the run was started anew, in another file of this name
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                # A writer that was killed leaves half a line in the middle once a run goes on.
                event: dict[str, Any] = {}
                with contextlib.suppress(ValueError):
                    event = _revive(parse_json(line))
                if is_sound(event):
                    yield event
                else:
                    self.skipped += 1


def read_events(events_file: Path) -> Iterator[dict[str, Any]]:
    """All events so far, those that a resume from an earlier step undid among them."""
    return EventReader(events_file).poll()


class _EventFile:
    """Appends lines, each with one unbuffered write: a kill leaves at most the last one half."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b", buffering=0)
        self.had_events = self._file.seek(0, os.SEEK_END) > 0
        self._whole = True  # whether the last line is: if not, the next starts on a new one
        if self.had_events:
            self._file.seek(-1, os.SEEK_END)
            self._whole = self._file.read(1) == b"\n"

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()

    def write(self, event: Mapping[str, Any]) -> None:
        line = json.dumps(event, allow_nan=False).encode() + b"\n"
        if not self._whole:
            line = b"\n" + line
        written = self._file.write(line)
        self._whole = written == len(line)
        if not self._whole:
            raise OSError("only a part of the line was written; the disk is full")


def _last_wandb_id(events_file: Path) -> str | None:
    """The W&B run this run wrote to before, so that a resume goes on in the same curves."""
    ids = [event["values"].get("wandb_id") for event in read_events(events_file)]
    return next((run_id for run_id in reversed(ids) if run_id), None)


def _plain(value: Any) -> Any:
    """The same as JSON knows it."""
    if isinstance(value, Enum):  # first: some are strings too
        return _plain(value.value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if hasattr(value, "numpy"):  # a tensor
        value = value.numpy()
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufSU":
        return _plain(value.tolist())
    if hasattr(value, "__float__"):  # bfloat16, which NumPy does not know
        return _plain(float(value))
    return str(value)


def _revive(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _revive(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_revive(part) for part in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value
