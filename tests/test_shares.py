"""Replicas share the batches out: each clip of an epoch once, also when their number changes."""

from __future__ import annotations

import itertools

import pytest

from myxtts.data.loader import FIRST
from myxtts.data.shares import Share
from tests.training_clips import as_bytes, prepare, speak, spoken_in, texts_of


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    # Read in threads: to start one of TensorFlow's readers takes half a second, and here are many.
    return prepare(speak(tmp_path_factory.mktemp("data"), clips=25), use_tf_native_loading=False)


def steps(data, world, *, start=FIRST, epochs=2, count=None):
    """Of each step: the batches of all replicas, and the state behind it."""
    sources = [data.batches(start, epochs=epochs, share=Share(r, world)) for r in range(world)]
    try:
        for _ in itertools.count() if count is None else range(count):
            step = [next(source, None) for source in sources]
            if step[0] is None:
                assert step == [None] * world
                return
            states = {source.get_state() for source in sources}
            assert len(states) == 1
            yield step, states.pop()
    finally:
        for source in sources:
            source.close()


def real(step):
    return [batch for batch in step if batch["token_lengths"].any()]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_batches_of_all_replicas_are_those_of_one_process_in_order(data, world):
    alone = as_bytes(data.batches(epochs=2))
    together = [batch for step, _ in steps(data, world) for batch in real(step)]
    assert as_bytes(together) == alone


def test_replicas_without_a_batch_of_the_last_step_get_one_of_its_shape_without_a_clip(data):
    found = list(steps(data, 4, epochs=1))
    last, state = found[-1]
    assert state == (0, len(data.plan))
    assert 0 < len(real(last)) < 4
    assert last[-1]["waves"].shape == last[0]["waves"].shape
    assert not last[-1]["wave_lengths"].any()
    assert not last[-1]["token_lengths"].any()


@pytest.mark.parametrize("worlds", [(2, 1), (1, 2), (2, 3), (4, 2, 3)])
def test_after_a_change_of_their_number_every_clip_of_the_epoch_is_used_exactly_once(data, worlds):
    state, batches = FIRST, []
    for turn, world in enumerate(worlds):
        count = 2 if turn < len(worlds) - 1 else None
        for step, behind in steps(data, world, start=state, epochs=1, count=count):
            batches += real(step)
            state = behind
    assert spoken_in(batches) == texts_of(data.train)
