"""When a run is measured and heard: a few times in each, however long."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES_IN_A_RUN = 5
LEAST_STEPS = 100  # between two: a short run is heard at its end only
LONGEST_S = 1800.0  # without one


class Occasions:
    """Tells whether it is time again: every so many steps, or by share of the run and by time.

    What depends on the clock differs from machine to machine; without `by_time` the same run has
    the same occasions everywhere.
    """

    def __init__(
        self,
        every: int | None,
        *,
        by_time: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every, self._by_time, self._clock = every, by_time and every is None, clock
        self._last = clock()
        self._count: int | None = None

    def is_due(self, step: int, *, total: int) -> bool:
        """Whether to do it behind this step of so many; asked once a step.

        A run may find out on its way how long it will be: what was counted is not done again.
        """
        # Rounded up: the end has one of its own, and the last is not a step or two before it.
        period = self._every or max(LEAST_STEPS, -(-total // TIMES_IN_A_RUN))
        if self._count is None:  # of a run that goes on, those before are done
            self._count = (step - 1) // period
        late = self._by_time and self._clock() - self._last > LONGEST_S
        due = step // period > self._count or late
        if due:
            self._count, self._last = max(self._count, step // period), self._clock()
        return due
