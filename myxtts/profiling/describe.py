"""A profile, its advice and a memory plan as text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterator

from myxtts.config.commands import training_command
from myxtts.pipeline.hardware import MB
from myxtts.pipeline.limits import CUDA_CONTEXT_MB
from myxtts.pipeline.telemetry import PROCESS, READ, TRAIN, TRANSFER
from myxtts.profiling.advisor import ON_ONE_CARD_EACH
from myxtts.profiling.cards import LAUNCH_S
from myxtts.profiling.measurements import READ_CACHED, READ_COLD, READ_NATIVE, Advice, Profile
from myxtts.profiling.planner import MemoryPlan
from myxtts.profiling.what_if import with_settings
from myxtts.replicas.cost import Link, ring_s
from myxtts.training.batch_fit import USABLE

PCI_EXPRESS = Link(31.5e9, LAUNCH_S)  # generation 4, x16, one direction
SLOW_NETWORK = 10  # Gb/s

NAMES = {
    READ: "read (one worker)",
    READ_COLD: "  from cold files",
    READ_CACHED: "  from a cache",
    READ_NATIVE: "  natively",
    PROCESS: "process",
    TRANSFER: "transfer",
    TRAIN: "train (the model alone)",
}


def describe_profile(profile: Profile) -> Iterator[str]:
    """The measurements, line by line."""
    together, diagnosis = profile.together, profile.diagnosis.without_settings
    where = "simulated on CPU, " if profile.simulated else ""
    yield f"Profile of {profile.data_name}: {together.steps} steps ({where}{profile.machine})"
    for shape in profile.shapes:
        yield f"  batches of {shape}"
    yield ""
    yield f"{'each stage alone':28s}{'ms a batch':>11s}{'CPU ms':>9s}{'batches/s':>11s}"
    for name, label in NAMES.items():
        if (times := profile.alone.get(name)) is not None and times.mean_s:
            rate = f"{1 / times.mean_s:11.1f}"
            yield f"{label:28s}{times.mean_s * 1e3:11.1f}{times.cpu_s * 1e3:9.1f}{rate}"
    yield ""
    yield f"{'all together':28s}{'busy':>9s}{'waits for input':>17s}{'waits for room':>16s}"
    for name, stage in together.stages.items():
        whole = (stage.busy_s + stage.waiting_input_s + stage.waiting_room_s) or 1.0
        yield (
            f"{name:28s}{stage.busy_share:9.0%}{stage.waiting_input_s / whole:17.0%}"
            f"{stage.waiting_room_s / whole:16.0%}"
        )
    yield ""
    yield from _describe_devices(profile)
    yield ""
    core = profile.cpu_bound_s >= max(profile.stage_s(stage) for stage in profile.stages)
    bound = "all CPU work on the cores" if core else f"stage '{profile.slowest}'"
    yield f"Bottleneck: {diagnosis.bottleneck}"
    yield f"Stall: the model waits {together.stall_share:.1%} of a step for its batch"
    yield (
        f"Rate: {together.rate:.2f} steps/s of at most {profile.bound:.2f} ({bound}); "
        f"measured/bound {profile.efficiency:.2f}"
    )
    yield f"Step variation: {together.variation:.1%}"
    if diagnosis.uneven is not None:
        yield f"  {diagnosis.uneven}"
    if len(together.buckets) > 1:
        for bucket in together.buckets:
            yield f"  {bucket.shape}: {bucket.variation:.1%} over {bucket.steps} steps"
    yield f"Retraces: {together.retraces}"
    yield f"Grade: {diagnosis.grade}"
    if diagnosis.doubt is not None:
        yield f"Doubt: {diagnosis.doubt}"


def _describe_devices(profile: Profile) -> Iterator[str]:
    for device in profile.devices:
        limit = device.limit_mb or device.card_mb
        memory = f"{device.memory_mb:.0f} MB" + (f" of {limit:.0f}" if limit else ", no limit")
        used = "" if device.utilisation is None else f", NVML {device.utilisation:.0%}"
        yield (
            f"{device.role} device {device.name} ({device.description}): busy "
            f"{device.busy_share:.0%}{used}; memory {memory} ({device.memory_source})"
        )
    link = profile.link
    if link.kind != "same device":
        yield f"Link: {link.kind}, {link.batch_mb:.1f} MB a batch at {link.mb_per_s:.0f} MB/s"


def describe_advice(advice: Advice) -> Iterator[str]:
    """What to do, line by line."""
    yield str(advice.verdict)
    yield ""
    if not advice.changes:
        yield "Nothing to change: no setting would make it noticeably faster."
    for number, change in enumerate(advice.changes, 1):
        gain = "gain not foretold" if change.gain is None else f"{change.gain:.2f} times the rate"
        yield f"{number}. {change.flag}   ({gain})"
        yield f"   {change.reason}"
    if any(change.gain is not None for change in advice.changes):
        yield f"With these: {advice.predicted_rate:.2f} steps/s, predicted"
    yield ""
    yield "Single, split, data-parallel or both?"
    for layout in advice.layouts:
        yield f"  {layout.name:14s}{layout.rate:8.2f} steps/s, {layout.basis}"
    yield f"  {advice.best_layout}: {' '.join(map(str, advice.layout_reason))}"
    yield ""
    yield f"{'Recommended' if advice.changes else 'As measured'}: {advice.command}"


def describe_plan(plan: MemoryPlan) -> Iterator[str]:
    """A memory plan as tables; activations and the data device's work are estimates."""
    config, step, shape = plan.config, plan.step, plan.buckets[-1].shape
    weights = step.weights
    yield (
        f"Model size {config.model.size}, two cards of {plan.card_mb} MB, longest batch {shape} "
        f"(nothing was measured)"
    )
    yield ""
    yield f"{'model device':44s}{'MB':>9s}"
    rows = (
        ("weights (exact)", weights.model / MB),
        ("optimiser (exact)", weights.optimizer / MB),
        ("averaged weights (exact)", weights.average / MB),
        ("gradients", step.gradients / MB),
        ("activations (estimated)", step.activations / MB),
        (
            f"batches in flight, depth {config.data.pipeline_depth}",
            plan.waiting_mb + step.batch / MB,
        ),
        ("in all, at the worst moment", plan.model_mb),
        ("limit", float(plan.model_limit_mb)),
    )
    for name, megabytes in rows:
        yield f"{name:44s}{megabytes:9.1f}"
    yield f"{'data device':44s}{'MB':>9s}"
    prefetch = config.data.prefetch_buffer_size
    yield f"{f'{prefetch} prefetched, and work on one (estimated)':44s}{plan.data_mb:9.1f}"
    yield f"{'limit':44s}{float(plan.data_limit_mb):9.1f}"
    yield ""
    yield f"{'batches of':36s}{'activations':>12s}{'model MB':>10s}{'data MB':>9s}{'at most':>9s}"
    for bucket in plan.buckets:
        yield (
            f"{bucket.shape!s:36s}{bucket.activations_mb:12.1f}{bucket.model_mb:10.1f}"
            f"{bucket.data_mb:9.1f}{bucket.largest_batch:9d}"
        )
    yield f"('at most' is how many clips fit {USABLE:.0%} of the limits)"
    yield ""
    yield f"Batch size {plan.fit.batch}: {plan.fit.beside_the_table}"
    for note in plan.notes:
        yield f"Note: {note}"
    if plan.fits:
        yield from _describe_replicas(plan)
    yield "It fits." if plan.fits else "It does NOT fit."
    yield f"Recommended: {plan.command}"


def _describe_replicas(plan: MemoryPlan) -> Iterator[str]:
    """The other way to use the two cards, as far as it can be told without a measurement."""
    needed, room = plan.model_mb + plan.data_mb, plan.card_mb - CUDA_CONTEXT_MB
    gradients = plan.step.weights.model
    links = PCI_EXPRESS, Link.of_network(SLOW_NETWORK)
    on_bus, on_network = (1e3 * ring_s(gradients, 2, link) for link in links)
    if needed > room:
        yield f"A replica on each card does not fit: {needed:.0f} MB of {room} for both jobs."
        return
    yield (
        f"Or two replicas, each doing both jobs on its card ({needed:.0f} MB of {room}), "
        "two batches an update:"
    )
    yield (
        f"{gradients / 1e6:.1f} MB of gradients to add up take {on_bus:.1f} ms between cards, or "
        f"{on_network:.0f} ms between machines at {SLOW_NETWORK} Gb/s"
    )
    yield "(calculated, not measured; myxtts profile says which way is faster)."
    yield f"Replicas: {training_command(with_settings(plan.config, ON_ONE_CARD_EACH))}"
