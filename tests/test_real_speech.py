"""Human speech trains like espeak's; set MYXTTS_REAL_SPEECH to a folder in LJ Speech's layout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from myxtts.data.waves import decode
from myxtts.features.audio import SAMPLE_RATE
from myxtts.models.mels import normalize
from myxtts.runs.events import read_events
from tests.support import run_python

REAL_SPEECH = os.environ.get("MYXTTS_REAL_SPEECH")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not REAL_SPEECH, reason="MYXTTS_REAL_SPEECH names no folder of recordings"),
    pytest.mark.timeout(1200),
]


def constant_predictors_loss(folder: Path) -> float:
    """The mel loss of saying the median of every band all the time: what knowing nothing gives."""
    librosa = pytest.importorskip("librosa")
    mels = []
    for path in sorted(folder.glob("wavs/*.wav")):
        spectrum = librosa.feature.melspectrogram(
            y=decode(path) / np.float32(32768),
            sr=SAMPLE_RATE,
            n_fft=1024,
            hop_length=256,
            power=1.0,
            n_mels=80,
            fmax=8000,
        )
        mels.append(normalize(np.log(np.maximum(spectrum, 1e-5))).T)
    frames = np.concatenate(mels)
    off = frames - np.median(frames, axis=0)
    return float(np.mean(np.abs(off) + 0.5 * np.square(off)))


def test_real_clips_train_below_a_constant_predictor_without_undeserved_warnings(tmp_path):
    settings = tmp_path / "config.yaml"
    settings.write_text("training: {learning_rate: 0.002, warmup_steps: 20, ema_decay: 0.9}\n")
    result = run_python(
        [
            *("train_main.py", "--config", str(settings), "--train-data", REAL_SPEECH),
            *("--model-size", "tiny", "--batch-size", "8", "--max-steps", "80"),
            *("--enable-static-shapes", "--simulate", "--checkpoint-dir", str(tmp_path / "run")),
        ],
        timeout=1200,
    )
    assert result.returncode == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if line.startswith("WARNING")]
    assert [line for line in warnings if "Step time varies" not in line] == []
    events = read_events(tmp_path / "run" / "events.jsonl")
    losses = [e["values"] for e in events if e["kind"] == "metrics"]
    baseline = constant_predictors_loss(Path(REAL_SPEECH))
    assert [v["mel"] for v in losses if "mel" in v][-1] < 0.6 * baseline
    assert [v["validation/mel"] for v in losses if "validation/mel" in v][-1] < 0.8 * baseline
