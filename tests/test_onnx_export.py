"""An ONNX export speaks as TensorFlow does: every size, head and language."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from myxtts.config.presets import MODEL_SIZES
from myxtts.errors import ConfigError, DataError
from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.inference import onnx_export
from myxtts.inference.small.files import CONFIG_FILE
from myxtts.inference.small.voice import SmallVoice
from myxtts.inference.voice_facts import config_checksum
from myxtts.text import espeak
from myxtts.text.languages import LANGUAGES
from tests.make_small_voice import save_phoneme_run
from tests.small_runs import hum
from tests.small_voice import FIXTURE
from tests.voices import HEADS

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")

CLOSE = 1e-3  # in log-mel


def compare(ours, theirs, sentences) -> float:
    """The largest difference in log-mel, over sentences with their languages."""
    voice = theirs.listen((hum(), 22_050))
    worst = 0.0
    for text, language in sentences:
        (first,) = theirs.perform([text], voice=voice, language=language, seed=3)
        (second,) = ours.perform([text], voice=voice, language=language, seed=3)
        np.testing.assert_array_equal(first.durations, second.durations)
        worst = max(worst, float(np.abs(first.mel - second.mel).max()))
    return worst


def test_the_graphs_say_their_opset_and_take_any_length():
    config = json.loads((FIXTURE / "config.json").read_text())
    for name in config["files"]:
        graph = onnx.load(FIXTURE / name)
        onnx.checker.check_model(graph)
        (opset,) = (each.version for each in graph.opset_import if not each.domain)
        assert opset == config["opset"] == onnx_export.OPSET
        shapes = [
            [size.dim_value for size in each.type.tensor_type.shape.dim]
            for each in graph.graph.input
        ]
        assert any(0 in shape for shape in shapes), "some length is free"


def test_a_missing_converter_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ConfigError, match="converter"):
        onnx_export._converter()


def test_only_onnx_keeps_a_voice_inside(run_command, tmp_path):
    code, _, told = run_command("export", "base", tmp_path / "out", "--voice", "a.wav")
    assert code == 2
    assert "--format onnx" in told


def sentences(each: int = 3) -> list[tuple[str, str]]:
    """So many of every language."""
    from myxtts.corpora.base_texts import sentences_of

    return [(text, tag) for tag in LANGUAGES for text in sentences_of(tag)[:each]]


class Mute:
    """In place of a vocoder, where spectrograms are compared and nobody listens."""

    sample_rate = SAMPLE_RATE

    def __call__(self, log_mels, pitches=None):
        return [np.zeros(len(mel) * HOP, np.float32) for mel in log_mels]


def test_the_flow_head_speaks_alike_and_holds_its_weights_once(tmp_path):
    from myxtts.inference.synthesizer import Synthesizer

    run = save_phoneme_run(tmp_path / "run", "flow")
    out = onnx_export.export_onnx(run, tmp_path / "out")
    exported, ours = SmallVoice.load(out), Synthesizer.load(run, vocoder=Mute())
    exported.vocoder = Mute()
    assert compare(exported, ours, sentences(1)[:2]) < CLOSE
    weights = 4 * ours.model.count_params()
    assert sum(len(graph) for graph in exported.files.graphs.values()) < 3 * weights
    config = json.loads((out / CONFIG_FILE).read_text(encoding="utf-8"))
    del config["files"]["flow.onnx"]  # as exports were written before
    config["checksum"] = config_checksum(config)
    (out / CONFIG_FILE).write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(DataError, match="make it anew"):
        SmallVoice.load(out)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("size", MODEL_SIZES)
@pytest.mark.parametrize("head", HEADS)
def test_every_size_and_head_speaks_alike(tmp_path, size, head):
    from myxtts.inference.synthesizer import Synthesizer

    run = save_phoneme_run(tmp_path / "run", head, widths=MODEL_SIZES[size])
    exported = SmallVoice.load(onnx_export.export_onnx(run, tmp_path / "out"))
    exported.vocoder = Mute()
    # The flow goes through its decoder 32 times: the larger ones say one sentence of each language.
    few = head == "flow" and size != "tiny"
    said = sentences(1 if few else 3)
    assert compare(exported, Synthesizer.load(run, vocoder=Mute()), said) < CLOSE


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_base_voice_speaks_fifty_sentences_of_all_languages_alike(tmp_path):
    from myxtts.inference.synthesizer import Synthesizer

    out = onnx_export.export_onnx("base", tmp_path / "out", references=[(hum(), 22_050)])
    assert len(sentences()) >= 50
    assert compare(SmallVoice.load(out), Synthesizer.load("base"), sentences()) < CLOSE
