"""The ways to feed one compiled training step, and how long each of their stages takes alone.

Shared by the measurements of `benchmarks.train`. TensorFlow is imported late: threads and devices
are settled once a process.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig

READ, PROCESS, TRANSFER, TRAIN = range(4)
SERIAL, TF_DATA, SINGLE, DUAL = WAYS = ("serial", "tf.data", "our single-device", "our dual-device")

ALONE_BATCHES = 4
TOGETHER_STEPS = 8
# A fresh pipeline works off more than it delivers until its buffers are full.
BUFFERS = {"depth": 3, "prefetch_buffer_size": 2, "buffer_size": 4}
FILLING_STEPS = 9
TF_DATA_ENDS_S = 0.5  # a closed data set still finishes the batches it has begun


class Workshop:
    """The data, both stages and the compiled step that all ways share."""

    def __init__(self, corpus: Path, *, threads: int, **settings: Any) -> None:
        from myxtts.pipeline import configure_devices
        from myxtts.pipeline.process import keep_freed_memory

        self.plan = configure_devices(simulate=True)
        keep_freed_memory()  # as the trainer does
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)

        from myxtts.data.training_data import prepare_training
        from myxtts.features.device_stage import make_device_stage
        from myxtts.models.xtts import XTTS
        from myxtts.training.setup import make_model

        config = XTTSConfig(
            model=ModelConfig(size="tiny", **settings.pop("model", {})),
            data=DataConfig(train_data=corpus, batch_size=16, cache="memory", **settings),
            training=TrainingConfig(learning_rate=2e-3),
        )
        self.data = prepare_training(config.data, seed=0)
        config.model.vocab_size = self.data.tokenizer.vocab_size
        self.process = make_device_stage()
        _, schedule, self.step = make_model(lambda: XTTS(config.model), config, self.plan)
        schedule.total_steps.assign(10_000)

    def process_on(self, device: str, host_batch: Any) -> Any:
        """What the pipeline's process stage does with a batch."""
        import tensorflow as tf

        from myxtts.pipeline.transfer import put_on_device

        batch, _ = put_on_device(host_batch, device)
        with tf.device(device):
            return self.process(batch)

    # -- the ways; each gives batches to train on --

    @contextlib.contextmanager
    def serial(self) -> Iterator[Any]:
        """Load and process when asked, on the model's own device."""
        host_batches = self.data.batches()
        yield (self.process_on(self.plan.model_device, batch) for batch in host_batches)

    @contextlib.contextmanager
    def tf_data(self) -> Iterator[Any]:
        """The usual way: the same loading and processing as a data set that prefetches."""
        import tensorflow as tf

        spec = self.data.largest_batch_spec()  # the only one
        dataset = tf.data.Dataset.from_generator(self.data.batches, output_signature=spec)
        dataset = dataset.map(self.process, num_parallel_calls=tf.data.AUTOTUNE)
        yield iter(dataset.prefetch(tf.data.AUTOTUNE))

    @contextlib.contextmanager
    def pipeline(self, *, two_devices: bool) -> Iterator[Any]:
        """Our own."""
        from myxtts.pipeline import ProducerConsumerPipeline
        from myxtts.pipeline.devices import DevicePlan, Mode

        both = self.plan.model_device
        plan = self.plan if two_devices else DevicePlan(Mode.SINGLE, both, both)
        source = self.data.batches()
        with ProducerConsumerPipeline(
            source, plan=plan, process=self.process, model_start_delay=0, **BUFFERS
        ) as batches:
            yield batches

    def open_way(self, way: str) -> contextlib.AbstractContextManager[Any]:
        """Start to feed that way; nothing of it works on after the block."""
        if way in (SINGLE, DUAL):
            return self.pipeline(two_devices=way == DUAL)
        return self.serial() if way == SERIAL else self.tf_data()

    # -- measuring --

    def _one_batch(self) -> tuple[Any, Any, Any]:
        """As the host has it, as the data device makes it, and where the model trains."""
        from myxtts.pipeline.transfer import copy_to_model_device

        host_batch = next(self.data.batches())
        ready = self.process_on(self.plan.data_device, host_batch)
        return host_batch, ready, copy_to_model_device(ready, self.plan)

    def time_stages(self) -> np.ndarray:
        """Wall and CPU seconds a batch of every stage with the machine to itself."""
        from myxtts.pipeline.transfer import copy_to_model_device

        host_batches = self.data.batches()
        host_batch, ready, resident = self._one_batch()
        return np.array(
            [
                _time_calls(lambda: next(host_batches)),
                _time_calls(lambda: self.process_on(self.plan.data_device, host_batch)),
                _time_calls(lambda: copy_to_model_device(ready, self.plan)),
                _time_calls(lambda: self.step(resident)),
            ]
        )

    def time_together(self) -> float:
        """Wall seconds of a step while another thread processes a batch for each, unconnected.

        Two cores share caches, memory and whatever else a machine has: what is left of two stages
        that run at once is all that a pipeline can reach, though it hands nothing over.
        """
        host_batch, _, resident = self._one_batch()
        begun = threading.Semaphore(0)

        def process() -> None:
            for _ in range(TOGETHER_STEPS):
                begun.acquire()
                self.process_on(self.plan.data_device, host_batch)

        beside = threading.Thread(target=process)
        beside.start()
        wall = time.perf_counter()
        for _ in range(TOGETHER_STEPS):
            begun.release()
            self.step(resident)
        beside.join()
        return (time.perf_counter() - wall) / TOGETHER_STEPS

    def train_by(self, way: str, steps: int) -> tuple[float, float, float | None]:
        """Wall and CPU seconds a step once the buffers are full, and the variation of steps."""
        with self.open_way(way) as batches:
            for batch in itertools.islice(batches, FILLING_STEPS):
                self.step(batch)
            if way in (SINGLE, DUAL):
                batches.telemetry.mark()
            wall, cpu = time.perf_counter(), time.process_time()
            for batch in itertools.islice(batches, steps):
                self.step(batch)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            variation = batches.stats().variation if way in (SINGLE, DUAL) else None
        if way == TF_DATA:
            del batch, batches
            time.sleep(TF_DATA_ENDS_S)
        return wall / steps, cpu / steps, variation


def _time_calls(call: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(ALONE_BATCHES):
        call()
    return (
        (time.perf_counter() - wall) / ALONE_BATCHES,
        (time.process_time() - cpu) / ALONE_BATCHES,
    )
