"""A run never trains on nothing nor calls it the best, and goes on once the data is back."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.errors import DataError, TrainingDivergedError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.runs.checkpoints import CheckpointStore
from myxtts.training.samples import OwnText, Sampler
from tests import runs
from tests.voices import shared_voice

pytestmark = pytest.mark.usefixtures("one_stage", "every_line")

STEPS = 40  # far more than are ever read ahead
NO_READ_AHEAD = {"pipeline_buffer_size": 1, "prefetch_buffer_size": 1, "pipeline_depth": 1}


@pytest.fixture
def data(tmp_path):
    return runs.make_clips(tmp_path / "data", runs.TOO_FEW_TO_VALIDATE)


def once(step, action):
    """An `on_step` that acts at one step."""
    return lambda at, _: action() if at == step else None


def move(folder, *, back=False):
    gone = folder.with_name(f"{folder.name}-gone")
    (gone.rename(folder) if back else folder.rename(gone))


# -- training data --


@pytest.mark.parametrize("grad_accum", [1, 2])
def test_data_that_goes_away_stops_the_run_which_then_goes_on_as_if_nothing_happened(
    run, trainer_in, data, grad_accum
):
    settings = {"data": {"train_data": data, **NO_READ_AHEAD}, "grad_accum": grad_accum}
    settings |= {"max_steps": STEPS, "checkpoint_steps": 15}
    whole = run.with_name("whole")
    trainer_in(whole, **settings).train()
    after = []
    trainer = trainer_in(run, **settings)

    def note(step, _):
        after.append(runs.weights(trainer))
        if step == 1:
            move(data / "wavs")

    with pytest.raises(DataError, match=r"9 of 9 training clips \(100.0 %\)") as end:
        trainer.train(on_step=note)
    assert "mount the data again" in end.value.remedy
    kept = runs.latest(run)
    assert 1 <= kept.step == len(after) < STEPS
    np.testing.assert_array_equal(kept.tensors["model"]["small_model/copy/bias"], after[-1][-80:])
    assert all(values["loss"] > 0 for _, values in runs.metrics(run))
    move(data / "wavs", back=True)
    trainer_in(run, **settings).train()
    ours, theirs = runs.latest(run), runs.latest(whole)
    for group, arrays in theirs.tensors.items():
        for name, array in arrays.items():
            assert ours.tensors[group][name].tobytes() == array.tobytes(), name
    for name in ("step", "epoch", "position", "fingerprint", "early_stopping"):
        assert ours.state[name] == theirs.state[name]
    assert list(runs.metrics(run)) == list(runs.metrics(whole))


def test_clips_overwritten_by_short_ones_stop_the_run(run, trainer_in, data):
    def shrink():
        for path in (data / "wavs").iterdir():
            soundfile.write(path, np.full(1000, 0.1), SAMPLE_RATE)

    trainer = trainer_in(run, data={"train_data": data, **NO_READ_AHEAD}, max_steps=STEPS)
    with pytest.raises(DataError, match=r"it holds 0.05 s, and held 0\.\d\d s when it was checked"):
        trainer.train(on_step=once(2, shrink))
    assert 2 <= runs.latest(run).step < STEPS
    assert all(values["loss"] > 0 for _, values in runs.metrics(run))


def test_lost_clips_below_the_share_are_told_and_the_run_ends_well(run, trainer_in, data, caplog):
    settings = {"train_data": data, "max_lost_share": 0.2, **NO_READ_AHEAD}
    trainer = trainer_in(run, data=settings, max_steps=STEPS)
    lost = data / "wavs" / "c003.wav"
    result = trainer.train(on_step=once(1, lost.unlink))
    assert result["steps"] == STEPS
    assert caplog.text.count("c003.wav can no longer be read and is left out") == 1
    assert "1 clips could no longer be read" in caplog.text
    assert trainer.step.traces == 1


def test_the_command_line_says_what_happened_and_its_exit_code_too(tmp_path, data):
    process, run, log_file = runs.start_small(
        tmp_path / "cli", data, "--buffer-size", "1", max_steps=100_000, checkpoint_steps=100_000
    )
    try:
        runs.wait_for(lambda: runs.last_step(run) >= 1, process)
        move(data / "wavs")
        code = process.wait(120)
    finally:
        process.kill()
    said = log_file.read_text(encoding="utf-8")
    assert code == 2, said
    assert "9 of 9 training clips (100.0 %) can no longer be read" in said.replace("\n", " ")
    assert "then run the same command" in said.replace("\n", " ")
    assert "Traceback" not in said
    assert runs.latest(run).step >= 1


# -- validation data --


def validating(data, tmp_path, **settings):
    val = runs.make_clips(tmp_path / "val", 4, first=50)
    return val, {
        "data": {"train_data": data, "val_data": val},
        "max_steps": 6,
        "validation_steps": 2,
        **settings,
    }


def validations(run):
    return [
        (event["step"], event["values"]["validation/loss"])
        for event in runs.events(run, "metrics")
        if "validation/loss" in event["values"]
    ]


def test_a_validation_of_nothing_is_no_number(run, trainer_in, data, tmp_path, caplog):
    val, settings = validating(data, tmp_path, early_stopping_patience=1, learning_rate=0.01)
    trainer = trainer_in(run, **settings)
    result = trainer.train(on_step=once(3, lambda: move(val / "wavs")))
    assert result["steps"] == 6  # nor does it use up any patience
    ((step, loss),) = validations(run)
    assert (step, result["best_loss"]) == (2, loss)
    assert CheckpointStore(run / "checkpoints").best().step == 2
    assert [event["step"] for event in runs.events(run, "incomplete_validation")] == [4, 6]
    assert caplog.text.count("found not a single clip: it is not counted") == 2
    move(val / "wavs", back=True)
    settings["max_steps"] = 8
    trainer_in(run, **settings).train()
    assert [step for step, _ in validations(run)] == [2, 8]


def test_a_validation_of_fewer_clips_is_never_the_best(run, trainer_in, data, tmp_path, caplog):
    val, settings = validating(data, tmp_path)
    trainer = trainer_in(run, **settings)
    measure = trainer._validator.evaluate
    # The clip that is left would have the lowest loss of all.
    lower = itertools.chain((3.0, 2.0), itertools.repeat(0.1))
    trainer._validator.evaluate = lambda *a, **k: {**measure(*a, **k), "loss": next(lower)}
    result = trainer.train(on_step=once(3, (val / "wavs" / "c051.wav").unlink))
    assert result["best_loss"] == pytest.approx(2.5)  # of both batches
    assert [step for step, _ in validations(run)] == [2]
    assert "Validation at step 4 found only 3 of 4 clips: it is not counted" in caplog.text


def test_samples_are_of_the_clips_that_are_left(tmp_path):
    spoken = {}

    class Listener:
        def listen(self, mels, lengths, pitch):
            spoken["lengths"] = lengths.numpy().tolist()
            raise InterruptedError

        def speak(self):
            raise AssertionError

    columns = {"mel_lengths": [0, 30, 0, 20, 10], "reference_lengths": [0, 5, 0, 6, 7]}
    batch = {name: tf.constant(values) for name, values in columns.items()}
    batch |= {"reference_mels": tf.zeros([5, 9, 80]), "reference_pitch": tf.zeros([5, 9])}
    with pytest.raises(InterruptedError):
        Sampler(Listener(), device="/CPU:0", tokenizer=None).write(
            {**batch, "seed": tf.zeros([2])}, tmp_path, step=1, log=None
        )
    assert spoken["lengths"] == [6, 7]  # the last two that are not masked


def test_a_sentence_of_ones_own_is_said_in_its_language_in_the_voice_of_the_last_clip(
    tmp_path, monkeypatch
):
    said = []
    monkeypatch.setattr(Sampler, "_say", lambda _, *what, **how: said.append(what) or [])
    columns = {"mel_lengths": [30, 20, 0], "languages": [0, 3, 0], "reference_lengths": [5, 6, 0]}
    batch = {name: tf.constant(values) for name, values in columns.items()}
    own = OwnText("سلام", [7, 8, 9], 16)
    Sampler(shared_voice(), device="/CPU:0", tokenizer=None).write(
        {**batch, "seed": tf.zeros([2])}, tmp_path, step=1, log=None, texts=["a", "b"], own_text=own
    )
    (_, _, heard, _), (rows, names, texts, _) = said
    assert (heard, texts, names) == (["a", "b"], ["سلام"], ["own_text"])
    wanted = {"languages": [16], "tokens": [[7, 8, 9]], "token_lengths": [3]}
    wanted |= {"reference_lengths": [6], "mel_lengths": [20]}
    assert {name: value.numpy().tolist() for name, value in rows.items()} == wanted


# -- other people's data sets --


def test_a_data_set_of_empty_batches_changes_nothing_and_stops_the_run(run, trainer_in):
    empty = [{**batch, "mel_lengths": np.zeros(2, np.int32)} for batch in runs.mel_batches(30)]
    full = [{**batch, "mel_lengths": np.full(2, 12, np.int32)} for batch in runs.mel_batches(2)]
    trainer, after = trainer_in(run), []
    with pytest.raises(TrainingDivergedError, match="no clip of them could be used"):
        trainer.train(
            [*full, *empty], epochs=1, on_step=lambda *_: after.append(runs.weights(trainer))
        )
    np.testing.assert_array_equal(after[-1], after[1])
    assert trainer.step.updates == 2


def test_a_validation_set_that_can_be_read_once_is_refused_before_training(run, trainer_in):
    trainer = trainer_in(run, validation_steps=2)
    with pytest.raises(DataError, match="val_dataset is a generator, which can be read only once"):
        trainer.train(runs.mel_batches(4), val_dataset=(b for b in runs.mel_batches(1)), epochs=1)
    assert trainer.steps_done == 0


def test_a_validation_set_that_runs_dry_is_warned_of_each_time(run, trainer_in, caplog):
    batches = iter(runs.mel_batches(1))

    class Spent:
        def __iter__(self):
            return batches

    trainer = trainer_in(run, validation_steps=2)
    trainer.train(runs.mel_batches(6), val_dataset=Spent(), epochs=1)
    assert [step for step, _ in validations(run)] == [2]
    assert caplog.text.count("Give val_dataset a data set that can be read again") == 2


# -- a checkpoint of another run --


def test_a_run_that_takes_over_anothers_checkpoint_goes_on_from_it_alone(run, trainer_in):
    other = run.with_name("other")
    batches = runs.mel_batches(9)
    trainer_in(other, checkpoint_steps=2).train(batches[:4], epochs=1)
    trainer_in(run, checkpoint_steps=3).train(batches, epochs=1)
    chosen = other / "checkpoints" / "step_00000002"
    back = trainer_in(run, resume_checkpoint=chosen)
    assert back.steps_done == 2
    back.close()
    assert trainer_in(run).steps_done == 2  # even where nothing was trained since
    assert back.run.checkpoints.steps() == [2]
    kept = sorted(path.name[:23] for path in (run / "checkpoints").glob("abandoned-*"))
    assert kept == [f"abandoned-step_0000000{step}" for step in (3, 6, 9)]
    shutil.rmtree(other)
    assert trainer_in(run).train(batches, epochs=1)["steps"] == 9


# -- the last line --


def last_lines(caplog):
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("Step ")]


@pytest.mark.parametrize("ends", ["by its steps", "by its epochs", "early", "by a signal"])
def test_the_last_line_tells_the_last_losses_once(run, trainer_in, caplog, ends):
    """Six steps, of which the first and the fourth are reported by themselves."""
    settings = {"max_steps": 6} if ends == "by its steps" else {}
    if ends == "early":
        settings |= {"validation_steps": 6, "early_stopping_patience": 1}
    settings["grad_accum"] = 2 if ends == "by its epochs" else 1
    trainer = trainer_in(run, log_steps=4, **settings)
    if ends == "early":
        trainer.stopping.update(-1.0, clips=2.0)  # there is nothing better
    seen = []

    def note(step, losses):
        seen.append(float(losses["loss"]))
        if ends == "by a signal" and step == 6:
            trainer._stop.signal_number = 15

    batches = runs.mel_batches({"by its steps": 9, "by its epochs": 12}.get(ends, 8))
    trainer.train(batches, val_dataset=runs.mel_batches(1), epochs=1, on_step=note)
    assert trainer.steps_done == 6
    *_, (step, values) = runs.metrics(run)
    assert step == 6
    if ends != "by its epochs":
        assert values["loss"] == pytest.approx(np.mean(seen[4:]), rel=1e-5)
    last = [line for line in last_lines(caplog) if line.startswith("Step 6")]
    assert [line.split()[3] for line in last] == [f"{values['loss']:.4f}"]
