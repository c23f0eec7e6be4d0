"""What the engine itself costs: per-batch overhead, telemetry, and memory over many batches."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import psutil

from myxtts.pipeline import ProducerConsumerPipeline, configure_devices
from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.telemetry import BUSY, STAGES, WAITING_INPUT, WAITING_ROOM, Telemetry

BATCHES = 20_000
OVERHEAD_BAR_US, TELEMETRY_BAR_US, GROWTH_BAR_MB = 300, 50, 20


def telemetry_us() -> float:
    """All telemetry calls of one batch, as the stages and the consumer make them."""
    telemetry = Telemetry(ring_capacity=3)
    rounds = 20_000
    began = time.perf_counter()
    for _ in range(rounds):
        for name in STAGES:
            meter = telemetry.meters[name]
            meter.enter(WAITING_INPUT)
            meter.enter(BUSY)
            meter.finish_batch(WAITING_ROOM)
        telemetry.delivered(at=time.perf_counter(), waited=0.0, shape="16x224x80 16", ready=3)
    return (time.perf_counter() - began) / rounds * 1e6


def handover_us() -> float:
    """What this machine takes to wake another thread: a batch is handed over three times."""
    there, back = threading.Semaphore(0), threading.Semaphore(0)
    rounds = 5000

    def answer() -> None:
        for _ in range(rounds):
            there.acquire()
            back.release()

    thread = threading.Thread(target=answer)
    thread.start()
    began = time.perf_counter()
    for _ in range(rounds):
        there.release()
        back.acquire()
    thread.join()
    return (time.perf_counter() - began) / rounds / 2 * 1e6


def pass_batches(plan: DevicePlan, count: int) -> tuple[float, float]:
    """Microseconds a batch, and by how many MB the process grew after the first tenth."""
    batch = {"features": np.zeros([16, 80], np.float32), "lengths": np.zeros([16], np.int32)}
    process, rss = psutil.Process(), 0
    with ProducerConsumerPipeline(
        (batch for _ in range(count)), plan=plan, process=lambda b: b
    ) as batches:
        began = time.perf_counter()
        for number, _ in enumerate(batches):
            if number == count // 10:
                gc.collect()
                rss = process.memory_info().rss
        taken = time.perf_counter() - began
    gc.collect()
    return taken / count * 1e6, (process.memory_info().rss - rss) / 2**20


def show_the_machines_share(plan: DevicePlan) -> None:
    """The same on one core, where no thread moves, and what it takes to wake one."""
    if hasattr(os, "sched_setaffinity"):  # Linux; threads inherit it
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        one_core_us, _ = pass_batches(plan, BATCHES // 4)
        os.sched_setaffinity(0, cores)
        print(f"{'(the same, all on one core)':38s} {one_core_us:8.1f} µs a batch")
    print(f"{'(to wake a thread, on this machine)':38s} {handover_us():8.1f} µs")


def main() -> None:
    plan = configure_devices(simulate=True)
    threads = threading.active_count()
    overhead_us, growth_mb = pass_batches(plan, BATCHES)
    left = threading.active_count() - threads
    rows = (
        ("engine overhead with trivial stages", overhead_us, OVERHEAD_BAR_US, "µs a batch"),
        ("telemetry", telemetry_us(), TELEMETRY_BAR_US, "µs a batch"),
        (f"RSS growth over {BATCHES} batches", growth_mb, GROWTH_BAR_MB, "MB"),
        ("threads left after close", left, 0, ""),
    )
    for name, value, bar, unit in rows:
        print(f"{name:38s} {value:8.1f} {unit:11s} (bar {bar}) {'ok' if value <= bar else 'OVER'}")
    show_the_machines_share(plan)
    sys.exit(any(value > bar for _, value, bar, _ in rows))


if __name__ == "__main__":
    main()
