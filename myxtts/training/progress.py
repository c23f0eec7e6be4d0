"""What a person sees while training: a panel on a terminal, a log line now and then without."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from myxtts.messages import clock, rates, short
from myxtts.training.stopping import mute_closed_outputs

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

    from myxtts.runs.history import RunHistory
    from myxtts.runs.view import RunView

log = logging.getLogger(__name__)

RATE_WINDOW_S = 30.0
STEPS_BEFORE_ETA = 5  # the first ones still compile; a guess from them would be hours off
REDRAW_S = 0.5
LOG_S = 10.0  # at least, between two plain lines


class TrainingProgress:
    """Shows how far a run is. Values are read only when they are shown, so tensors may be given.

    `console` is rich's, the default one writes to standard error, where the log goes too.
    """

    def __init__(self, *, total_steps: int | None, console: Console | None = None) -> None:
        self.total_steps = total_steps
        self.step = 0
        self._on_terminal = _is_terminal(console)
        self._console = console
        self._bars: Progress | None = None
        self._panel: RenderableType | None = None
        self._history: RunHistory | None = None
        if self._on_terminal:
            from myxtts.runs.history import RunHistory  # needed for the panel alone

            self._history = RunHistory()
        self._moved_handlers: list[tuple[logging.StreamHandler[Any], Any]] = []
        self._every_s = REDRAW_S if self._on_terminal else LOG_S
        self._shown_at = -math.inf
        self._shown: tuple[int, int] | None = None  # the step, and that of its values
        self._values_step = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._values: Mapping[str, Any] = {}
        self._samples_per_second: float | None = None

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        mute_closed_outputs()
        if self._recent and (self._on_terminal or self._shown != (self.step, self._values_step)):
            self._show()  # the last step, wherever and however the run stopped
        if self._bars is not None:
            self._bars.stop()
            self._bars = self._panel = None
        for handler, stream in self._moved_handlers:
            handler.setStream(stream)
        self._moved_handlers.clear()

    @contextlib.contextmanager
    def preparing(self, what: str, total: int) -> Iterator[Callable[..., None]]:
        """Show set-up work, such as "Checking clips"; gives `advance(count=1)` to call."""
        done, shown_at = 0, time.monotonic()
        bars = self._start_bars() if self._on_terminal else None
        bar = bars.add_task(what, total=total) if bars is not None else None

        def advance(count: int = 1) -> None:
            nonlocal done, shown_at
            done += count
            if bars is not None and bar is not None:
                bars.update(bar, completed=done)
            elif time.monotonic() - shown_at >= self._every_s and done < total:
                log.info("%s  %d/%d", what, done, total)
                shown_at = time.monotonic()

        try:
            yield advance
        finally:
            if bars is not None and bar is not None:
                bars.remove_task(bar)
            if done:  # nothing was left to do where all of it was known
                log.info("%s  %d/%d", what, done, total)

    def update(
        self,
        step: int,
        *,
        values: Mapping[str, Any] | None = None,
        samples_per_second: float | None = None,
        total_steps: int | None = None,
    ) -> None:
        """Say that a step is done. What is left out stays as it was; cheap enough for every step.

        All `values` are shown, in their order: give the two or three that matter.
        """
        self.step = step
        if values is not None:
            self._values, self._values_step = values, step
        if samples_per_second is not None:
            self._samples_per_second = samples_per_second
        if total_steps is not None:
            self.total_steps = total_steps
        now = time.monotonic()
        if not self._recent or step != self._recent[-1][1]:  # told again, a step is none slower
            self._recent.append((now, step))
        while len(self._recent) > STEPS_BEFORE_ETA + 1 and self._recent[0][0] < now - RATE_WINDOW_S:
            self._recent.popleft()
        last = step == self.total_steps and self._shown != (step, self._values_step)
        if last or now - self._shown_at >= self._every_s:
            self._show()

    def observe(self, event: Mapping[str, Any]) -> None:
        """Hear what the run writes into its event file: the panel shows it from then on."""
        if self._history is not None:
            self._history.add(event)

    @property
    def steps_per_second(self) -> float | None:
        """The rate of the last half minute; None until two steps are done.

        It counts from the end of the first step of this process, so neither compiling nor the
        steps of the run before a resume colour it.
        """
        if len(self._recent) < 2:
            return None
        (began, first), (ended, last) = self._recent[0], self._recent[-1]
        return (last - first) / (ended - began) if ended > began and last > first else None

    @property
    def seconds_left(self) -> float | None:
        """Time to the last step at this rate; None while it cannot be told."""
        rate = self.steps_per_second
        if self.total_steps is None:
            return None
        if self.step >= self.total_steps:
            return 0.0
        if rate is None or self._recent[-1][1] - self._recent[0][1] < STEPS_BEFORE_ETA:
            return None
        return (self.total_steps - self.step) / rate

    # -- showing --

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        self._shown = (self.step, self._values_step)
        if not self._on_terminal:
            total = "" if self.total_steps is None else f"/{self.total_steps}"
            log.info("%s", f"Step {self.step}{total}  {self._details()}".rstrip())
            return
        from myxtts.runs.panel import render_panel

        assert self._history is not None
        self._panel = render_panel(self._view(self._history))
        self._start_bars()

    def _view(self, history: RunHistory) -> RunView:
        """The run as its events tell it, with what is newer than the last of them."""
        loss = self._values.get("loss")
        view = history.view()
        return replace(
            view,
            step=self.step,
            total_steps=self.total_steps,
            seconds_left=self.seconds_left,
            loss=view.loss if loss is None else float(loss),
            steps_per_second=self.steps_per_second,
            clips_per_second=self._samples_per_second,
        )

    def _details(self) -> str:
        parts = [f"{name} {short(float(value))}" for name, value in self._values.items()]
        parts += rates(self.steps_per_second, self._samples_per_second)
        if self.total_steps is not None:
            parts.append(f"ETA {clock(self.seconds_left)}")
        return "  ".join(parts)

    def _start_bars(self) -> Progress:
        """Draw panel and bars from now on, and let the log write above them."""
        if self._bars is not None:
            return self._bars
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        training = self

        class PanelAndBars(Progress):
            def get_renderables(self) -> Iterable[RenderableType]:
                if training._panel is not None:
                    yield training._panel
                yield from super().get_renderables()

        if self._console is None:
            self._console = Console(stderr=True)
        self._bars = PanelAndBars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),  # takes the room the text leaves
            MofNCompleteColumn(),
            console=self._console,
            expand=True,
            refresh_per_second=1 / REDRAW_S,
            redirect_stdout=sys.stdout.isatty(),  # a piped one must not end up on the terminal
        )
        # Rich redirects `sys.stderr`, but a handler keeps the stream it was made with.
        above = _AboveTheBars(self._console)
        for logger in (logging.getLogger(), logging.getLogger("myxtts")):
            for handler in logger.handlers:
                if _writes_to_terminal(handler):
                    self._moved_handlers.append((handler, handler.setStream(above)))
        self._bars.start()
        self._console.show_cursor(True)  # hidden, it would stay so after a second Ctrl-C
        return self._bars


class _AboveTheBars:
    """The stream log handlers write to while bars are drawn: lines go above them, unwrapped."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        from rich.text import Text

        self._console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        self._console.file.flush()

    def isatty(self) -> bool:
        return False  # so that a handler already moved here is not moved again


def _is_terminal(console: Console | None) -> bool:
    if console is not None:
        return console.is_terminal and not console.is_dumb_terminal
    # Asked here and not of rich, which is slow to load and takes FORCE_COLOR for a terminal.
    return sys.stderr.isatty() and os.environ.get("TERM") not in (None, "dumb", "unknown")


def _writes_to_terminal(handler: logging.Handler) -> TypeGuard[logging.StreamHandler[Any]]:
    if not isinstance(handler, logging.StreamHandler) or handler.stream.closed:
        return False
    return bool(handler.stream.isatty())
