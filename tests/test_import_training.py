"""What was imported trains: five sources in one folder, five steps."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from myxtts.corpora.demo import DEMO_VOICES, speak_clip
from myxtts.features.audio import SAMPLE_RATE
from myxtts.recordings.folder import read_clips
from myxtts.recordings.importer import import_recordings
from myxtts.text import espeak
from myxtts.training import make_trainer
from tests.layouts import common_voice, libritts, piper, vctk
from tests.runs import in_process
from tests.test_long_recordings import SENTENCES


def subtitled(folder):
    """One talk of twenty seconds with its subtitles."""
    folder.mkdir()
    pause = np.zeros(SAMPLE_RATE // 3, np.int16)
    parts, lines, now = [], [], 0.0
    for number, sentence in enumerate(SENTENCES):
        wave = np.concatenate([speak_clip(sentence, DEMO_VOICES[0]), pause])
        lasts = len(wave) / SAMPLE_RATE
        times = " --> ".join(f"00:00:{t:06.3f}" for t in (now, now + lasts))
        lines.append(f"{number}\n{times}\n{sentence}\n")
        parts.append(wave)
        now += lasts
    soundfile.write(folder / "talk.wav", np.concatenate(parts), SAMPLE_RATE)
    (folder / "talk.srt").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not espeak.is_available(), reason="needs espeak-ng")
def test_five_kinds_of_recordings_are_trained_on(tmp_path, run):
    out = tmp_path / "out"
    makers = {
        "common-voice": common_voice,
        "vctk": vctk,
        "libritts": libritts,
        "piper": piper,
        "subtitles": subtitled,
    }
    for kind, make in makers.items():
        report = import_recordings(make(tmp_path / kind), out, language="en")
        assert report.kind == kind
        assert report.new_clips
    assert {clip.origin.source for clip in read_clips(out)} == {1, 2, 3, 4, 5}
    config = in_process(run, data={"train_data": str(out)}, max_steps=5)
    with make_trainer(config) as trainer:
        ended = trainer.train()
    assert ended["steps"] == 5
    assert ended["stopped_by"] is None
