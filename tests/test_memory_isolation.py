"""Memory limits, readings and leaks. Runs with pytest, with unittest and as a script."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import FakeHardware, simulated_plan

PLAN = simulated_plan()  # before TensorFlow makes its first tensor

import numpy as np
import tensorflow as tf

from myxtts.checks.probe import ProbeModel
from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.errors import ConfigError, DataError, DeviceError, MemoryBudgetError
from myxtts.features.audio import NUM_MELS
from myxtts.models.xtts import XTTS
from myxtts.pipeline import hardware
from myxtts.runs.events import read_events
from myxtts.runs.lock import RunLockedError
from myxtts.training.memory_isolated_trainer import MemoryIsolatedDualGPUTrainer
from myxtts.training.trainer import XTTSTrainer
from myxtts.utils.gpu_memory import (
    detect_memory_leak,
    get_gpu_memory_info,
    get_optimal_memory_limits,
    log_memory_stats,
    monitor_gpu_memory,
    setup_gpu_memory_isolation,
)


def batches(count: int):
    random = np.random.default_rng(0)
    return [
        {"mels": random.normal(size=[2, 12, NUM_MELS]).astype(np.float32)} for _ in range(count)
    ]


class RunsInTemporaryFolders(unittest.TestCase):
    """Every trainer keeps its run in a folder of its own, and lets go of it at the test's end."""

    def make_trainer(
        self, kind=MemoryIsolatedDualGPUTrainer, model=ProbeModel, **settings
    ) -> MemoryIsolatedDualGPUTrainer:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = XTTSConfig(
            training=TrainingConfig(
                optimization_level="basic", checkpoint_dir=Path(folder.name) / "run", **settings
            )
        )
        trainer = kind(config, 0, 1, model=model, simulate=True)
        self.addCleanup(trainer.close)
        return trainer


class PublishedFunctionsTest(unittest.TestCase):
    def test_setting_up_again_is_a_no_op_and_otherwise_an_error(self):
        self.assertIs(setup_gpu_memory_isolation(0, 1, 8192, 16384, simulate=True), PLAN)
        with self.assertRaisesRegex(DeviceError, "already configured"):
            setup_gpu_memory_isolation(0, 1, 4096, 16384, simulate=True)
        with self.assertRaisesRegex(DeviceError, "already configured"):
            setup_gpu_memory_isolation(0, 1)

    def test_memory_info_of_a_simulated_gpu_is_the_process_and_says_so(self):
        info = get_gpu_memory_info(0)
        self.assertEqual((info["gpu_id"], info["source"]), (0, "process RSS"))
        self.assertEqual(info["total_mb"], 8192)
        self.assertGreater(info["used_mb"], 100)
        self.assertAlmostEqual(info["free_mb"], 8192 - info["used_mb"])
        self.assertEqual([gpu["gpu_id"] for gpu in get_gpu_memory_info()["gpus"]], [0, 1])

    def test_both_gpus_are_read_against_their_own_limits(self):
        data, model = monitor_gpu_memory(0, 1)
        self.assertEqual((data["total_mb"], model["total_mb"]), (8192, 16384))

    def test_an_unknown_gpu_is_an_error(self):
        with self.assertRaisesRegex(DeviceError, "no GPU 7"):
            get_gpu_memory_info(7)

    def test_memory_is_logged_in_the_published_form(self):
        with self.assertLogs("myxtts", "INFO") as logs:
            log_memory_stats(0, 1, step=100)
        first, second = (record.getMessage() for record in logs.records)
        self.assertRegex(first, r"^\[Step 100\] Data GPU 0: \d+/8192MB \(\d+\.\d%\)")
        self.assertRegex(second, r"^\[Step 100\] Model GPU 1: \d+/16384MB \(\d+\.\d%\)")
        self.assertIn("process RSS", first)

    def test_leak_is_growth_past_the_threshold(self):
        used = get_gpu_memory_info(0)["used_mb"]
        self.assertFalse(detect_memory_leak(0, baseline_mb=used - 150))
        with self.assertLogs("myxtts", "WARNING"):
            self.assertTrue(detect_memory_leak(0, baseline_mb=used - 260))
        self.assertFalse(detect_memory_leak(0, baseline_mb=used - 260, threshold_mb=400))

    def test_optimal_limits_are_those_of_the_table(self):
        for card_mb, limits in (
            (12_288, (4096, 8192)),
            (16_384, (6144, 10_240)),
            (24_576, (8192, 16_384)),
        ):
            machine = FakeHardware(card_mb, card_mb)
            with mock.patch.object(hardware.HARDWARE, "cards", machine.cards):
                self.assertEqual(get_optimal_memory_limits(0, 1), limits)
                self.assertLessEqual(sum(get_optimal_memory_limits(0, 0)) + 500, card_mb)
        self.assertEqual(get_optimal_memory_limits(0, 1, simulate=True), (8192, 16_384))


class MemoryIsolatedTrainerTest(RunsInTemporaryFolders):
    def test_it_is_an_xtts_trainer_with_the_published_phases(self):
        self.assertTrue(issubclass(MemoryIsolatedDualGPUTrainer, XTTSTrainer))
        for name in (
            "_setup_memory_baselines",
            "_check_memory_health",
            "_preprocess_on_data_gpu",
            "_transfer_to_model_gpu",
            "_train_step_impl",
            "train",
            "get_memory_stats",
        ):
            self.assertTrue(callable(getattr(MemoryIsolatedDualGPUTrainer, name)), name)

    def test_each_phase_happens_once_a_batch_and_the_crossing_in_the_pipeline(self):
        calls = []

        class Watched(MemoryIsolatedDualGPUTrainer):
            def _preprocess_on_data_gpu(self, batch):
                calls.append("process")
                return super()._preprocess_on_data_gpu(batch)

            def _train_step_impl(self, batch):
                calls.append("train")
                return super()._train_step_impl(batch)

        trainer = self.make_trainer(Watched)
        result = trainer.train(batches(4), epochs=3)
        self.assertEqual(result["steps"], 12)
        for phase in ("process", "train"):
            self.assertEqual(calls.count(phase), 12)
        self.assertEqual(result["stats"].stages["transfer"].batches, 12)
        moved = trainer._transfer_to_model_gpu(tf.zeros([3]))
        self.assertTrue(moved.device.endswith("CPU:1"))

    def test_training_logs_memory_takes_baselines_and_learns(self):
        trainer = self.make_trainer(memory_check_steps=10, learning_rate=3e-3)
        losses = []
        with self.assertLogs("myxtts", "INFO") as logs:
            trainer.train(
                batches(10), epochs=3, on_step=lambda _, v: losses.append(float(v["loss"]))
            )
        text = "\n".join(logs.output)
        for step in (10, 20, 30):
            self.assertIn(f"[Step {step}] Data GPU 0:", text)
            self.assertIn(f"[Step {step}] Model GPU 1:", text)
        self.assertIn("Buffer Size: 50", text)
        self.assertIn("Prefetching to /GPU:0 with buffer_size=25", text)
        self.assertLess(losses[-1], losses[0])
        stats = trainer.get_memory_stats()
        self.assertGreater(stats["model_gpu"]["baseline_mb"], 100)
        self.assertLess(stats["model_gpu"]["growth_mb"], 100)
        self.assertEqual(stats["data_gpu"]["limit_mb"], 8192)
        self.assertTrue(trainer._check_memory_health())

    def test_growth_past_a_threshold_is_flagged_for_the_right_gpu(self):
        trainer = self.make_trainer()
        trainer._setup_memory_baselines()
        trainer._baselines["data"] -= 300  # as if 300 MB had come since; the model may grow 500
        trainer._baselines["model"] -= 300
        with self.assertLogs("myxtts", "WARNING") as logs:
            self.assertFalse(trainer._check_memory_health())
        self.assertEqual(len(logs.output), 1)
        self.assertIn("Data GPU 0", logs.output[0])

    def test_a_real_leak_in_the_step_is_named_while_training(self):
        kept = []

        class Leaking(MemoryIsolatedDualGPUTrainer):
            def _train_step_impl(self, batch):
                kept.append(np.ones(2**17))  # 1 MB
                return super()._train_step_impl(batch)

        trainer = self.make_trainer(Leaking)
        with self.assertLogs("myxtts", "WARNING") as logs:
            trainer.train(batches(1), epochs=300)
        leaks = [line for line in logs.output if "memory grows steadily by" in line]
        self.assertTrue(any("Model GPU 1" in line for line in leaks), logs.output)

    def test_data_that_gives_no_batch_is_said(self):
        with self.assertRaisesRegex(DataError, "no batch in epoch 1"):
            self.make_trainer().train([])
        with self.assertRaisesRegex(DataError, "no batch in epoch 2") as failure:
            self.make_trainer().train((batch for batch in batches(3)), epochs=3)
        self.assertIn("a generator is spent", failure.exception.remedy)

    def test_batches_too_large_for_a_limit_are_refused_before_any_is_read(self):
        class Huge:
            def __init__(self):
                self.element_spec = {"mels": tf.TensorSpec([4096, 4096, 64], tf.float32)}  # 4 GB

            def __iter__(self):
                raise AssertionError("nothing may be read")

        with self.assertRaisesRegex(MemoryBudgetError, "data device would hold"):
            self.make_trainer().train(Huge())

    def test_memory_is_in_the_events_of_the_run(self):
        trainer = self.make_trainer(memory_check_steps=5)
        trainer.train(batches(5), epochs=2)
        found = [e for e in read_events(trainer.run.events_file) if e["kind"] == "memory"]
        self.assertEqual([event["step"] for event in found], [5, 10])
        self.assertEqual(found[1]["values"]["model_gpu"]["limit_mb"], 16384)

    def test_accumulation_makes_one_update_of_several_batches(self):
        trainer = self.make_trainer(grad_accum=4)
        self.assertEqual(trainer.train(batches(8), epochs=1)["steps"], 2)

    def test_without_a_model_it_makes_our_own(self):
        trainer = self.make_trainer(model=None)
        self.assertIsInstance(trainer.model, XTTS)

    def test_training_without_data_is_refused(self):
        with self.assertRaisesRegex(ConfigError, "no training data"):
            self.make_trainer().train()

    def test_the_run_folder_is_free_again_after_close(self):
        trainer = self.make_trainer()
        with self.assertRaisesRegex(RunLockedError, "Another process is training"):
            MemoryIsolatedDualGPUTrainer(trainer.config, 0, 1, model=ProbeModel, simulate=True)
        trainer.close()
        with MemoryIsolatedDualGPUTrainer(trainer.config, 0, 1, model=ProbeModel, simulate=True):
            pass


if __name__ == "__main__":
    unittest.main()
