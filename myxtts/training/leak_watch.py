"""Watches the memory of the host and of each GPU for steady growth while a run is under way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from myxtts.observe.leaks import Leak, LeakDetector
from myxtts.pipeline.devices import DevicePlan, Mode, RoleName
from myxtts.pipeline.memory import read_process, read_role

CHECK_STEPS = 10


class LeakWatch:
    """One detector for each memory there is; simulated GPUs share the process's."""

    def __init__(self, plan: DevicePlan) -> None:
        self._watched: list[tuple[LeakDetector, Callable[[], float]]] = []
        roles: tuple[RoleName, ...] = ("data", "model") if plan.mode is Mode.MULTI else ("model",)
        for role in roles:
            if plan.simulated or plan.device(role).startswith("/GPU"):
                label = f"{role.capitalize()} GPU {plan.gpu(role)}"
                self._watched.append((LeakDetector(label), partial(_used, plan, role)))
        if not plan.simulated:
            self._watched.append((LeakDetector("Host memory"), lambda: read_process().used_mb))

    def check(self, step: int) -> list[Leak]:
        """What grows steadily, looked at every few steps."""
        if step % CHECK_STEPS:
            return []
        found = [detector.update(step, read()) for detector, read in self._watched]
        return [leak for leak in found if leak is not None]


def _used(plan: DevicePlan, role: RoleName) -> float:
    return read_role(plan, role).used_mb
