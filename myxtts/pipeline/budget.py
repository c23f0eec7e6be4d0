"""Counts what each device holds at once, in bytes, and refuses a run that cannot fit."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import prod
from typing import Any

from myxtts.errors import MemoryBudgetError
from myxtts.pipeline.devices import DevicePlan, RoleName
from myxtts.pipeline.hardware import MB

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MemoryBudget:
    """The most batches each device holds, given the sizes of its buffers."""

    plan: DevicePlan
    prefetch_buffer_size: int
    depth: int

    def announce(self, *, host_buffer_size: int) -> None:
        """Say how many batches wait where; prefetching is on where one can wait behind another."""
        data, model = self.plan.logical_name("data"), self.plan.logical_name("model")
        if min(host_buffer_size, self.prefetch_buffer_size) > 1:
            log.info("Smart Prefetching: Enabled%s", self.plan.note)
            log.info(
                "Prefetching to %s with buffer_size=%d%s", data, host_buffer_size, self.plan.note
            )
        else:
            log.info(
                "Smart Prefetching: Disabled, a buffer of one batch keeps none in reserve%s",
                self.plan.note,
            )
        log.info(
            "   (at most %d read ahead in host memory, %d processed on %s, %d ready on %s)%s",
            host_buffer_size,
            self.prefetch_buffer_size,
            data,
            self.depth,
            model,
            self.plan.note,
        )

    def held_bytes(self, *, raw_bytes: int, ready_bytes: int) -> dict[RoleName, int]:
        """What each device holds at most of batches of this size, raw and processed."""
        # Data device: the prefetch buffer (the batch in work included), the raw form of the batch
        # in work, and the one being copied away. Model device: the ring (the batch being copied in
        # included), the one in training, the one before it, which the loop's variable keeps until
        # it is assigned again, and on a GPU the one queued behind.
        held: dict[RoleName, int] = {
            "data": (self.prefetch_buffer_size + 1) * ready_bytes + raw_bytes,
            "model": (self.depth + self._around_step) * ready_bytes,
        }
        if self.plan.data_device == self.plan.model_device:
            return {"model": held["data"] + held["model"] - ready_bytes}  # nothing is copied
        return held

    @property
    def _around_step(self) -> int:
        return 3 if self.plan.model_device.startswith("/GPU") else 2

    def check(self, *, raw_bytes: int, ready_bytes: int) -> None:
        """Refuse a batch of this size (raw and processed) if a device would overflow."""
        held = self.held_bytes(raw_bytes=raw_bytes, ready_bytes=ready_bytes)
        self._check_role("data", held.get("data", 0), ready_bytes)
        self._check_role("model", held["model"], ready_bytes)

    def _check_role(self, role: RoleName, held: int, ready_bytes: int) -> None:
        limit_mb = self.plan.limit_mb(role)
        if limit_mb is None or held <= limit_mb * MB:
            return
        buffer = (
            f"{self.prefetch_buffer_size} prefetched, in work and in transfer"
            if role == "data"
            else f"{self.depth} in the ring and {self._around_step} around the step"
        )
        flag = "--prefetch-buffer-size" if role == "data" else "--pipeline-depth"
        raise MemoryBudgetError(
            f"The {role} device would hold {held / MB:.1f} MB of batches at once ({buffer}, "
            f"{ready_bytes / MB:.1f} MB each), and its limit is {limit_mb} MB.",
            f"use a smaller --batch-size or {flag}, or raise --{role}-gpu-memory",
        )


def spec_bytes(structure: Any) -> int | None:
    """Bytes of a batch of this description, or None where a shape is not fixed."""
    import tensorflow as tf  # late: the planner counts without it

    total = 0
    for spec in tf.nest.flatten(structure):
        if not spec.shape.is_fully_defined():
            return None
        total += spec.shape.num_elements() * spec.dtype.size
    return total


def batch_bytes(structure: Any) -> int:
    """Bytes of a batch of tensors."""
    return sum(prod(shape_of(tensor)) * tensor.dtype.size for tensor in structure)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """A tensor's shape in a tenth of the time that its `shape` takes to be made."""
    shape: tuple[int, ...] = tensor._shape_tuple()
    return shape
