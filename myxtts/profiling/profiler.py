"""Measures every stage alone, then all of them together: where the time goes, and how much is left.

Differential: the model alone on a resident batch is the most it can take; what the whole pipeline
reaches of the slowest stage's rate shows how well it overlaps.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from myxtts.pipeline.devices import ROLES, DevicePlan, Mode, RoleName
from myxtts.pipeline.engine import ProducerConsumerPipeline
from myxtts.pipeline.hardware import HARDWARE, MB, Hardware
from myxtts.pipeline.memory import read_role
from myxtts.pipeline.telemetry import BUSY, PROCESS, TRAIN, TRANSFER, Telemetry
from myxtts.profiling.measurements import (
    DeviceUse,
    Link,
    Profile,
    Sample,
    Together,
)
from myxtts.profiling.stage_timing import OnProgress, StageTimer
from myxtts.profiling.subject import Subject
from myxtts.profiling.what_if import HOST_BUFFER
from myxtts.runs.trace import Span, spans_of, write_trace

SAMPLE_S = 0.25
LONGEST_S = 120.0  # of the run of everything together, once it has a few steps
FEWEST_STEPS = 10
KEPT_STEPS = 24  # whose spans a profile keeps, for the timeline


def measure(
    subject: Subject,
    *,
    num_steps: int = 100,
    trace_file: Path | None = None,
    on_progress: OnProgress = lambda phase, done, total: None,
    hardware: Hardware = HARDWARE,
) -> Profile:
    """Profile a run's pieces: the stages alone, and the whole pipeline for `num_steps`."""
    alone = StageTimer(subject, on_progress)
    rounds = min(6, max(2, num_steps // 10))
    # A machine's speed drifts within a minute, by heat or by neighbours: half of what the whole is
    # compared with is measured before it and half after.
    alone.measure(rounds)
    together = _measure_together(subject, num_steps, hardware, trace_file, on_progress)
    alone.measure(rounds)
    times = alone.times()
    cards = {card.index: card for card in hardware.cards()}
    cores = len(psutil.Process().cpu_affinity() or range(os.cpu_count() or 1))
    on_cpu = subject.plan.model_device.startswith("/CPU")
    return Profile(
        config=subject.config,
        simulated=subject.plan.simulated,
        cores=cores,
        machine=_describe_machine(on_cpu, [card.name for card in cards.values()]),
        data_name=subject.data_name,
        alone=times,
        together=together,
        devices=_devices(subject.plan, together, cards),
        link=_link(subject.plan, alone.batch_mb, times[TRANSFER].mean_s, hardware),
        on_cpu=on_cpu,
        crowding=alone.crowding(cores) if on_cpu else 1.0,
        shapes=subject.shapes,
        clips_mb=subject.clips_mb,
        host_free_mb=psutil.virtual_memory().available / MB,
        made_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        notes=subject.notes,
    )


# -- all together --


def _measure_together(
    subject: Subject,
    num_steps: int,
    hardware: Hardware,
    trace_file: Path | None,
    on_progress: OnProgress,
) -> Together:
    """The pipeline with the run's own buffers, measured once they are full."""
    data, two_devices = subject.config.data, subject.plan.mode is Mode.MULTI
    filling = data.pipeline_depth + data.prefetch_buffer_size + 2
    retraces = max(1, len(subject.shapes))
    with ProducerConsumerPipeline(
        subject.source(),
        plan=subject.plan,
        process=subject.process,
        depth=data.pipeline_depth,
        prefetch_buffer_size=data.prefetch_buffer_size,
        buffer_size=min(HOST_BUFFER, data.host_buffer_size(two_devices=two_devices)),
        model_start_delay=0.0,
        stall_timeout=data.stall_timeout,
    ) as batches:
        for batch in itertools.islice(batches, filling):
            batches.finish_with(subject.train(batch))
        batches.telemetry.mark()
        began, cpu_before = time.perf_counter(), time.process_time()
        arrivals = [began]
        with _watching(subject.plan, hardware, batches.telemetry) as samples:
            for batch in itertools.islice(batches, num_steps):
                batches.finish_with(subject.train(batch))
                arrivals.append(time.perf_counter())
                on_progress("all together", len(arrivals) - 1, num_steps)
                if arrivals[-1] - began > LONGEST_S and len(arrivals) > FEWEST_STEPS:
                    break
        cpu_s = time.process_time() - cpu_before
        stats = batches.stats()
        spans = spans_of(batches.telemetry)
    if trace_file is not None:
        write_trace(trace_file, spans)
    return Together(
        wall_s=arrivals[-1] - began,
        stages=stats.stages,
        step_seconds=tuple(b - a for a, b in itertools.pairwise(arrivals)),
        buckets=stats.steps,
        ring_occupancy=stats.ring_occupancy,
        retraces=max(0, subject.num_traces() - retraces),
        cpu_s=cpu_s / max(1, len(arrivals) - 1),
        spans=_last_spans(spans),
        samples=tuple(samples),
    )


def _last_spans(spans: list[Span]) -> tuple[Span, ...]:
    last = max((span.batch for span in spans if span.stage == TRAIN), default=0)
    starts = [s.start_s for s in spans if s.stage == TRAIN and s.batch >= last - KEPT_STEPS]
    return tuple(span for span in spans if span.end_s >= min(starts, default=0.0))


@contextlib.contextmanager
def _watching(plan: DevicePlan, hardware: Hardware, telemetry: Telemetry) -> Iterator[list[Sample]]:
    """Within, memory, ring and utilisation are looked at now and then, on a thread of its own."""
    samples: list[Sample] = []
    began, done = time.perf_counter(), threading.Event()

    def look() -> None:
        while True:
            samples.append(_look(plan, hardware, telemetry, time.perf_counter() - began))
            if done.wait(SAMPLE_S):
                return

    thread = threading.Thread(target=look, name="profile-watch", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


def _look(plan: DevicePlan, hardware: Hardware, telemetry: Telemetry, at_s: float) -> Sample:
    meters = telemetry.meters
    in_work = meters[TRAIN].state == BUSY
    ring = meters[TRANSFER].batches - meters[TRAIN].batches - in_work
    data_mb, model_mb = (read_role(plan, role, hardware).used_mb for role in ROLES)
    data, model = (
        hardware.utilisation(plan.gpu(role) or 0) if plan.device(role).startswith("/GPU") else None
        for role in ROLES
    )
    return Sample(at_s, data_mb, model_mb, max(0, ring), data, model)


# -- what is known of the machine --


def _devices(plan: DevicePlan, together: Together, cards: Any) -> Any:
    uses = []
    roles: tuple[tuple[RoleName, str], ...] = (("data", PROCESS), ("model", TRAIN))
    for role, stage in roles:
        reading = read_role(plan, role)
        memory = [getattr(sample, f"{role}_memory_mb") for sample in together.samples]
        shares = [
            share
            for sample in together.samples
            if (share := getattr(sample, f"{role}_utilisation")) is not None
        ]
        on_cpu = plan.device(role).startswith("/CPU")
        card = None if on_cpu else cards.get(plan.gpu(role) or 0)
        uses.append(
            DeviceUse(
                role=role,
                name=plan.logical_name(role),
                description=plan.role_note(role).strip(" ()")
                or (card.name if card else plan.device(role)),
                busy_share=together.stages[stage].busy_share,
                memory_mb=max(memory, default=reading.used_mb),
                limit_mb=plan.limit_mb(role),
                card_mb=card.total_mb if card else None,
                memory_source=reading.source,
                utilisation=sum(shares) / len(shares) if shares else None,
            )
        )
    return tuple(uses)


def _link(plan: DevicePlan, batch_mb: float, transfer_s: float, hardware: Hardware) -> Link:
    rate = batch_mb / transfer_s if transfer_s else 0.0
    if plan.data_device == plan.model_device:
        return Link("same device", batch_mb, 0.0)
    if plan.data_device.startswith("/CPU"):
        return Link("copy in memory", batch_mb, rate)
    direct = hardware.peer_to_peer(plan.data_gpu or 0, plan.model_gpu or 0)
    if direct is None:
        return Link("unknown", batch_mb, rate)
    return Link("peer-to-peer" if direct else "through the host", batch_mb, rate)


def _describe_machine(on_cpu: bool, cards: list[str]) -> str:
    cores = f"{os.cpu_count()} cores, {platform.machine()}"
    return f"{cores}, {', '.join(cards)}" if cards and not on_cpu else f"{cores}, no GPU used"
