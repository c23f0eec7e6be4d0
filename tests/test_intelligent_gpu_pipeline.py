"""The pipeline's modes, buffers, messages and numbers. Runs with pytest and with unittest."""

import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import simulated_plan

PLAN = simulated_plan()  # before TensorFlow makes its first tensor

import numpy as np

from myxtts.config.config import DataConfig
from myxtts.pipeline import ProducerConsumerPipeline
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.pipeline.telemetry import STAGES
from myxtts.runs.trace import spans_of, write_trace

ONE_DEVICE = DevicePlan(Mode.SINGLE, "/CPU:0", "/CPU:0")


def batches_of(count: int, *, seconds: float = 0.0, rows: int = 2):
    for i in range(count):
        time.sleep(seconds)
        yield np.full([rows, 3], i, np.float32)


class IntelligentPipelineTest(unittest.TestCase):
    def test_defaults_are_the_published_ones(self):
        config = DataConfig()
        self.assertEqual((config.pipeline_buffer_size, config.model_start_delay), (50, 2.0))
        self.assertEqual((config.prefetch_buffer_size, config.pipeline_depth), (4, 3))
        self.assertEqual(config.host_buffer_size(two_devices=False), 50)
        self.assertEqual(config.host_buffer_size(two_devices=True), 25)

    def test_two_device_mode_says_what_it_does(self):
        with self.assertLogs("myxtts", "INFO") as logs:
            pipeline = ProducerConsumerPipeline(batches_of(9), plan=PLAN, buffer_size=25)
            with pipeline as batches:
                self.assertEqual(len(list(batches)), 9)
        messages = [record.getMessage() for record in logs.records]
        expected = [
            "Intelligent GPU Pipeline: Multi-GPU Mode",
            "Smart Prefetching: Enabled",
            "Prefetching to /GPU:0 with buffer_size=25",
            "   (at most 25 read ahead in host memory, 4 processed on /GPU:0, 3 ready on /GPU:1)",
            "Multi-GPU Mode: Waiting 2.0s for data pipeline to warm up...",
            "Model training starting now",
        ]
        self.assertEqual(len(messages), len(expected))
        for message, beginning in zip(messages, expected, strict=True):
            self.assertTrue(message.startswith(beginning), message)
        for message in messages:
            self.assertTrue(message.endswith(" (simulated)"), message)

    def test_prefetching_is_announced_only_where_a_batch_can_wait_behind_another(self):
        for sizes in ({"buffer_size": 1}, {"prefetch_buffer_size": 1}):
            with (
                self.assertLogs("myxtts", "INFO") as logs,
                ProducerConsumerPipeline(batches_of(3), plan=PLAN, **sizes) as batches,
            ):
                self.assertEqual(len(list(batches)), 3)
            text = "\n".join(logs.output)
            self.assertNotIn("Smart Prefetching: Enabled", text)
            self.assertNotIn("Prefetching to", text)
            self.assertIn("Smart Prefetching: Disabled", text)

    def test_single_device_mode_is_the_same_engine(self):
        with (
            self.assertLogs("myxtts", "INFO") as logs,
            ProducerConsumerPipeline(batches_of(9), plan=ONE_DEVICE) as batches,
        ):
            self.assertEqual([int(b[0, 0]) for b in batches], list(range(9)))
        text = "\n".join(logs.output)
        self.assertIn("Intelligent GPU Pipeline: Single-GPU Buffered Mode", text)
        self.assertIn("Prefetching to /CPU:0 with buffer_size=50", text)
        self.assertNotIn("Multi-GPU", text)

    def test_the_model_waits_until_the_buffers_are_full(self):
        with ProducerConsumerPipeline(
            batches_of(40, seconds=0.02), plan=PLAN, depth=3, prefetch_buffer_size=4
        ) as batches:
            next(batches)
            ready = batches.stats().ring_occupancy
            for _ in batches:
                pass
        self.assertEqual(ready, (0, 0, 0, 1))  # the first batch found the ring full

    def test_the_model_never_waits_longer_than_the_start_delay(self):
        began = time.monotonic()
        with ProducerConsumerPipeline(
            batches_of(4, seconds=0.4), plan=PLAN, model_start_delay=0.6
        ) as batches:
            next(batches)
            waited = time.monotonic() - began
        self.assertLess(waited, 1.2)  # all four would take 1.6 s

    def test_stages_overlap(self):
        """Three stages of 20 ms each take about 20 ms a batch together, not 60."""

        def sleepy(batch):
            time.sleep(0.02)
            return batch

        with ProducerConsumerPipeline(
            batches_of(40, seconds=0.02), plan=PLAN, process=sleepy, model_start_delay=0
        ) as batches:
            began = time.monotonic()
            for _ in batches:
                time.sleep(0.02)
            seconds = time.monotonic() - began
        self.assertLess(seconds, 40 * 0.06 * 0.75)

    def test_statistics_say_where_the_time_went(self):
        def slow(batch):
            time.sleep(0.03)
            return batch

        with ProducerConsumerPipeline(
            batches_of(20), plan=PLAN, process=slow, model_start_delay=0
        ) as batches:
            for _ in batches:
                time.sleep(0.003)
        stats = batches.stats()
        self.assertEqual(
            {name: stage.batches for name, stage in stats.stages.items()}, dict.fromkeys(STAGES, 20)
        )
        self.assertEqual(stats.bottleneck, "process")
        self.assertGreaterEqual(stats.stages["process"].busy_s, 20 * 0.03)
        self.assertGreater(stats.stages["process"].busy_share, 0.9)
        self.assertGreater(stats.stages["train"].waiting_input_s, 0.3)
        self.assertEqual(stats.batches, 20)
        self.assertLess(stats.rate, 20 / (19 * 0.03))  # the first batch starts the clock
        self.assertEqual(json.loads(json.dumps(stats.as_dict()))["bottleneck"], "process")

    def test_step_times_are_told_apart_by_shape(self):
        def source():
            for i in range(24):
                yield np.zeros([2 if i % 2 else 4, 3], np.float32)

        with ProducerConsumerPipeline(source(), plan=PLAN) as batches:
            for batch in batches:
                time.sleep(0.002 * batch.shape[0])
        steps = {step.shape: step for step in batches.stats().steps}
        self.assertEqual(set(steps), {"2x3", "4x3"})
        self.assertEqual(steps["2x3"].steps, 12 - 3)  # the first three are warm-up
        self.assertGreater(steps["4x3"].mean_s, steps["2x3"].mean_s)
        self.assertLess(batches.stats().variation, 0.5)

    def test_the_trace_holds_every_phase(self):
        with ProducerConsumerPipeline(batches_of(5), plan=PLAN) as batches:
            for _ in batches:
                pass
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            write_trace(path, spans_of(batches.telemetry))
            events = json.loads(path.read_text())["traceEvents"]
        names = {event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(names, set(STAGES))
        for stage in STAGES:
            spans = [e for e in events if e["ph"] == "X" and e["name"] == stage]
            self.assertEqual([e["args"]["batch"] for e in spans][:5], [0, 1, 2, 3, 4])
            self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans))


if __name__ == "__main__":
    unittest.main()
