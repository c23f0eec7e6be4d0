"""The one crossing: a whole batch in one traced call, real bytes, to the right device."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import tensorflow as tf

from myxtts.pipeline import transfer
from myxtts.pipeline.transfer import copy_to_model_device, crossing, is_on, put_on_device
from tests.voices import PLAN

GPUS = replace(PLAN, simulated=False)  # the call that GPUs get, on the same two devices


def make_batch(frames=40):
    batch = {
        "mels": np.random.default_rng(frames).normal(size=[4, frames, 80]).astype(np.float32),
        "lengths": np.arange(4, dtype=np.int32),
        "nested": (np.ones([4], bool), np.array(["a", "b"])),
        "empty": np.zeros([0, 3], np.float32),
    }
    return put_on_device(batch, PLAN.data_device)[0]


def address(tensor):
    return np.asarray(memoryview(tensor)).ctypes.data


def test_a_batch_crosses_in_one_call_and_text_stays(monkeypatch):
    calls = []

    def counted():
        return lambda tensors: calls.append(len(tensors)) or crossing()(tensors)

    monkeypatch.setattr(transfer, "crossing", counted)
    batch = make_batch()
    arrived = copy_to_model_device(batch, GPUS)
    assert calls == [4]
    tf.nest.assert_same_structure(arrived, batch)
    assert arrived["nested"][1] is batch["nested"][1]
    for name in ("mels", "lengths", "empty"):
        np.testing.assert_array_equal(arrived[name], batch[name])
        assert is_on(arrived[name], PLAN.model_device), name


def test_between_simulated_devices_bytes_are_really_copied():
    batch = make_batch()
    arrived = copy_to_model_device(batch, PLAN)
    np.testing.assert_array_equal(arrived["mels"], batch["mels"])
    assert is_on(arrived["mels"], PLAN.model_device)
    assert address(arrived["mels"]) != address(batch["mels"])


def test_text_alone_crosses_nowhere():
    batch = {"text": tf.constant(["a"])}
    assert copy_to_model_device(batch, GPUS)["text"] is batch["text"]


def test_shapes_that_were_seen_are_not_traced_again():
    function = crossing()
    sizes = (40, 60, 80)
    for frames in sizes:
        copy_to_model_device(make_batch(frames), GPUS)
    traces = function.experimental_get_tracing_count()
    for _ in range(3):
        for frames in (*sizes, 100, 120):  # lengths that never repeat share one trace
            arrived = copy_to_model_device(make_batch(frames), GPUS)
            assert arrived["mels"].shape == (4, frames, 80)
    assert function.experimental_get_tracing_count() == traces


def test_crossings_while_both_devices_work_never_wait_for_each_other():
    done = threading.Event()

    @tf.function(jit_compile=True)
    def step(x):
        for _ in range(20):
            x = tf.math.l2_normalize(x @ x, axis=1)
        return x

    def work(device):
        with tf.device(device):
            x = tf.random.normal([200, 200])
            while not done.is_set():
                step(x)

    threads = [
        threading.Thread(target=work, args=[device], daemon=True)
        for device in (PLAN.data_device, PLAN.model_device)
    ]
    crossed = []

    def cross():
        for _ in range(200):
            crossed.append(copy_to_model_device(make_batch(), GPUS)["mels"].shape)

    crossers = [threading.Thread(target=cross, daemon=True) for _ in range(2)]
    for thread in (*threads, *crossers):
        thread.start()
    for thread in crossers:
        thread.join(60)
    done.set()
    for thread in threads:
        thread.join(60)
    assert len(crossed) == 400
    assert not any(thread.is_alive() for thread in (*threads, *crossers))
