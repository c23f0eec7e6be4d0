"""Where variables, optimiser slots, batches and results live. Runs with unittest too."""

import dataclasses
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import simulated_plan

PLAN = simulated_plan()  # before TensorFlow makes its first tensor

import keras
import numpy as np
import tensorflow as tf

from myxtts.checks.probe import ProbeModel
from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig
from myxtts.errors import DeviceError
from myxtts.features.audio import NUM_MELS
from myxtts.pipeline import ProducerConsumerPipeline
from myxtts.training.step import TrainStep
from myxtts.training.trainer import XTTSTrainer
from myxtts.utils.commons import get_device_context


def mels(seed: int = 0) -> dict[str, np.ndarray]:
    return {"mels": np.random.default_rng(seed).normal(size=[2, 12, NUM_MELS]).astype(np.float32)}


def device_of(value) -> str:
    value = value.value if isinstance(value, keras.Variable) else value
    return "/" + value.device.rsplit("/device:", 1)[1]


class DevicePlacementTest(unittest.TestCase):
    def make_config(self, **training) -> XTTSConfig:
        """Settings of the plan above, and a run folder that goes with the test."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return XTTSConfig(
            data=DataConfig(
                data_gpu=0,
                model_gpu=1,
                enable_memory_isolation=True,
                data_gpu_memory=8192,
                model_gpu_memory=16384,
                simulate=True,
            ),
            training=TrainingConfig(
                optimization_level="basic", checkpoint_dir=Path(folder.name) / "run", **training
            ),
        )

    def test_model_optimizer_and_results_live_on_the_model_device(self):
        for jit_compile in (False, True):
            with self.subTest(jit_compile=jit_compile):
                step = TrainStep(
                    ProbeModel(),
                    device=PLAN.model_device,
                    learning_rate=1e-3,
                    jit_compile=jit_compile,
                )
                with tf.device(PLAN.model_device):
                    batch = tf.nest.map_structure(tf.convert_to_tensor, mels())
                losses = step(batch)
                self.assertEqual(len(step.model.variables), 6)
                # Adam: two slots for all weights end to end, and its counters.
                self.assertGreaterEqual(len(step.optimizer.variables), 4)
                for value in (
                    *step.model.variables,
                    *step.variables.values(),
                    *losses.values(),
                ):
                    self.assertEqual(device_of(value), "/CPU:1")

    def test_a_model_made_elsewhere_is_refused(self):
        with tf.device(PLAN.data_device):
            model = ProbeModel()
            model(mels()["mels"])
        step = TrainStep(model, device=PLAN.model_device, learning_rate=1e-3)
        with self.assertRaisesRegex(DeviceError, "not on /CPU:1"):
            step(mels())

    def test_processing_happens_on_the_data_device_and_batches_arrive_on_the_model_device(self):
        processed = []

        @tf.function
        def double(batch):
            return {"mels": batch["mels"] * 2}

        def process(batch):
            result = double(batch)
            processed.append((device_of(batch["mels"]), device_of(result["mels"])))
            return result

        with ProducerConsumerPipeline(
            (mels(i) for i in range(5)), plan=PLAN, process=process
        ) as batches:
            arrived = [device_of(batch["mels"]) for batch in batches]
        self.assertEqual(processed, [("/CPU:0", "/CPU:0")] * 5)
        self.assertEqual(arrived, ["/CPU:1"] * 5)

    def test_batches_reach_their_devices_from_any_source_and_in_any_layout(self):
        arrays = [mels(i)["mels"] for i in range(3)]
        for data_device, model_device in (("/CPU:1", "/CPU:0"), ("/CPU:1", "/CPU:1")):
            plan = dataclasses.replace(PLAN, data_device=data_device, model_device=model_device)
            for source in (arrays, tf.data.Dataset.from_tensor_slices(np.stack(arrays))):
                with self.subTest(data_device=data_device, source=type(source).__name__):
                    seen = []

                    def process(batch, seen=seen):
                        seen.append(device_of(batch))
                        return batch

                    with ProducerConsumerPipeline(source, plan=plan, process=process) as batches:
                        arrived = [device_of(batch) for batch in batches]
                    self.assertEqual(seen[-3:], [data_device] * 3)
                    self.assertEqual(arrived, [model_device] * 3)

    def test_a_model_device_other_than_the_plans_is_refused(self):
        config = self.make_config()
        for name in ("/CPU:1", "/device:CPU:1", "/cpu:1", "/GPU:1"):  # the last as the log has it
            XTTSTrainer(config, model=ProbeModel, model_device=name).close()
        for name in ("/CPU:0", "/GPU:0"):
            with self.assertRaisesRegex(DeviceError, rf"{name}, .* /GPU:1 \(.* = CPU:1\)"):
                XTTSTrainer(config, model=ProbeModel, model_device=name)

    def test_what_crosses_is_a_copy_of_the_same_bytes(self):
        sent = {
            "float": np.random.default_rng(0).normal(size=[3, 50]).astype(np.float32),
            "half": np.arange(7, dtype=np.float16),
            "int16": np.arange(-30, 30, dtype=np.int16),
            "int32": np.arange(9, dtype=np.int32),
            "bool": np.array([True, False]),
            "text": np.array([b"one", b"two"]),
            "empty": np.zeros([0, 4], np.float32),
        }
        before = {}

        def remember(batch):
            before.update(batch)
            return batch

        with ProducerConsumerPipeline([sent], plan=PLAN, process=remember) as batches:
            arrived = next(batches)
        for name, array in sent.items():
            self.assertEqual(arrived[name].numpy().tolist(), array.tolist(), name)
            if name != "text":  # a string tensor holds pointers
                self.assertEqual(arrived[name].numpy().tobytes(), array.tobytes(), name)
            self.assertEqual(arrived[name].dtype.as_numpy_dtype, tf.as_dtype(array.dtype))
            on = "/CPU:0" if name == "text" else "/CPU:1"  # text stays on the host: no GPU holds it
            self.assertEqual(device_of(arrived[name]), on, name)
        here = np.asarray(memoryview(before["float"])).ctypes.data
        there = np.asarray(memoryview(arrived["float"])).ctypes.data
        self.assertNotEqual(here, there)

    def test_each_batch_crosses_exactly_once(self):
        from myxtts.pipeline.transfer import copy_to_model_device

        crossings, copies = [], []

        def count(batch, plan):
            crossings.append(device_of(batch["mels"]))
            copies.append(copy_to_model_device(batch, plan)["mels"])
            return {"mels": copies[-1]}

        with (
            mock.patch("myxtts.pipeline.engine.copy_to_model_device", count),
            ProducerConsumerPipeline((mels(i) for i in range(8)), plan=PLAN) as batches,
        ):
            for number, batch in enumerate(batches):
                self.assertEqual(device_of(batch["mels"]), "/CPU:1")
                self.assertIs(batch["mels"], copies[number])  # no second copy behind the first
        self.assertEqual(crossings, ["/CPU:0"] * 8)
        self.assertEqual(batches.stats().transferred_bytes, 8 * mels()["mels"].nbytes)

    def test_the_trainer_creates_its_model_on_the_model_device_and_says_so(self):
        with self.assertLogs("myxtts", "INFO") as logs:
            trainer = XTTSTrainer(self.make_config(max_steps=3), model=ProbeModel)
            self.addCleanup(trainer.close)
            result = trainer.train([mels(i) for i in range(5)], epochs=1)
        self.assertEqual(result["steps"], 3)
        text = "\n".join(logs.output)
        self.assertIn("Multi-GPU Mode: Model will be placed on /GPU:1", text)
        self.assertIn("(Original GPU 1 is now mapped to GPU:1)", text)
        self.assertIn("Creating model on device: /GPU:1", text)
        for value in (*trainer.model.variables, *trainer.step.variables.values()):
            self.assertEqual(device_of(value), "/CPU:1")

    def test_our_own_model_is_made_on_the_model_device(self):
        config = self.make_config()
        config.model = ModelConfig(
            encoder_dim=16, encoder_blocks=1, decoder_dim=16, decoder_blocks=1, voice_dim=8
        )
        with XTTSTrainer(config) as trainer:
            self.assertGreater(len(trainer.model.variables), 20)
            for value in (*trainer.model.variables, *trainer.step.variables.values()):
                self.assertEqual(device_of(value), "/CPU:1")

    def test_one_trace_serves_every_batch_of_a_shape(self):
        step = TrainStep(ProbeModel(), device=PLAN.model_device, learning_rate=1e-3)
        with ProducerConsumerPipeline((mels(i) for i in range(6)), plan=PLAN) as batches:
            for batch in batches:
                step(batch)
        self.assertEqual(step.traces, 1)

    def test_device_context_takes_the_named_device_or_the_cpu_without_gpus(self):
        with get_device_context("/CPU:1"):
            self.assertEqual(device_of(tf.ones([1])), "/CPU:1")
        with get_device_context():
            self.assertEqual(device_of(tf.ones([1])), "/CPU:0")


if __name__ == "__main__":
    unittest.main()
