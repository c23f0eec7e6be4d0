"""A run folder and an export that an older version wrote still train on and still speak."""

from __future__ import annotations

import hashlib
import logging
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest

from myxtts.config.config import XTTSConfig
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference import Synthesizer
from myxtts.runs.events import read_events
from myxtts.training import XTTSTrainer

MADE = Path(__file__).parent / "fixtures" / "made_before"
WORDS = "one two three four five six".split()
CLIPS_SHA256 = "ed56625c0e2945707141488e5dff4491fef4bcec58a139813050f78fb1d6dbb5"
THEN = {6: 4.704455, 7: 4.851302, 8: 5.393643, 9: 5.049568}  # losses, as the old code went on


def make_clips(folder: Path) -> None:
    """The clips of the old run, in whole numbers: the same bytes on every machine."""
    (folder / "wavs").mkdir(parents=True)
    rows = ["audio_file|text|speaker_name\n"]
    digest = hashlib.sha256()
    for i, word in enumerate(WORDS):
        samples = _sawtooth(13000 + 1500 * (i % 3), 300 + 10 * i).tobytes()
        digest.update(samples)
        with wave.open(str(folder / "wavs" / f"c{i}.wav"), "wb") as file:
            file.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
            file.writeframes(samples)
        rows.append(f"wavs/c{i}.wav|{word} {('blue', 'red')[i % 2]}.|s{i % 2}\n")
    (folder / "metadata.csv").write_text("".join(rows), encoding="utf-8")
    assert digest.hexdigest() == CLIPS_SHA256


def _sawtooth(samples: int, rise: int) -> np.ndarray:
    tone = (np.arange(samples, dtype=np.int64) * rise) % 2**15 - 2**14
    return (tone // 2).astype("<i2")


def test_the_run_goes_on_from_its_step_and_place_as_the_old_code_did(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)  # its paths are relative, as they were
    shutil.copytree(MADE / "run", "run")
    make_clips(Path("clips"))
    config = XTTSConfig.from_yaml("run/config.yaml")
    config.training.max_steps = max(THEN)
    seen = {}
    with caplog.at_level(logging.INFO), XTTSTrainer(config) as trainer:
        assert trainer.steps_done == min(THEN) - 1
        result = trainer.train(on_step=lambda step, losses: seen.update({step: losses["loss"]}))
    assert result["steps"] == max(THEN)
    assert "changed since" not in caplog.text  # the data goes on within its epoch
    assert {step: float(loss) for step, loss in seen.items()} == pytest.approx(THEN, rel=1e-4)
    told = [e["step"] for e in read_events(Path("run/events.jsonl")) if e["kind"] == "metrics"]
    assert told == list(range(1, 10))


@pytest.mark.parametrize("name", ["run", "voice"])
def test_run_and_export_say_what_they_said(name):
    reference = _sawtooth(3 * SAMPLE_RATE, 320).astype(np.float32) / 32768
    (said,) = Synthesizer.load(MADE / name).perform(
        ["Three blue birds."], references=[(reference, SAMPLE_RATE)]
    )
    np.testing.assert_allclose(said.mel, np.load(MADE / "mel.npy"), atol=1e-4)
    assert np.isfinite(said.wave).all()
    assert np.sqrt(np.mean(said.wave**2)) > 1e-3


@pytest.mark.parametrize("damage", ["removed", "cut off", "changed"])
def test_speaking_reads_nothing_of_the_optimiser(tmp_path, damage):
    shutil.copytree(MADE / "run", tmp_path / "run")
    (file,) = (tmp_path / "run").rglob("optimizer.safetensors")
    content = file.read_bytes()
    file.unlink()
    if damage != "removed":
        file.write_bytes(content[:-1] + (b"!" if damage == "changed" else b""))
    files = Synthesizer.load(tmp_path / "run").files
    assert files.step == min(THEN) - 1
