"""The demo: a corpus, a run through two simulated devices, speech, and pictures."""

from __future__ import annotations

import json

import pytest
import soundfile

from myxtts.cli import demo as command
from myxtts.features.audio import SAMPLE_RATE
from myxtts.text import espeak
from myxtts.training import timed
from tests.support import run_python

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")


@pytest.fixture
def quick(monkeypatch):
    """The same demo with a model that learns nothing, but starts at once."""
    recipe = command._config

    def small(*arguments, **settings):
        config = recipe(*arguments, **settings)
        config.model.encoder_dim = config.model.decoder_dim = config.model.voice_dim = 16
        config.model.encoder_blocks = config.model.decoder_blocks = 1
        config.training.optimization_level = "basic"
        config.training.init_from = None  # the base voice has other widths
        return config

    monkeypatch.setattr(command, "_config", small)
    monkeypatch.setattr(timed, "RATE_STEPS", 3)


def test_it_trains_speaks_and_knows_that_it_is_done(quick, tmp_path, monkeypatch, capsys):
    settings = {"minutes": 0.05, "voices": "2", "seed": 0, "output_dir": tmp_path / "demo"}
    command.demo(**settings)
    said = capsys.readouterr().out
    assert "Corpus: 400 clips" in said
    assert "the slowest stage is" in said
    assert "myxtts train --train-data" in said
    assert json.loads((tmp_path / "demo" / "run" / "trace.json").read_text())["traceEvents"]
    waves = sorted((tmp_path / "demo" / "speech").glob("*.wav"))
    assert len(waves) == 4
    for path in waves:
        assert str(path.name) in said.replace("\n", "")
        assert soundfile.info(path).samplerate == SAMPLE_RATE
        assert soundfile.info(path).duration > 0.2
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    steps = sorted((tmp_path / "demo" / "run" / "checkpoints").glob("step_*"))
    monkeypatch.setattr(command, "_speak", lambda *_: [])
    command.demo(**settings)
    assert "trained already" in capsys.readouterr().out
    assert sorted((tmp_path / "demo" / "run" / "checkpoints").glob("step_*")) == steps


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_minute_of_the_real_demo_ends_well(tmp_path):
    result = run_python(
        ["-m", "myxtts", "demo", "--minutes", "1", "--output-dir", str(tmp_path)], timeout=900
    )
    assert result.returncode == 0, result.stderr
    assert "Intelligent GPU Pipeline: Multi-GPU Mode" in result.stderr
    assert "I0000" not in result.stderr  # TensorFlow's own chatter is held back
    assert "What the base voice says before any training" in result.stdout
    assert len(list((tmp_path / "speech").glob("*.wav"))) == 5
