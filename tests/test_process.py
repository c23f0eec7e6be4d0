"""What is changed for the whole process is changed by name, and never by the way."""

from __future__ import annotations

import sys
import threading

import pytest

from myxtts.runs.events import RunLog, read_events
from myxtts.training import XTTSTrainer, make_trainer
from tests import runs
from tests.support import run_python

COUNT_PAGES = """
import resource
import numpy as np
from myxtts.pipeline import configure_devices
from myxtts.pipeline.process import prepare_process

def pages_of_large_arrays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**26, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

plan = configure_devices(simulate=True)
before = pages_of_large_arrays()
prepare_process(plan, seed=0)
pages_of_large_arrays()
print(before, pages_of_large_arrays())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only the GNU C library can be told to")
def test_freed_memory_is_kept_once_the_process_is_prepared_and_not_before():
    result = run_python(["-c", COUNT_PAGES])
    assert result.returncode == 0, result.stderr
    before, kept = map(int, result.stdout.split())
    assert before > 20 * 2**26 / 2**21  # each array anew, if only in pages of 2 MB
    assert kept < before / 10


def test_a_trainer_settles_what_the_data_decides_and_leaves_the_callers_config(tmp_path):
    clips = runs.make_clips(tmp_path / "clips", runs.TOO_FEW_TO_VALIDATE)
    config = runs.in_process(tmp_path / "run", data={"train_data": clips}, max_steps=2)
    before = config.model_dump()
    with XTTSTrainer(config, runs.SmallModel) as trainer:
        trainer.train(epochs=7)
    assert config.model_dump() == before
    settled = trainer.config
    assert settled.training.epochs == 7
    assert settled.model.vocab_size == trainer.data.tokenizer.vocab_size != config.model.vocab_size


def test_the_thread_that_trains_writes_the_runs_log_alone(tmp_path, monkeypatch):
    writers = set()
    attempt = RunLog._attempt

    def noting(*arguments):
        writers.add(threading.current_thread())
        return attempt(*arguments)

    monkeypatch.setattr(RunLog, "_attempt", noting)
    config = runs.in_process(
        tmp_path / "run", checkpoint_steps=2, memory_check_steps=2, validation_steps=3
    )
    with make_trainer(config, model=runs.SmallModel) as trainer:
        trainer.train(runs.mel_batches(8), runs.mel_batches(2), epochs=1)
    kinds = {event["kind"] for event in read_events(tmp_path / "run" / "events.jsonl")}
    assert {"started", "metrics", "memory", "checkpoint", "pipeline", "ended"} <= kinds
    assert writers == {threading.main_thread()}  # so it needs no lock
