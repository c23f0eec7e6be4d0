"""Asking a run to stop, by signal, and deciding to, by the validation loss."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)


class StopRequest:
    """True once SIGTERM or Ctrl-C came; the loop looks at it after every step.

    The first signal only sets the flag. A second Ctrl-C ends the process at once, as if nobody
    had caught it. In a thread other than the main one signals cannot be caught, and this does
    nothing.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None  # the first one that came
        self._before: dict[int, Any] = {}
        self._watcher: _ImpatienceWatcher | None = None

    def __bool__(self) -> bool:
        return self.signal_number is not None

    @property
    def signal_name(self) -> str:
        """`SIGTERM` or `SIGINT`, for the log; empty until asked."""
        return "" if self.signal_number is None else signal.Signals(self.signal_number).name

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is not threading.main_thread():
            log.debug("Not the main thread: signals do not stop this run")
            return self
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._ask)
        self._watcher = _ImpatienceWatcher()
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        for number, handler in self._before.items():
            # None is a handler that was not set from Python, which cannot be put back from it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _ask(self, number: int, _: FrameType | None) -> None:
        # No printing or logging: the signal may have come in the middle of just that.
        if self.signal_number is None:
            self.signal_number = number
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


class _ImpatienceWatcher:
    """Ends the process at a second Ctrl-C that came while the main thread was in a native call.

    Python runs `_ask` only between two of its own instructions, and compiling a step may take
    minutes without one. The byte that each signal leaves in the wake-up pipe comes at once.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="stop-request", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Put the wake-up pipe back as it was, and end the thread."""
        signal.set_wakeup_fd(self._before)
        os.close(self._write_end)
        self._thread.join()
        os.close(self._read_end)

    def _watch(self) -> None:
        seen = 0
        while came := os.read(self._read_end, 64):  # nothing once the write end is closed
            seen += came.count(signal.SIGINT)
            if seen > 1:
                os._exit(128 + signal.SIGINT)  # no clean-up: what is on disk is whole at any time


class EarlyStopping:
    """Counts the validations since the loss last fell by more than `min_delta`.

    `patience` is that many validations; None never stops and only keeps the best.
    """

    def __init__(self, patience: int | None = None, *, min_delta: float = 0.0) -> None:
        self.patience = patience
        self.min_delta = min_delta
        self.best: float | None = None
        self.best_step: int | None = None
        self.validations_without_gain = 0
        self.clips: float | None = None  # that a validation measures, if it is whole
        # The loss that must be beaten by `min_delta`. It is not `best`, so that many gains too
        # small to count one by one still count together.
        self._to_beat: float | None = None

    def is_comparable(self, clips: float) -> bool:
        """Whether a loss of so many clips may be held against those before."""
        return self.clips is None or clips >= self.clips

    def update(self, loss: float, *, step: int | None = None, clips: float | None = None) -> bool:
        """Take a validation's loss; True if it is the best so far, which NaN never is."""
        loss = float(loss)
        self.clips = self.clips if clips is None else clips
        finite = math.isfinite(loss)
        if finite and (self._to_beat is None or loss < self._to_beat - self.min_delta):
            self._to_beat, self.validations_without_gain = loss, 0
        else:
            self.validations_without_gain += 1
        is_best = finite and (self.best is None or loss < self.best)
        if is_best:
            self.best, self.best_step = loss, step
        return is_best

    @property
    def should_stop(self) -> bool:
        """Whether the patience is used up."""
        return self.patience is not None and self.validations_without_gain >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed run needs to decide the same; plain JSON values."""
        return {
            "best": self.best,
            "best_step": self.best_step,
            "validations_without_gain": self.validations_without_gain,
            "to_beat": self._to_beat,
            "clips": self.clips,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; patience and `min_delta` stay those of this run."""
        self.best = state["best"]
        self.best_step = state["best_step"]
        self.validations_without_gain = state["validations_without_gain"]
        self._to_beat = state["to_beat"]
        self.clips = state.get("clips")
