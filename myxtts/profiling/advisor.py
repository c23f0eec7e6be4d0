"""Turns measurements into a handful of changes, each with its reason, its gain and its flag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from myxtts.config.commands import flag_for, training_command
from myxtts.config.config import XTTSConfig
from myxtts.messages import Message, percent
from myxtts.pipeline.hardware import MB
from myxtts.pipeline.limits import CUDA_CONTEXT_MB
from myxtts.pipeline.memory import RSS
from myxtts.pipeline.telemetry import PROCESS, READ, TRAIN, TRANSFER
from myxtts.profiling.measurements import (
    READ_CACHED,
    READ_COLD,
    READ_NATIVE,
    Advice,
    Change,
    DeviceUse,
    Layout,
    Profile,
)
from myxtts.profiling.model_memory import count_parameters
from myxtts.profiling.simulator import Prediction
from myxtts.profiling.what_if import layout_of, predict, read_times, with_settings

MOST_CHANGES = 5
WORTHWHILE = 1.03  # times the rate; less is not worth a change, and within the noise
FULL = 0.90  # share of a memory limit from which a longer batch may overflow it
SHORT_STEP_S = 0.02  # below this the hand-over between stages is a good part of a step
ABOUT = 0.1  # gains closer than this are taken for equal
LITTLE = 0.05  # of a step's time, waited for a batch
SPLIT_PAYS = 1.05
FEWEST_STALLS = 0.02  # a model that waits less than this gains nothing from quicker batches
MOST_WORKERS = 64


def advise(profile: Profile) -> Advice:
    """At most five changes, the most useful first, and how best to use the devices."""
    now = predict(profile, profile.config, layout=layout_of(profile))
    urgent = [*_relieve_memory(profile), *_stop_retracing(profile, now)]
    found = [*_speed_up_reading(profile, now), *_widen_buffers(profile, now)]
    # Where gains are about equal the cheaper cure, which comes first, stays first.
    found.sort(key=lambda change: round((change.gain or 0.0) / ABOUT), reverse=True)
    changes = _without_needless(profile, [*urgent, *found, *_enlarge_batch(profile)][:MOST_CHANGES])
    config = with_settings(profile.config, _settings(changes))
    layouts, best, reason = compare_layouts(profile, config)
    return Advice(
        changes=changes,
        predicted_rate=_predicted_rate(profile, changes),
        layouts=layouts,
        best_layout=best,
        layout_reason=reason,
        command=training_command(config, config_file=profile.config_file),
        verdict=describe(profile),
    )


def foretold(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes whose effect on the rate is predicted, and which a second run can confirm."""
    return tuple(change for change in changes if change.gain is not None)


def describe(profile: Profile) -> Message:
    """The state of things."""
    stage, together = profile.bottleneck, profile.together
    busy = percent(together.stages[TRAIN].busy_share)
    if stage != TRAIN and together.stall_share < LITTLE:
        return Message(
            "The model device works {} of the time; stage '{}' needs about as long as the step, "
            "and there is little left to gain.",
            (busy, stage),
        )
    if stage == TRAIN and together.retraces:
        return Message(
            "The step was compiled {} times more than its shapes need: what takes long is "
            "compiling, not training.",
            (str(together.retraces),),
        )
    if stage == TRAIN:
        return Message(
            "The model device works {} of the time and everything else keeps up with it: the step "
            "itself is what takes long.",
            (busy,),
        )
    share = percent(together.stages[stage].busy_share)
    return Message(
        "The model device works {} of the time and waits {}: stage '{}', busy {} of its time, "
        "holds it back.",
        (busy, percent(together.stall_share), stage, share),
    )


def runs_well(profile: Profile) -> bool:
    """Whether the model hardly waits, and nothing is compiled again and again."""
    return profile.together.stall_share < LITTLE and not profile.together.retraces


# -- memory and shapes: what stops a run, or stalls it for seconds --


def _relieve_memory(profile: Profile) -> Iterator[Change]:
    for device in profile.devices:
        limit = device.limit_mb or device.card_mb
        if device.memory_source == RSS or not limit or device.memory_mb < FULL * limit:
            continue  # a process on the CPU holds much that a card would not
        why = (
            f"the {device.role} device holds {device.memory_mb:.0f} of {limit:.0f} MB: a longer "
            "batch would overflow it"
        )
        yield from _higher_limit(device, limit, why)
        yield from _smaller(profile.config, device, why)


def _higher_limit(device: DeviceUse, limit: float, why: str) -> Iterator[Change]:
    room = 0.0 if device.card_mb is None else device.card_mb - CUDA_CONTEXT_MB
    if device.limit_mb is None or room < 1.1 * limit:
        return
    setting, value = f"data.{device.role}_gpu_memory", int(min(room, 1.5 * limit)) // 64 * 64
    yield _change("memory-limit", {setting: value}, f"{why}, and the card has {room:.0f} MB", None)


def _smaller(config: XTTSConfig, device: DeviceUse, why: str) -> Iterator[Change]:
    data, settings = config.data, {}
    if device.role == "data" and data.prefetch_buffer_size > 2:
        settings["data.prefetch_buffer_size"] = data.prefetch_buffer_size // 2
        yield _change("smaller-buffers", settings, why, None)
    elif data.batch_size > 1:
        settings["data.batch_size"] = data.batch_size // 2
        settings["training.grad_accum"] = config.training.grad_accum * 2
        reason = f"{why}; the gradients of twice as many batches make up for it"
        yield _change("smaller-batch", settings, reason, None)


def _stop_retracing(profile: Profile, now: Prediction) -> Iterator[Change]:
    together = profile.together
    if not together.retraces or profile.config.data.static_shapes == "one":
        return
    reason = (
        f"the step was compiled {together.retraces} times more than its shapes need: "
        "with one fixed shape it never is again"
    )
    gain = now.rate / together.rate if together.rate else None
    yield _change("static-shapes", {"data.static_shapes": "one"}, reason, gain)


# -- the flow of batches --


def _speed_up_reading(profile: Profile, now: Prediction) -> Iterator[Change]:
    config = profile.config
    if config.data.cache is not None:
        return
    if not config.data.use_tf_native_loading and READ_NATIVE in profile.alone:
        native = profile.alone[READ_NATIVE].mean_s
        reason = (
            f"TensorFlow reads a batch in {native * 1e3:.0f} ms, outside Python, instead of "
            f"{profile.alone[READ].mean_s * 1e3:.0f}"
        )
        yield from _if_worthwhile(
            profile, now, "native-loading", {"data.use_tf_native_loading": True}, reason
        )
    more = None
    if now.stall_share >= FEWEST_STALLS:
        steps = (_half_more(config.data.num_workers, times) for times in range(1, 6))
        more = _fewest_that_do(profile, "data.num_workers", [n for n in steps if n <= MOST_WORKERS])
    if more is not None:
        reason = (
            f"a worker needs {read_times(profile, config).mean_s * 1e3:.0f} ms for a batch, most "
            f"of it waiting for the disk: more of them wait at the same time"
        )
        yield from _if_worthwhile(profile, now, "workers", {"data.num_workers": more}, reason)
    if READ_CACHED in profile.alone:
        kind = "memory" if 2 * profile.clips_mb < profile.host_free_mb else "disk"
        cold = profile.alone.get(READ_COLD, profile.alone[READ]).mean_s
        reason = (
            f"a batch takes {profile.alone[READ_CACHED].mean_s * 1e3:.1f} ms from the cache and "
            f"{cold * 1e3:.1f} ms from files ({profile.clips_mb:.0f} MB in all)"
        )
        yield from _if_worthwhile(profile, now, "cache", {"data.cache": kind}, reason)


def _widen_buffers(profile: Profile, now: Prediction) -> Iterator[Change]:
    if now.stall_share < FEWEST_STALLS:
        return
    data = profile.config.data
    for kind, setting, value, where in (
        ("prefetch", "prefetch_buffer_size", data.prefetch_buffer_size, "data"),
        ("depth", "pipeline_depth", data.pipeline_depth, "model"),
    ):
        wider = _fewest_that_do(profile, f"data.{setting}", [_wider(value, n) for n in (1, 2, 3)])
        if wider is not None and _has_room(profile, where, (wider - value) * profile.link.batch_mb):
            reason = (
                f"step times vary by {profile.together.variation:.0%}; more batches ready on the "
                f"{where} device bridge the slow ones"
            )
            yield from _if_worthwhile(profile, now, kind, {f"data.{setting}": wider}, reason)


def _wider(value: int, times: int) -> int:
    """4 -> 6 -> 8 -> 10."""
    return value + 2 * times


def _half_more(value: int, times: int) -> int:
    """16 -> 24 -> 36."""
    return max(value + times, int(value * 1.5**times))


def _enlarge_batch(profile: Profile) -> Iterator[Change]:
    """Where steps are so short that handing batches over is a good part of them."""
    data, busy = profile.config.data, profile.together.stages[TRAIN].busy_share
    step_s = profile.alone[TRAIN].mean_s
    model = profile.device("model")
    limit = model.limit_mb or model.card_mb
    full = model.memory_source != RSS and limit and model.memory_mb > limit / 2
    if busy >= 0.8 or step_s >= SHORT_STEP_S or full:
        return
    reason = (
        f"the model needs only {step_s * 1e3:.0f} ms for a batch and then waits: the data device "
        "gives it too little work at a time"
    )
    yield _change("larger-batch", {"data.batch_size": data.batch_size * 2}, reason, None)


def _has_room(profile: Profile, role: str, more_mb: float) -> bool:
    device = profile.device(role)
    limit = device.limit_mb or device.card_mb
    if device.memory_source == RSS or not limit:
        return True
    return device.memory_mb + more_mb < FULL * limit


def _fewest_that_do(profile: Profile, setting: str, values: list[int]) -> int | None:
    """The smallest value that is as good as any of them."""
    layout = layout_of(profile)
    rates = {
        value: predict(profile, with_settings(profile.config, {setting: value}), layout=layout).rate
        for value in values
    }
    if not rates:
        return None
    best = max(rates.values())
    return min(value for value, rate in rates.items() if rate >= 0.99 * best)


def _if_worthwhile(
    profile: Profile, now: Prediction, kind: str, settings: dict[str, Any], reason: str
) -> Iterator[Change]:
    changed = with_settings(profile.config, settings)
    gain = predict(profile, changed, layout=layout_of(profile)).rate / now.rate
    if gain >= WORTHWHILE:
        yield _change(kind, settings, reason, gain)


def _change(kind: str, settings: dict[str, Any], reason: str, gain: float | None) -> Change:
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


# -- one device, two roles, or two replicas --


def compare_layouts(
    profile: Profile, config: XTTSConfig
) -> tuple[tuple[Layout, ...], str, tuple[Message, ...]]:
    """The rate of each way to use the devices with these settings; the best, and why."""
    single = predict(profile, config, layout="single").rate
    split = predict(profile, config, layout="split").rate
    parallel = _data_parallel_rate(profile, config, single)
    layouts: tuple[Layout, ...] = (
        Layout("single", single, "predicted"),
        Layout("split", split, "predicted"),
        Layout("data-parallel", parallel, "predicted"),
    )
    if config == profile.config and not profile.together.retraces:
        # One of them was measured: the others are off by about as much.
        known = layout_of(profile)
        scale = profile.together.rate / (single if known == "single" else split)
        layouts = tuple(
            replace(
                layout,
                rate=layout.rate * scale,
                basis="measured" if layout.name == known else "predicted",
            )
            for layout in layouts
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
            "Two replicas on two cards (data-parallel, which MyXTTS does not offer) would reach {} "
            "times one device's rate, by calculation."
        )
        reasons.append(Message(words, (f"{parallel / single:.2f}",)))
    if profile.on_cpu:
        reasons.append(
            Message("All of it ran on the same cores: this says nothing about two GPUs.")
        )
    return layouts, best, tuple(reasons)


def _data_parallel_rate(profile: Profile, config: XTTSConfig, single: float) -> float:
    """Two replicas, each preparing and training on its own device, and adding up gradients.

    Nothing of it was run. Between two devices each sends its gradients once over the link.
    """
    if profile.link.mb_per_s:
        gradients_mb = 4 * count_parameters(config.model) / MB
        exchange_s = gradients_mb / profile.link.mb_per_s
    else:
        exchange_s = 0.0
    rate = 2.0 / (1.0 / single + exchange_s)
    read = read_times(profile, config)
    workers = 1 if config.data.cache is not None else config.data.num_workers
    limits = [rate, workers / read.mean_s if read.mean_s else rate]
    stages = (READ, PROCESS, TRANSFER, TRAIN) if profile.on_cpu else (READ,)
    cpu_s = sum(read.cpu_s if stage == READ else profile.alone[stage].cpu_s for stage in stages)
    if cpu_s:
        limits.append(profile.cores / cpu_s)
    return min(limits)
