"""Asking a run to stop, by signal, and deciding to, by the validation loss."""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_S = 1.0  # for the loop to notice; then someone else saves what there is
RETRY_S = 0.1


class StopRequest:
    """True once SIGTERM, SIGHUP or Ctrl-C came; the loop looks at it after every step.

    The first signal only sets the flag. A second Ctrl-C ends the process at once, as if nobody
    had caught it. In a thread other than the main one signals cannot be caught, and this does
    nothing.

    Python runs a signal's handler only between two of its own instructions, and compiling a step
    may take minutes without one. `meanwhile` is for that: from `GRACE_S` after the first signal on
    it is called, on a thread of its own, until it returns True or the `with` block ends.
    """

    def __init__(self, meanwhile: Callable[[], bool] = lambda: True) -> None:
        self.signal_number: int | None = None  # the first one that came
        self._meanwhile = meanwhile
        self._before: dict[int, Any] = {}
        self._watcher: _SignalWatcher | None = None
        self._saver: threading.Thread | None = None
        self._over = threading.Event()

    def __bool__(self) -> bool:
        return self.signal_number is not None

    @property
    def signal_name(self) -> str:
        """`SIGTERM`, `SIGINT` or `SIGHUP`, for the log; empty until asked."""
        return "" if self.signal_number is None else signal.Signals(self.signal_number).name

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is not threading.main_thread():
            log.debug("Not the main thread: signals do not stop this run")
            return self
        for number in STOP_SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # under nohup a run is meant to outlive its terminal
            self._before[number] = signal.signal(number, self._ask)
        self._watcher = _SignalWatcher(set(self._before), self._begin_to_save)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        if self._saver is not None:
            self._saver.join()
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

    def _begin_to_save(self) -> None:
        self._saver = threading.Thread(target=self._save, name="stop-request-saver", daemon=True)
        self._saver.start()

    def _save(self) -> None:
        wait_s = GRACE_S
        while not self._over.wait(wait_s):
            wait_s = RETRY_S
            try:
                if self._meanwhile():
                    log.info(
                        "Asked to stop: all that is done is saved. What is under way, a step or "
                        "its compiling, ends first; a second Ctrl-C does not wait for it"
                    )
                    return
            except Exception:
                log.exception("Asked to stop, and nothing could be saved meanwhile")
                return


class _SignalWatcher:
    """Acts on signals while the main thread is in a native call, where no handler can.

    The byte that each signal leaves in the wake-up pipe comes at once.
    """

    def __init__(self, signals: set[int], on_first: Callable[[], None]) -> None:
        self._signals, self._on_first = signals, on_first
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
        seen: list[int] = []
        while came := os.read(self._read_end, 64):  # nothing once the write end is closed
            first = not seen
            seen += [number for number in came if number in self._signals]
            if seen.count(signal.SIGINT) > 1:
                os._exit(128 + signal.SIGINT)  # no clean-up: what is on disk is whole at any time
            if first and seen:
                mute_closed_outputs()
                self._on_first()


def mute_closed_outputs() -> None:
    """Let what is said to a terminal or a pipe that is gone vanish; to write there would raise."""
    for descriptor in (1, 2):
        poll = select.poll()
        poll.register(descriptor, 0)  # errors alone, which need not be asked for
        if poll.poll(0):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)


class EarlyStopping:
    """Counts the validations since the loss last fell by more than `min_delta`.

    `patience` is that many validations; None never stops and only keeps the best.
    """

    _KEPT = ("best", "best_step", "validations_without_gain", "to_beat", "clips")

    def __init__(self, patience: int | None = None, *, min_delta: float = 0.0) -> None:
        self.patience = patience
        self.min_delta = min_delta
        self.best: float | None = None
        self.best_step: int | None = None
        self.validations_without_gain = 0
        self.clips: float | None = None  # that a validation measures, if it is whole
        # The loss that must be beaten by `min_delta`. It is not `best`, so that many gains too
        # small to count one by one still count together.
        self.to_beat: float | None = None

    def is_comparable(self, clips: float) -> bool:
        """Whether a loss of so many clips may be held against those before."""
        return self.clips is None or clips >= self.clips

    def update(self, loss: float, *, step: int | None = None, clips: float | None = None) -> bool:
        """Take a validation's loss; True if it is the best so far, which NaN never is."""
        loss = float(loss)
        self.clips = self.clips if clips is None else clips
        finite = math.isfinite(loss)
        if finite and (self.to_beat is None or loss < self.to_beat - self.min_delta):
            self.to_beat, self.validations_without_gain = loss, 0
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
        return {name: getattr(self, name) for name in self._KEPT}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; patience and `min_delta` stay those of this run."""
        for name in self._KEPT:
            setattr(self, name, state.get(name))  # older runs kept no clips
