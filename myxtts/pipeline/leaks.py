"""Tells a steady memory leak from warm-up, from sawtooth allocation and from a one-off jump."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from myxtts.pipeline.devices import ROLES, DevicePlan, Mode, RoleName
from myxtts.pipeline.memory import read_process, read_role

WARM_UP_STEPS = 40  # compilation, cuDNN workspaces and buffers settle first
WINDOW_STEPS = 240  # the shortest stretch that is judged
SEGMENTS = 6
MIN_GROWTH_MB = 16.0
EVENNESS = 0.7  # the slowest rise between segments, as a share of the average rise
KEPT_READINGS = 4096
CHECK_STEPS = 10


@dataclass(frozen=True)
class Leak:
    """A steady growth of one device's memory."""

    device: str
    mb_per_step: float
    window_steps: int

    def __str__(self) -> str:
        return (
            f"{self.device}: memory grows steadily by {self.mb_per_step:.2f} MB a step "
            f"(fitted over the last {self.window_steps} steps)"
        )


class LeakDetector:
    """Feed it a reading every few steps; it answers once a window in which memory kept rising.

    A window is cut into segments and the lowest reading of each is compared with the one before.
    A leak raises all of these floors, evenly, and to where memory never was before. A sawtooth's
    floors come back down, a jump raises one of them, and a warm-up raises the early ones more than
    the late ones. Longer windows, each four times the last, find leaks too slow for the first.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._readings: deque[tuple[int, float]] = deque(maxlen=KEPT_READINGS)
        self._first_step: int | None = None
        self._quiet_until = 0

    def update(self, step: int, used_mb: float) -> Leak | None:
        """Take a reading; returns a leak when one shows, at most once a window."""
        if self._first_step is None:
            self._first_step = step
        if step - self._first_step < WARM_UP_STEPS:
            return None
        self._readings.append((step, used_mb))
        if step < self._quiet_until:
            return None
        seen = step - self._readings[0][0]
        window = WINDOW_STEPS
        while window <= seen:
            leak = self._judge(step, window)
            if leak is not None:
                self._quiet_until = step + window
                return leak
            window *= 4
        return None

    def _judge(self, step: int, window: int) -> Leak | None:
        readings = np.array(self._readings)
        inside = readings[:, 0] >= step - window
        earlier, (steps, used) = readings[~inside, 1], readings[inside].T
        segment = np.minimum(((steps - steps[0]) * SEGMENTS / window).astype(int), SEGMENTS - 1)
        if len(np.unique(segment)) < SEGMENTS:
            return None  # too few readings to tell
        lowest = [
            np.flatnonzero(segment == i)[used[segment == i].argmin()] for i in range(SEGMENTS)
        ]
        floors, at = used[lowest], steps[lowest]
        grown = floors[-1] - floors[0]
        if grown < MIN_GROWTH_MB or (earlier.size and floors[-1] <= earlier.max()):
            return None
        least_slope = EVENNESS * grown / (at[-1] - at[0])
        still_rising = used[-1] - floors[-1] >= least_slope * (steps[-1] - at[-1])
        if not still_rising or (np.diff(floors) < least_slope * np.diff(at)).any():
            return None
        return Leak(self.device, float(np.polyfit(steps, used, 1)[0]), window)


class LeakWatch:
    """One detector for each memory there is; simulated GPUs share the process's."""

    def __init__(self, plan: DevicePlan) -> None:
        self._plan = plan
        self._detectors: dict[RoleName | None, LeakDetector] = {}  # None: the host's memory
        for role in ROLES if plan.mode is Mode.MULTI else ROLES[1:]:
            if plan.simulated or plan.device(role).startswith("/GPU"):
                self._detectors[role] = LeakDetector(f"{role.capitalize()} GPU {plan.gpu(role)}")
        if not plan.simulated:
            self._detectors[None] = LeakDetector("Host memory")

    def check(self, step: int) -> list[Leak]:
        """What grows steadily, looked at every few steps."""
        found = []
        for role, detector in self._detectors.items() if step % CHECK_STEPS == 0 else ():
            reading = read_process() if role is None else read_role(self._plan, role)
            found.append(detector.update(step, reading.used_mb))
        return [leak for leak in found if leak is not None]
