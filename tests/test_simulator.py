"""The pipeline in imagination: what bounds it, and what buffers and workers buy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.pipeline.telemetry import PROCESS, READ, STAGES, TRAIN, TRANSFER
from myxtts.profiling.simulator import CPU, PipelineModel, StageModel, simulate

UNEVEN = tuple(np.random.default_rng(0).uniform(0.5, 1.5, 101))
ALSO_UNEVEN = tuple(np.random.default_rng(1).uniform(0.5, 1.5, 97))


def pipeline(read=0.0, process=1.0, transfer=0.01, train=1.0, *, cores=None, demand=1.0, **model):
    times = dict(zip(STAGES, (read, process, transfer, train), strict=True))
    stages = {
        name: StageModel(
            seconds if isinstance(seconds, tuple) else (seconds,),
            CPU if cores else "",
            0.0 if name == READ else demand,
        )
        for name, seconds in times.items()
    }
    return PipelineModel(stages, capacity={CPU: cores} if cores else {}, **model)


@pytest.mark.parametrize(
    ("times", "slowest"),
    [
        ({"process": 2.0}, PROCESS),
        ({"train": 2.0}, TRAIN),
        ({"read": 2.0}, READ),
        ({"transfer": 2.0}, TRANSFER),
    ],
)
def test_the_slowest_stage_sets_the_pace_and_is_the_one_always_busy(times, slowest):
    seen = simulate(pipeline(**times), steps=60)
    assert seen.rate == pytest.approx(0.5, rel=0.01)
    assert seen.bottleneck == slowest
    assert seen.busy_share[slowest] == pytest.approx(1.0, abs=0.01)
    assert seen.stall_share == pytest.approx(0.0 if slowest == TRAIN else 0.5, abs=0.02)


def test_stages_that_share_one_core_take_turns():
    alone = simulate(pipeline(), steps=60).rate
    sharing = simulate(pipeline(cores=1), steps=60).rate
    assert sharing == pytest.approx(alone / 2, rel=0.02)
    two_threads_each = simulate(pipeline(cores=2, demand=2.0), steps=60).rate
    assert two_threads_each == pytest.approx(sharing, rel=0.01)


def test_who_sleeps_takes_no_core_from_the_others():
    assert simulate(pipeline(read=1.0, cores=2), steps=60).rate == pytest.approx(1.0, rel=0.01)


def test_two_jobs_on_one_card_add_up():
    model = pipeline()
    card = {name: StageModel(model.stages[name].seconds, "card") for name in (PROCESS, TRAIN)}
    single = PipelineModel({**model.stages, **card}, capacity={"card": 1.0})
    assert simulate(single, steps=60).rate == pytest.approx(0.5, rel=0.01)


def test_workers_share_the_reading_until_something_else_is_slower():
    rates = [
        simulate(pipeline(read=8.0, num_workers=n, read_ahead=n + 4), steps=60).rate
        for n in (1, 2, 4, 8, 16)
    ]
    assert rates == pytest.approx([1 / 8, 2 / 8, 4 / 8, 1.0, 1.0], rel=0.02)


def test_without_read_ahead_more_workers_have_nothing_to_do():
    assert simulate(pipeline(read=4.0, num_workers=8), steps=60).rate == pytest.approx(0.25)


def test_a_deeper_ring_bridges_uneven_stages_but_beats_no_bound():
    rates = [
        simulate(
            pipeline(process=UNEVEN, train=ALSO_UNEVEN, prefetch_buffer_size=1, depth=depth)
        ).rate
        for depth in (1, 3, 12)
    ]
    assert rates == sorted(rates)
    assert rates[0] + 0.02 < rates[-1] <= 1.03  # the steps counted are not exactly average


def test_a_ring_that_spans_a_slow_batch_hides_it():
    slow_now_and_then = (0.2, 0.2, 0.2, 3.4)  # 1.0 on the average
    rates = [
        simulate(pipeline(process=slow_now_and_then, prefetch_buffer_size=1, depth=depth)).rate
        for depth in (1, 4)
    ]
    assert rates[0] < 0.8
    assert rates[1] == pytest.approx(1.0, rel=0.02)


@settings(max_examples=20, deadline=None)
@given(
    times=st.lists(st.floats(0.01, 3.0), min_size=4, max_size=4),
    buffers=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
    cores=st.sampled_from([None, 1, 2]),
)
def test_no_buffers_make_it_faster_than_its_slowest_stage_or_its_cores(times, buffers, cores):
    depth, prefetch, host = buffers
    model = pipeline(
        *times, cores=cores, depth=depth, prefetch_buffer_size=prefetch, buffer_size=host
    )
    seen = simulate(model, steps=30)
    bound = max(*times, sum(times[1:]) / cores if cores else 0.0)
    assert seen.rate <= 1.0 / bound * 1.001
    assert seen.rate >= 1.0 / bound * 0.5
    assert all(0.0 <= share <= 1.0 + 1e-9 for share in seen.busy_share.values())


def test_beside_other_work_each_takes_longer_by_the_crowding_but_alone_it_does_not():
    crowded = {"cores": 2, "crowding": {CPU: 1.2}}
    both_at_work = simulate(pipeline(**crowded), steps=60)
    assert both_at_work.rate == pytest.approx(1 / 1.2, rel=0.01)
    slow_disk = simulate(pipeline(read=2.0, process=0.5, train=0.5, **crowded), steps=60)
    assert slow_disk.rate == pytest.approx(0.5, rel=0.01)  # who sleeps is not slowed
    process_alone = simulate(pipeline(train=0.0, transfer=0.0, **crowded), steps=60)
    assert process_alone.rate == pytest.approx(1.0, rel=0.01)
