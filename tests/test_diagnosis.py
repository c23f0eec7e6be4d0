"""The one judge: whatever was measured, what it says holds together, in both languages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.commands import training_command
from myxtts.messages import Message, percent
from myxtts.pages.words import PERSIAN
from myxtts.pipeline.telemetry import (
    MANY_SHAPES,
    PROCESS,
    READ,
    STAGES,
    TRAIN,
    StageStats,
    StepStats,
)
from myxtts.profiling.advisor import advise
from myxtts.profiling.describe import describe_advice, describe_profile
from myxtts.runs.diagnosis import (
    AT_ITS_LIMIT,
    FEWEST_BATCHES,
    HIGH_VARIATION,
    OFTEN_EMPTY,
    TOO_EARLY,
    Diagnosis,
    Measurements,
    diagnose,
)
from myxtts.runs.remedies import BRIDGES, QUICKER, SATURATED, WORDS, DeviceMemory, Settings
from tests.profiles import make_profile

EVEN = {"read": 0.1, "process": 0.6, "transfer": 0.05, "train": 0.98}
SIX_IN_TEN = StepStats("16 16x224x80", 40, 0.5, 0.6, 0.1)


def stages(batches: int = 50, step_s: float = 0.5, **busy: float) -> dict[str, StageStats]:
    """What the stages did in this many steps, the rest of their time split between both waits."""
    whole = batches * step_s
    told = {}
    for name, share in {**EVEN, **busy}.items():
        left = (1 - share) * whole
        told[name] = StageStats(batches, share * whole, left if name == TRAIN else left / 2, 0.0)
        if name != TRAIN:
            told[name] = replace(told[name], waiting_room_s=left / 2)
    return told


def judged(*, busy: dict[str, float] | None = None, **known) -> Diagnosis:
    return diagnose(Measurements(stages(**(busy or {})), **known))


def kinds(diagnosis: Diagnosis) -> list[str]:
    return [remedy.kind for remedy in diagnosis.remedies]


# -- whatever is measured --

SOME_VARIATION = st.one_of(st.floats(0, 0.5), st.floats(0, 2))
SHARES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.84, 0.85, 0.9, 0.97, 1.0]))


@st.composite
def stage_stats(draw):
    batches, whole = draw(st.integers(0, 500)), draw(st.floats(0.01, 1000))
    busy = draw(SHARES)
    starved = 1.0 if draw(st.booleans()) else draw(SHARES)
    rest = (1 - busy) * whole
    return StageStats(batches, busy * whole, starved * rest, (1 - starved) * rest)


STEPS = st.builds(
    StepStats,
    shape=st.sampled_from(["", "16 16x224x80", "8x96x80", MANY_SHAPES]),
    steps=st.integers(1, 500),
    mean_s=st.floats(0.001, 10),
    variation=SOME_VARIATION,
    waiting_share_of_variance=st.floats(0, 1),
)
MEMORY = st.builds(
    DeviceMemory,
    role=st.sampled_from(["data", "model"]),
    label=st.builds(lambda gpu: Message("Data GPU {}", (gpu,)), st.sampled_from("01")),
    used_mb=st.floats(0, 24_000),
    limit_mb=st.sampled_from([4096.0, 8192.0, 24_000.0]),
    room_mb=st.sampled_from([0.0, 8000.0, 24_000.0]),
)
SIZES = st.integers(1, 500)
SETTINGS = st.builds(
    Settings,
    batch_size=st.integers(1, 64),
    num_workers=SIZES,
    pipeline_buffer_size=SIZES,
    prefetch_buffer_size=SIZES,
    pipeline_depth=SIZES,
    cache=st.sampled_from([None, "memory", "disk"]),
    static_shapes=st.sampled_from(["one", "buckets", "off"]),
    use_tf_native_loading=st.booleans(),
)
RATES = st.one_of(st.none(), st.sampled_from([4.0, 5.0, 6.0]), st.floats(0.01, 100))
MEASUREMENTS = st.builds(
    Measurements,
    stages=st.fixed_dictionaries({name: stage_stats() for name in STAGES}),
    ring=st.lists(st.integers(0, 100), max_size=5),
    steps=st.lists(STEPS, max_size=3).map(tuple),
    memory=st.lists(MEMORY, max_size=2).map(tuple),
    retraces=st.sampled_from([0, 0, 3]),
    rate=RATES,
    bound=RATES,
    alone_s=st.one_of(
        st.just({}), st.fixed_dictionaries({name: st.floats(0.001, 2) for name in STAGES})
    ),
    settings=SETTINGS,
    shared_device=st.booleans(),
)


def messages(diagnosis: Diagnosis) -> list[Message]:
    told = [diagnosis.sentence, *diagnosis.notes]
    told += [cause.sentence for cause in diagnosis.causes]
    told += [remedy.words for cause in diagnosis.causes for remedy in cause.remedies]
    return [part for message in told for part in parts(message)]


def parts(message: Message) -> list[Message]:
    inner = [value for value in message.values if isinstance(value, Message)]
    return [message, *(part for value in inner for part in parts(value))]


@settings(max_examples=400, deadline=None)
@given(MEASUREMENTS)
def test_every_judgement_holds_together(measured):
    found = diagnose(measured)
    if measured.stages[TRAIN].batches < FEWEST_BATCHES:
        assert found == TOO_EARLY
        return
    busy = {name: stage.busy_share for name, stage in measured.stages.items()}
    _is_sound(found)
    _starving_is_never_good(found, busy, measured)
    _the_grade_is_the_tables(found, busy[TRAIN])
    for cause in found.causes:
        for remedy in cause.remedies:
            _can_change(remedy, cause, busy, measured)
    if measured.rate and measured.bound:
        shown = percent(measured.rate / measured.bound)
        assert (found.doubt is not None) == (int(shown[:-1]) > 100), shown
    for message in messages(found):
        assert message.english in PERSIAN, message.english
        assert message.english.count("{}") == PERSIAN[message.english].count("{}")


def _is_sound(found: Diagnosis) -> None:
    assert found.good == (not found.causes)
    if found.good:
        assert found.remedies == ()
        assert found.flags == ()  # what a command is made from: it stays as it is
    changed = [name for remedy in found.remedies for name in remedy.settings]
    assert len(changed) == len(set(changed))  # nothing is pulled two ways
    assert (found.uneven is not None) == ((found.variation or 0.0) > HIGH_VARIATION)


def _starving_is_never_good(found, busy, measured) -> None:
    asked = sum(measured.ring)
    empty = asked and measured.ring[0] / asked >= OFTEN_EMPTY
    if busy[PROCESS] >= AT_ITS_LIMIT and empty:
        assert not found.good
        assert "keeps up" not in str(found.sentence)
        assert "little left to gain" not in str(found.sentence)


def _the_grade_is_the_tables(found, busy: float) -> None:
    varies = found.variation or 0.0
    if busy > 0.90 and varies < 0.20:
        assert found.grade == "excellent"
    elif busy > 0.80 and varies < 0.30:
        assert found.grade == "good"
    elif busy > 0.70 and varies < 0.40:
        assert found.grade == "minimum"
    else:
        assert found.grade == "below minimum"


def _can_change(remedy, cause, busy, measured) -> None:
    """No remedy is named that does nothing against its cause, or is in place already."""
    now = measured.settings
    for name, value in remedy.settings.items():
        assert value != getattr(now, name.partition(".")[2], None), name
    if cause.name == "full memory":
        assert remedy.kind in ("memory-limit", "smaller-buffers", "smaller-batch")
        assert "data.pipeline_buffer_size" not in remedy.settings  # the host's, not the card's
    elif cause.name in ("retracing", "many shapes"):
        assert remedy.kind == "static-shapes"
    elif cause.name == "uneven step":
        assert remedy.kind == "quiet"  # no setting makes the same work take the same time
    else:
        quicker, bridges = QUICKER[cause.where], BRIDGES[cause.where]
        assert remedy.kind in (*quicker, *bridges, "larger-batch", "own-device", "profile")
        if remedy.kind in bridges:
            assert busy[cause.where] < SATURATED  # else no buffer ever fills
        if remedy.kind == "workers":
            assert now.cache is None  # a cache is read by one
        if remedy.kind == "own-device":
            assert measured.shared_device


# -- what it says of known cases --


def test_a_data_device_at_its_limit_with_an_empty_ring_does_not_keep_up():
    found = judged(busy={"process": 1.0, "train": 0.94}, ring=(66, 20, 10, 4))
    assert not found.good
    assert str(found.sentence) == (
        "The model is busy 94% of the time, but nothing is in reserve: stage process is busy 100%, "
        "and 66% of the times the model asked, no batch was ready."
    )
    assert found.grade == "excellent"  # the table knows nothing of reserves
    assert kinds(found) == ["profile"]
    full = judged(busy={"process": 1.0, "train": 0.94}, ring=(4, 10, 20, 66))
    assert full.good
    assert "stage process takes about as long as the step" in str(full.sentence)


def test_a_busy_model_before_a_full_ring_is_told_that_all_is_well():
    found = judged(ring=(0, 0, 5, 45))
    assert str(found.sentence) == "The model is busy 98% of the time: the data side keeps up."
    assert (found.good, found.bottleneck, found.grade) == (True, TRAIN, "excellent")


def test_variation_inside_one_shape_is_not_cured_by_one_shape():
    for shapes in ("one", "buckets", "off"):
        found = judged(steps=(SIX_IN_TEN,), settings=Settings(static_shapes=shapes))
        assert str(found.uneven) == (
            "Step time varies by 60% (shape 16x224x80): 90% of that is the step itself taking "
            "longer or shorter. Leave the machine to this run: the same work should take the same "
            "time."
        )
        assert found.flags == ()


def test_new_shapes_in_every_batch_are_cured_by_one():
    steps = (replace(SIX_IN_TEN, shape=MANY_SHAPES),)
    found = judged(steps=steps, settings=Settings(static_shapes="off"))
    assert "hardly two steps had the same shape" in str(found.sentence)
    assert found.flags == ("--enable-static-shapes",)
    assert judged(steps=steps, settings=Settings(static_shapes="one")).flags == ()


def test_variation_by_waiting_names_the_stage_and_the_buffer_behind_it():
    steps = (replace(SIX_IN_TEN, waiting_share_of_variance=0.8),)
    found = judged(busy={"process": 0.7, "train": 0.75}, steps=steps)
    assert "80% of that is the model waiting for stage process." in str(found.uneven)
    assert str(found.uneven).endswith("Try --prefetch-buffer-size 8")
    saturated = judged(busy={"process": 1.0, "train": 0.75}, steps=steps)
    assert saturated.flags == ()  # no buffer fills behind a stage that never rests


def test_uneven_reading_is_cured_by_reading_ahead():
    busy = {"read": 0.7, "process": 0.5, "train": 0.75}
    found = judged(busy=busy)
    assert "though stage read, which feeds it, is busy only 70%" in str(found.sentence)
    assert found.flags == ("--buffer-size 100",)
    in_time = stages(**busy)
    in_time[PROCESS] = replace(in_time[PROCESS], waiting_input_s=0.0)
    blamed = diagnose(Measurements(in_time))  # its batches were there: something else is uneven
    assert blamed.flags == ("--prefetch-buffer-size 8",)


def test_a_slow_disk_is_read_once_and_a_cache_is_not_read_by_more_workers():
    busy = {"read": 1.0, "train": 0.4}
    assert judged(busy=busy).flags == ("--cache memory",)
    assert kinds(judged(busy=busy, settings=Settings(cache="memory"))) == ["profile"]


def test_a_full_card_is_the_first_thing_said_and_the_hosts_buffer_no_cure():
    full = DeviceMemory("data", Message("Data GPU {}", ("0",)), 8000.0, 8192.0, room_mb=24_000.0)
    found = judged(busy={"read": 1.0, "train": 0.4}, memory=(full,))
    assert str(found.sentence) == "Data GPU 0 holds 98% of its memory limit."
    assert found.flags == ("--data-gpu-memory 12288",)
    assert kinds(found)[:2] == ["memory-limit", "smaller-buffers"]
    model = DeviceMemory("model", Message("Model GPU {}", ("1",)), 8000.0, 8192.0)
    assert judged(memory=(model,)).flags == ("--batch-size 8", "--grad-accum 2")


def test_a_rate_above_its_bound_is_doubted():
    found = judged(rate=12.4, bound=10.0)
    assert found.grade == "excellent"
    assert found.doubt in found.notes
    assert "124% of the most that the stages alone allow, which cannot be" in str(found.doubt)
    assert judged(rate=10.0, bound=10.0).doubt is None


def test_one_card_for_both_is_named_where_the_data_side_is_slow():
    found = judged(busy={"process": 1.0, "train": 0.7}, shared_device=True)
    assert kinds(found) == ["own-device"]
    assert kinds(judged(busy={"process": 1.0, "train": 0.7})) == ["profile"]


def test_all_that_may_be_said_of_a_remedy_has_its_persian():
    assert {words.english for words in WORDS.values()} <= PERSIAN.keys()


# -- what advice makes of it --


@settings(max_examples=12, deadline=None)
@given(
    seconds=st.fixed_dictionaries(
        {
            stage: st.one_of(
                st.floats(0.002, 0.3), st.floats(0.1, 0.6).map(lambda slow: (*[0.01] * 9, slow))
            )
            for stage in (READ, PROCESS, TRAIN)
        }
    ),
    data=st.fixed_dictionaries(
        {
            "cache": st.sampled_from([None, "memory"]),
            "num_workers": st.integers(1, 4),
            "pipeline_buffer_size": st.integers(1, 8),
        }
    ),
    rate=st.one_of(st.none(), st.floats(1, 50)),
)
def test_advice_changes_nothing_but_what_the_diagnosis_names(seconds, data, rate):
    profile = make_profile(seconds=seconds, data=data, rate=rate)
    advice, diagnosis = advise(profile), profile.diagnosis
    assert {change.kind for change in advice.changes} <= set(kinds(diagnosis))
    assert advice.verdict == diagnosis.sentence
    if diagnosis.good:
        assert advice.changes == ()
    present = training_command(profile.config, config_file=profile.config_file)
    assert (advice.command == present) == (advice.changes == ())
    last = list(describe_advice(advice))[-1]
    assert last == f"{'Recommended' if advice.changes else 'As measured'}: {advice.command}"


def test_a_profile_tells_why_its_steps_are_uneven_and_what_it_doubts():
    profile = make_profile(seconds={"train": 0.2}, rate=6.2)
    uneven = replace(profile.together.buckets[0], variation=0.34, waiting_share_of_variance=0.0)
    profile = replace(profile, together=replace(profile.together, buckets=(uneven,)))
    text = "\n".join(describe_profile(profile))
    assert "Step time varies by 34% (shape 16x224x80): 100% of that is the step itself" in text
    assert "Doubt: The rate is 124% of the most" in text


@pytest.mark.parametrize("lack", ["read", "process", "train"])
def test_nothing_is_said_before_there_is_something_to_say(lack):
    known = stages()
    del known[lack]
    assert diagnose(Measurements(known)) == TOO_EARLY
    assert diagnose(Measurements(stages(batches=1))) == TOO_EARLY
