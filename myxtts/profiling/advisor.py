"""Turns measurements into a handful of changes, each with its reason, its gain and its flag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from myxtts.config.commands import flag_for, training_command
from myxtts.config.config import XTTSConfig
from myxtts.messages import Message
from myxtts.pipeline.hardware import MB
from myxtts.pipeline.limits import CUDA_CONTEXT_MB
from myxtts.pipeline.telemetry import PROCESS, READ, TRAIN, TRANSFER
from myxtts.profiling.measurements import (
    READ_CACHED,
    READ_COLD,
    READ_NATIVE,
    Advice,
    Change,
    Layout,
    LayoutName,
    Profile,
)
from myxtts.profiling.simulator import Prediction
from myxtts.profiling.what_if import layout_of, predict, read_times, with_settings
from myxtts.replicas.cost import Link, ring_s
from myxtts.runs.diagnosis import FULL_MEMORY
from myxtts.runs.remedies import LARGEST, Kind, Remedy
from myxtts.training.batch_fit import Room, fit_batch
from myxtts.training.model_memory import count_parameters

MOST_CHANGES = 5
WORTHWHILE = 1.03  # times the rate; less is not worth a change, and within the noise
ABOUT = 0.1  # gains closer than this are taken for equal
SPLIT_PAYS = 1.05
ON_ONE_CARD_EACH: dict[str, Any] = {
    "training.replicas": 2,
    "data.data_gpu": None,
    "data.model_gpu": None,
    "data.enable_memory_isolation": False,
    "data.data_gpu_memory": None,
    "data.model_gpu_memory": None,
}
ON_TWO_CARDS_AND_ONE: dict[str, Any] = {
    "training.replicas": None,  # the cards tell how many
    "data.data_gpu": 0,
    "data.model_gpu": (1, 2),
    "data.enable_memory_isolation": True,
    "data.data_gpu_memory": None,
    "data.model_gpu_memory": None,
}
# What the simulator can foretell; where gains are about equal the cheaper cure, which comes first,
# stays first.
FORETOLD: tuple[Kind, ...] = ("native-loading", "buffer", "workers", "cache", "prefetch", "depth")


def advise(profile: Profile) -> Advice:
    """Of what may help by the diagnosis at most five changes, and how best to use the devices."""
    diagnosis = profile.diagnosis
    now = predict(profile, profile.config, layout=layout_of(profile))
    bounded = (_within_memory(profile, remedy) for remedy in diagnosis.remedies)
    remedies = [remedy for remedy in bounded if remedy is not None and remedy.settings]
    kinds = [kind for kind in FORETOLD if any(remedy.kind == kind for remedy in remedies)]
    found = [change for kind in kinds if (change := _foretell(profile, now, kind)) is not None]
    found.sort(key=lambda change: round((change.gain or 0.0) / ABOUT), reverse=True)
    given = [_as_given(profile, now, remedy) for remedy in remedies if remedy.kind not in FORETOLD]
    urgent = [change for change in given if change.kind != "larger-batch"]
    last = [change for change in given if change not in urgent]
    changes = _without_needless(profile, [*urgent, *found, *last][:MOST_CHANGES])
    config = with_settings(profile.config, _settings(changes))
    layouts, best, reason = compare_layouts(profile, config)
    return Advice(
        changes=changes,
        predicted_rate=_predicted_rate(profile, changes),
        layouts=layouts,
        best_layout=best,
        layout_reason=reason,
        command=training_command(config, config_file=profile.config_file),
        verdict=diagnosis.sentence,
    )


def foretold(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes whose effect on the rate is predicted, and which a second run can confirm."""
    return tuple(change for change in changes if change.gain is not None)


def _as_given(profile: Profile, now: Prediction, remedy: Remedy) -> Change:
    """A remedy as the diagnosis has it; only what compiling cost is known beforehand."""
    retraced = remedy.kind == "static-shapes" and profile.together.rate
    gain = now.rate / profile.together.rate if retraced else None
    return _change(remedy.kind, dict(remedy.settings), f"{remedy.why} {remedy.words}", gain)


def _within_memory(profile: Profile, remedy: Remedy) -> Remedy | None:
    """A remedy whose batch fits by the estimate; None where none does that would change anything.

    Full memory was measured, which goes before any estimate: there the batch only gets smaller.
    """
    wanted, room = remedy.settings.get("data.batch_size"), room_of_profile(profile)
    if wanted is None or room is None:
        return remedy
    now = profile.config.data.batch_size
    fit = fit_batch(with_settings(profile.config, {"data.batch_size": wanted}), room)
    if not fit.is_too_much:
        return remedy
    if remedy.kind == "larger-batch":
        most = fit.largest or 0
        return replace(remedy, settings={"data.batch_size": most}) if most > now else None
    parts = profile.config.training.grad_accum * -(-now // fit.batch)
    smaller = {"data.batch_size": fit.batch, "training.grad_accum": parts}
    return replace(remedy, settings=smaller)


def room_of_profile(profile: Profile) -> Room | None:
    """What the profiled devices may hold; None where that is not known, as on a CPU."""
    limits = []
    for role in ("model", "data"):
        device = profile.device(role)
        limit = device.limit_mb
        if limit is None and device.card_mb is not None:
            limit = device.card_mb - CUDA_CONTEXT_MB
        if limit is None:
            return None
        limits.append(limit)
    card_mb = int(profile.device("model").card_mb or limits[0])
    return Room(card_mb, limits[0], None if layout_of(profile) == "single" else limits[1])


def _foretell(profile: Profile, now: Prediction, kind: Kind) -> Change | None:
    """The smallest change of a kind that does as much as any, if it is worth it."""
    setting, values = _values(profile, kind)
    layout = layout_of(profile)
    rates = {
        value: predict(profile, with_settings(profile.config, {setting: value}), layout=layout).rate
        for value in values
    }
    best = max(rates.values(), default=0.0)
    value = next((value for value, rate in rates.items() if rate >= 0.99 * best), None)
    if value is None or rates[value] < WORTHWHILE * now.rate:
        return None
    return _change(kind, {setting: value}, _reason(profile, kind), rates[value] / now.rate)


def _values(profile: Profile, kind: Kind) -> tuple[str, list[Any]]:
    """What a setting may become, the least first; nothing where it was not measured or fits not."""
    data = profile.config.data
    if kind == "native-loading":
        return "data.use_tf_native_loading", [True] if READ_NATIVE in profile.alone else []
    if kind == "cache":
        where = "memory" if 2 * profile.clips_mb < profile.host_free_mb else "disk"
        return "data.cache", [where] if READ_CACHED in profile.alone else []
    if kind == "workers":  # 16 -> 24 -> 36
        more = [max(data.num_workers + n, int(data.num_workers * 1.5**n)) for n in range(1, 6)]
        return "data.num_workers", [n for n in more if n <= LARGEST["num_workers"]]
    if kind == "buffer":
        size = data.pipeline_buffer_size
        return "data.pipeline_buffer_size", [2 * size, 4 * size, 8 * size]
    name, role = {
        "prefetch": ("prefetch_buffer_size", "data"),
        "depth": ("pipeline_depth", "model"),
    }[kind]
    size = getattr(data, name)
    return f"data.{name}", [size + n for n in (2, 4, 6) if _has_room(profile, role, n)]


def _reason(profile: Profile, kind: Kind) -> str:
    alone = {name: 1e3 * times.mean_s for name, times in profile.alone.items()}
    reading = 1e3 * read_times(profile, profile.config).mean_s
    if kind == "native-loading":
        return (
            f"TensorFlow reads a batch in {alone[READ_NATIVE]:.0f} ms, outside Python, instead of "
            f"{alone[READ]:.0f}"
        )
    if kind == "workers":
        return (
            f"a worker needs {reading:.0f} ms for a batch, most of it waiting for the disk: more "
            "of them wait at the same time"
        )
    if kind == "cache":
        return (
            f"a batch takes {alone[READ_CACHED]:.1f} ms from the cache and "
            f"{alone.get(READ_COLD, alone[READ]):.1f} ms from files ({profile.clips_mb:.0f} MB in "
            "all)"
        )
    if kind == "buffer":
        longest = 1e3 * max(profile.alone[READ].seconds)
        return (
            f"a batch is read in {reading:.0f} ms on the average and in up to {longest:.0f}: more "
            "of them read ahead bridge the slow ones"
        )
    return (
        f"step times vary by {profile.together.variation:.0%}; more batches ready on the "
        f"{'data' if kind == 'prefetch' else 'model'} device bridge the slow ones"
    )


def _has_room(profile: Profile, role: str, batches: int) -> bool:
    memory = profile.device(role).memory
    more_mb = batches * profile.link.batch_mb
    return memory is None or memory.used_mb + more_mb < FULL_MEMORY * memory.limit_mb


def _change(kind: Kind, settings: dict[str, Any], reason: str, gain: float | None) -> Change:
    flag = " ".join(flag_for(setting, value) for setting, value in settings.items())
    return Change(flag=flag, settings=settings, reason=reason, gain=gain, kind=kind)


def _without_needless(profile: Profile, changes: list[Change]) -> tuple[Change, ...]:
    """Leave out a change that brings nothing once those before it are made."""
    kept: list[Change] = []
    for change in changes:
        before = _predicted_rate(profile, tuple(kept))
        after = _predicted_rate(profile, (*kept, change))
        if change.gain is None or change.kind == "static-shapes" or after >= WORTHWHILE * before:
            kept.append(change)
    return tuple(kept)


def _predicted_rate(profile: Profile, changes: tuple[Change, ...]) -> float:
    config = with_settings(profile.config, _settings(foretold(changes)))
    return predict(profile, config, layout=layout_of(profile)).rate


def _settings(changes: tuple[Change, ...]) -> dict[str, Any]:
    return {name: value for change in changes for name, value in change.settings.items()}


# -- one device, two roles, two replicas, or two of both --


def compare_layouts(
    profile: Profile, config: XTTSConfig
) -> tuple[tuple[Layout, ...], str, tuple[Message, ...]]:
    """The rate of each way to use the devices with these settings; the best, and why."""
    single = predict(profile, config, layout="single").rate
    split = predict(profile, config, layout="split").rate
    parallel = _replicas_rate(profile, config, single)
    both = _replicas_rate(profile, config, split)
    if (process := profile.alone[PROCESS].mean_s) and not profile.on_cpu:
        both = min(both, 1.0 / process)  # one data card prepares for two
    rates: dict[LayoutName, float] = {
        "single": single,
        "split": split,
        "data-parallel": parallel,
        "split-parallel": both,
    }
    known: LayoutName | None = None
    scale = 1.0
    if config == profile.config and not profile.together.retraces:
        # One of them was measured: the others are off by about as much.
        known = layout_of(profile)
        scale = profile.together.rate / rates[known]
    layouts = tuple(
        Layout(name, rate * scale, "measured" if name == known else "predicted")
        for name, rate in rates.items()
    )
    worth = split / single
    best = "split" if worth >= SPLIT_PAYS else "single"
    reasons = [
        Message(
            "The split is {} times as fast as one device."
            if best == "split"
            else "The split is not worth it here: {} times the rate of one device doing both.",
            (f"{worth:.2f}",),
        )
    ]
    if parallel > SPLIT_PAYS * max(split, single):
        words = (
            "Two replicas on two cards (data-parallel) would reach {} times one device's rate, by "
            "calculation: {}"
        )
        best = best if profile.on_cpu else "data-parallel"
        command = training_command(
            with_settings(config, ON_ONE_CARD_EACH), config_file=profile.config_file
        )
        reasons.append(Message(words, (f"{parallel / single:.2f}", command)))
    if both > SPLIT_PAYS * max(parallel, split, single) and not profile.on_cpu:
        words = (
            "Three cards, one preparing for two replicas (split-parallel), would reach {} times, "
            "by calculation: {}"
        )
        command = training_command(
            with_settings(config, ON_TWO_CARDS_AND_ONE), config_file=profile.config_file
        )
        reasons.append(Message(words, (f"{both / single:.2f}", command)))
    if profile.on_cpu:
        reasons.append(
            Message("All of it ran on the same cores: this says nothing about two GPUs.")
        )
    return layouts, best, tuple(reasons)


def _replicas_rate(profile: Profile, config: XTTSConfig, one: float) -> float:
    """Batches a second of two replicas, of which one alone has this rate, with their sum counted.

    Nothing of it was run; the link that was measured, data to model, stands in for theirs.
    """
    exchange_s = 0.0
    if profile.link.mb_per_s:
        link = Link(profile.link.mb_per_s * MB, latency_s=0.0)
        exchange_s = ring_s(4 * count_parameters(config.model), 2, link)
    rate = 2.0 / (1.0 / one + exchange_s)
    read = read_times(profile, config)
    workers = 1 if config.data.cache is not None else config.data.num_workers
    limits = [rate, workers / read.mean_s if read.mean_s else rate]
    stages = (READ, PROCESS, TRANSFER, TRAIN) if profile.on_cpu else (READ,)
    cpu_s = sum(read.cpu_s if stage == READ else profile.alone[stage].cpu_s for stage in stages)
    if cpu_s:
        limits.append(profile.cores / cpu_s)
    return min(limits)
