"""`--transcribe`: a stand-in with faster-whisper's interface, compared with the real one."""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from myxtts.errors import DataError
from myxtts.recordings import transcriber as module
from myxtts.recordings.folder import change_text, read_clips
from myxtts.recordings.importer import import_recordings
from myxtts.recordings.transcriber import NEEDED, Transcriber
from tests.layouts import hum


class StandIn:
    """What `faster_whisper.WhisperModel` is asked for, and answers."""

    def __init__(self, model_size_or_path, device="auto", local_files_only=False):
        assert local_files_only, "nothing is ever downloaded"

    def transcribe(self, audio, language=None, *, beam_size=5, condition_on_previous_text=True):
        assert audio.dtype == np.float32
        assert np.abs(audio).max() <= 1.0
        seconds = len(audio) / 16_000
        words = [f" {language} {seconds:.1f}", " seconds."]
        return iter(
            SimpleNamespace(start=i, end=i + 1, text=text, avg_logprob=-0.1, no_speech_prob=0.0)
            for i, text in enumerate(words)
        ), SimpleNamespace(language=language)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_faster_whisper", lambda: StandIn)
    folder = tmp_path / "whisper"
    folder.mkdir()
    for name in NEEDED:
        (folder / name).write_bytes(b"")
    return folder


def test_every_clip_without_text_gets_one_with_its_confidence(tmp_path, model):
    hum(tmp_path / "in" / "a.wav", seconds=1.0)
    hum(tmp_path / "in" / "b.wav", seconds=2.0)
    out = tmp_path / "out"
    import_recordings(tmp_path / "in", out, language="zh-cn")
    change_text(out, read_clips(out)[0].audio, "By hand.")
    report = import_recordings(tmp_path / "in", out, language="zh-cn", transcribe=model)
    assert report.without_text == 0
    by_hand, heard = read_clips(out)
    assert (by_hand.text, by_hand.confidence) == ("By hand.", None)
    assert heard.text == "zh 2.0 seconds."
    assert heard.confidence == pytest.approx(np.exp(-0.1), abs=0.01)


def test_without_a_model_the_error_says_what_to_get_and_where_to_put_it(tmp_path):
    hum(tmp_path / "in" / "a.wav")
    with pytest.raises(DataError) as refused:
        import_recordings(
            tmp_path / "in", tmp_path / "out", language="en", transcribe=tmp_path / "none"
        )
    assert "model.bin" in refused.value.problem
    assert "huggingface.co/Systran/faster-whisper-small" in refused.value.remedy
    assert "--transcribe FOLDER" in refused.value.remedy
    assert not (tmp_path / "out").exists(), "it is said before anything is done"


def test_without_the_package_the_error_says_what_to_install(model, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(DataError, match="faster-whisper") as refused:
        Transcriber(model)
    assert "pip install" in refused.value.remedy


def test_the_stand_in_asks_for_nothing_that_the_real_one_has_not():
    whisper = pytest.importorskip("faster_whisper", reason="the extra `transcribe`").WhisperModel
    for name in ("__init__", "transcribe"):
        ours = inspect.signature(getattr(StandIn, name)).parameters
        theirs = inspect.signature(getattr(whisper, name)).parameters
        assert set(ours) <= set(theirs)
    from faster_whisper.transcribe import Segment

    assert {"start", "end", "text", "avg_logprob", "no_speech_prob"} <= set(
        Segment.__dataclass_fields__
    )
