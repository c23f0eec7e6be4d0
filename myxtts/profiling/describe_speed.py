"""The estimate for common cards as text, with its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from myxtts.config.config import XTTSConfig
from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.profiling.cards import CARDS, GIGA, LAUNCH_S, PublishedCard
from myxtts.profiling.planner import plan_memory
from myxtts.profiling.speed_estimate import SpeedEstimate, StageTime, Work, estimate
from myxtts.replicas.cost import Link, step_s
from myxtts.training.model_memory import BatchShape, count_parameters

REPLICAS = 2


def describe_speed(
    config: XTTSConfig,
    shape: BatchShape,
    work: Work,
    *,
    half: bool,
    cards: Sequence[PublishedCard] = CARDS,
) -> Iterator[str]:
    """What was counted, what each card makes of it, and all cards side by side."""
    how = (
        f"{'mixed precision' if half else 'float32'}, {'XLA' if config.training.xla else 'no XLA'}"
    )
    yield "Estimate, not measured: nothing ran, on no card. No card reaches its published peaks, so"
    yield "expect fewer steps a second than these. What a launch costs is assumed, not published."
    yield f"Model size {config.model.size}, {how}, batches of {shape}"
    yield ""
    yield from _describe_work(work)
    found = [(card, estimate(work, card.device(tf32=config.training.tf32))) for card in cards]
    gradients = 4 * count_parameters(config.model)
    together = [_replicas_s(card, estimated, gradients) for card, estimated in found]
    for (card, estimated), replicas in zip(found, together, strict=True):
        yield ""
        yield from _describe_card(card, estimated)
        yield _describe_replicas(estimated, replicas, gradients)
    yield ""
    yield (
        f"{'estimate, steps/s':18s}{'one card':>10s}{'two cards':>11s}{'clips/s':>9s}"
        f"{'audio s/s':>11s}{'replicas':>10s}{'largest batch':>15s}"
    )
    seconds = shape.rows * shape.frames * HOP / SAMPLE_RATE
    for (card, estimated), replicas in zip(found, together, strict=True):
        rates = 1 / estimated.one_device_s, 1 / estimated.two_devices_s
        largest = plan_memory(config, gpu_memory_mb=card.memory_gb * 1024).fit.largest
        yield (
            f"{card.name:18s}{rates[0]:10.1f}{rates[1]:11.1f}{rates[1] * shape.rows:9.0f}"
            f"{rates[1] * seconds:11.0f}{REPLICAS / replicas:10.1f}{largest:15d}"
        )
    yield "(at the most; clips and seconds of audio with two cards; the largest batch by memory;"
    yield f"replicas: batches a second of --replicas {REPLICAS} on two cards, {REPLICAS} an update)"


def _replicas_s(card: PublishedCard, estimated: SpeedEstimate, num_bytes: int) -> float:
    """An update of two replicas on a card each, their gradients added up over the bus."""
    link = Link(card.bus_gb_per_s * GIGA, latency_s=LAUNCH_S)
    return step_s(estimated.one_device_s, num_bytes, REPLICAS, link)


def _describe_replicas(estimated: SpeedEstimate, replicas_s: float, num_bytes: int) -> str:
    one, rate = estimated.one_device_s, REPLICAS / replicas_s
    return (
        f"  {REPLICAS} replicas: {1e3 * one:.2f} + {1e3 * (replicas_s - one):.2f} for the sum of "
        f"{num_bytes / 1e6:.1f} MB = {1e3 * replicas_s:.2f} ms, at most {rate:.1f} batches/s"
    )


def _describe_work(work: Work) -> Iterator[str]:
    yield (
        f"{'counted in the traced graphs':32s}{'GFLOP':>9s}{'GB':>8s}{'launches':>10s}"
        f"{'in loops':>10s}"
    )
    for stage in (*work.process, *work.train):
        looping = sum(kernel.times for kernel in stage.kernels if kernel.loop)
        often = f", 1 of {1 / stage.share:.0f} batches" if stage.share < 1 else ""
        name = f"{stage.name} ({'XLA' if stage.compiled else 'op by op'}{often})"
        yield (
            f"{name:32s}{stage.flops / 1e9:9.2f}{stage.bytes / 1e9:8.2f}{stage.launches:10d}"
            f"{looping:10d}"
        )
    yield (
        f"over the bus: {work.input_bytes / 1e6:.1f} MB to the data device, "
        f"{work.crossing_bytes / 1e6:.1f} MB to the model device"
    )


def _describe_card(card: PublishedCard, estimated: SpeedEstimate) -> Iterator[str]:
    yield (
        f"{card.name}: {card.single_tflops:g} TFLOPS float32 "
        f"({'no' if card.tf32_tflops is None else f'{card.tf32_tflops:g}'} TF32), "
        f"{card.half_tflops:g} half, {card.double_tflops:g} float64; {card.gb_per_s:g} GB/s; bus "
        f"{card.bus_gb_per_s:g} GB/s (published); {1e6 * LAUNCH_S:g} µs a launch (assumed)"
    )
    yield (
        f"  {'ms a batch':12s}{'compute':>9s}{'memory':>9s}{'launches':>10s}"
        f"{'the longest of each kernel':>28s}"
    )
    for time in (*estimated.process, *estimated.train):
        yield f"  {_describe_stage(time)}"
    process, train = 1e3 * estimated.process_s, 1e3 * estimated.train_s
    one, two = estimated.one_device_s, estimated.two_devices_s
    yield (
        f"  one card:  {process:.2f} + {train:.2f} = {1e3 * one:.2f} ms, at most {1 / one:.1f} "
        "steps/s"
    )
    yield (
        f"  two cards: max({process:.2f} process, {1e3 * estimated.transfer_s:.2f} transfer, "
        f"{train:.2f} train) = {1e3 * two:.2f} ms, at most {1 / two:.1f} steps/s"
    )


def _describe_stage(time: StageTime) -> str:
    shares = ", ".join(
        f"{rule} {seconds / time.seconds:.0%}"
        for rule, seconds in sorted(time.by_rule.items(), key=lambda item: -item[1])
        if time.seconds and seconds / time.seconds >= 0.005
    )
    if time.loop_s:
        shares += f"; in loops {time.loop_share:.0%}"
    return (
        f"{time.stage.name:12s}{1e3 * time.compute_s:9.2f}{1e3 * time.memory_s:9.2f}"
        f"{1e3 * time.launch_s:10.2f}{1e3 * time.seconds:10.2f}  ({shares})"
    )
