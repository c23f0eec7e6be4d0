"""Evaluation: the measures know right from wrong, clips are really held out, and all is written."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml

from myxtts.cli.app import main
from myxtts.corpora.demo import DEMO_VOICES, make_demo_corpus
from myxtts.corpora.demo_sentences import MIN_SENTENCES
from myxtts.errors import ConfigError, DataError
from myxtts.evaluation import held_out as held_out_module
from myxtts.evaluation import judge
from myxtts.evaluation.distortion import DECIBELS, compare, warp
from myxtts.evaluation.held_out import NO_REFERENCE, HeldOut, SpokenClip, find_held_out
from myxtts.evaluation.judge import _make_recogniser, said_words
from myxtts.evaluation.pitch import Sound
from myxtts.evaluation.results import (
    FIRST_AUDIO,
    FIRST_AUDIO_MEANING,
    MEASURES,
    SYNTHESIS,
    format_value,
)
from myxtts.inference import export_voice, load_voice
from myxtts.pages.evaluation_words import PERSIAN
from myxtts.text import espeak
from tests.runs import make_clips
from tests.sample_pages import sample_evaluation
from tests.small_runs import save_run
from tests.support import run_python

needs_espeak = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")

# -- measures --


def sound(frames: int = 40, seed: int = 0) -> Sound:
    random = np.random.default_rng(seed)
    return Sound(
        random.normal(-4, 1, [frames, 80]).astype(np.float32), np.full(frames, 150, np.float32)
    )


def test_a_clip_is_not_distorted_by_being_itself_slower_or_louder():
    original = sound()
    for other in (
        original,
        Sound(original.mel.repeat(2, axis=0), original.pitch.repeat(2)),
        Sound(original.mel + 1.5, original.pitch),
    ):
        found = compare(other, original)
        assert found.cepstral_db == pytest.approx(0, abs=1e-3)
        assert found[1:] == (0, 0, 0)


def test_distortion_is_the_difference_of_smooth_spectra_in_decibels():
    original, height = sound(), 0.3
    for order, wanted in ((1, True), (13, True), (14, False)):
        wave = height * np.cos(np.pi * order * (np.arange(80) + 0.5) / 80)
        found = compare(Sound((original.mel + wave).astype(np.float32), original.pitch), original)
        # The root mean square of a cosine, in decibels; too fine a ripple does not count.
        rms_db = 2 * DECIBELS * height / np.sqrt(2)
        assert found.cepstral_db == pytest.approx(rms_db if wanted else 0, abs=0.02)


def test_pitch_and_voicing_errors_are_counted_where_they_are():
    original = sound()
    higher = original.pitch * 1.1
    higher[:10] = 0
    found = compare(Sound(original.mel, higher), original)
    assert found.pitch_error == pytest.approx(0.1, abs=1e-3)
    assert found.contour_error == pytest.approx(0.1, abs=1e-3)
    assert found.voicing_error == pytest.approx(0.25, abs=0.03)
    silent = compare(Sound(original.mel, np.zeros_like(higher)), original)
    assert np.isnan(silent.contour_error)


def test_silence_at_the_ends_does_not_count():
    original = sound()
    quiet = np.full([15, 80], np.log(1e-5), np.float32)
    padded = Sound(
        np.concatenate([quiet, original.mel, quiet]), np.pad(original.pitch, 15).astype(np.float32)
    )
    assert compare(padded, original).cepstral_db == pytest.approx(0, abs=1e-3)


def test_warping_finds_the_cheapest_way():
    def cheapest(cost):  # by definition, cell by cell
        total = np.full(cost.shape, np.inf)
        for i, j in np.ndindex(cost.shape):
            before = [total[i - a, j - b] for a, b in ((1, 1), (1, 0), (0, 1)) if i >= a and j >= b]
            total[i, j] = cost[i, j] + min(before, default=0)
        return total[-1, -1]

    for seed, shape in enumerate(((1, 1), (1, 6), (7, 1), (9, 14), (20, 11))):
        cost = np.random.default_rng(seed).random(shape)
        rows, columns = warp(cost)
        assert cost[rows, columns].sum() == pytest.approx(cheapest(cost))
        assert (rows[0], columns[0]) == (0, 0)
        assert (rows[-1] + 1, columns[-1] + 1) == shape
        steps = {tuple(step) for step in np.diff([rows, columns]).T.tolist()}
        assert steps <= {(0, 1), (1, 0), (1, 1)}


# -- which clips --


def config_of(run: Path, train: Path, val: Path | None = None, checkpoint_dir: str = "run") -> None:
    data = {"train_data": str(train), "val_data": val and str(val), "tokenizer": "characters"}
    settings = {"data": data, "training": {"checkpoint_dir": checkpoint_dir}}
    (run / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of hums in two voices, of which one has its own validation clips."""
    folder = tmp_path_factory.mktemp("evaluate")
    make_clips(folder / "train", 24)
    make_clips(folder / "val", 12, first=24)
    save_run(folder / "run")
    config_of(folder / "run", folder / "train", folder / "val")
    return folder / "run"


def check(found: HeldOut) -> None:
    spoken = {clip.path.resolve() for clip in found.clips}
    heard = {path.resolve() for paths in found.references.values() for path in paths}
    assert not spoken & heard
    assert {clip.speaker for clip in found.clips} <= set(found.references)


def test_validation_clips_are_judged_and_voices_take_turns(run):
    found = find_held_out(run, load_voice(run), num_clips=4)
    check(found)
    assert [clip.speaker for clip in found.clips] in (["s0", "s1"] * 2, ["s1", "s0"] * 2)
    assert all(clip.path.parent.parent.name == "val" for clip in found.clips)
    other = find_held_out(run, load_voice(run), num_clips=4, seed=1)
    assert other.clips != found.clips
    assert find_held_out(run, load_voice(run), num_clips=4) == found


def test_a_run_without_validation_data_is_judged_by_what_it_held_out(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    config_of(tmp_path / "run", run.parent / "train")
    found = find_held_out(tmp_path / "run", load_voice(run))
    check(found)
    assert 0 < len(found.clips) < 4  # a small share, and none of them for references alone
    assert set(found.references) == {"s0", "s1"}


def test_a_run_that_was_moved_finds_its_data_beside_it(run, tmp_path, monkeypatch):
    shutil.copytree(run.parent, tmp_path / "moved" / "here")
    moved = tmp_path / "moved" / "here" / "run"
    config_of(moved, Path("here/train"), Path("here/val"), checkpoint_dir="here/run")
    monkeypatch.chdir("/")
    found = find_held_out(moved, load_voice(moved), num_clips=2)
    assert all(clip.path.is_relative_to(tmp_path) for clip in found.clips)
    config_of(moved, Path("gone"), checkpoint_dir="here/run")
    with pytest.raises(DataError, match="are not there any more"):
        find_held_out(moved, load_voice(moved))


def test_clips_that_nobody_can_be_cloned_for_are_counted(run, tmp_path):
    make_clips(tmp_path, 3)  # too few and too short to be references
    with pytest.raises(DataError, match=f"3 × {NO_REFERENCE}"):
        find_held_out(run, load_voice(run), data=tmp_path)
    export = export_voice(run, tmp_path / "voice")
    with pytest.raises(ConfigError, match="does not say which recordings"):
        find_held_out(export, load_voice(export))


def test_short_references_are_more():
    clips = [SpokenClip(Path(str(i)), "", "", "en", 0.5) for i in range(9)]
    assert len(held_out_module._take_references(clips)) == 5
    assert held_out_module._take_references(clips[:4]) == []


# -- words --


def test_words_are_judged_on_the_closed_set_only(monkeypatch):
    assert said_words("Kathy sells all broken books.") == "trained"
    assert said_words("Kevin holds forty purple lemons.") == "unseen"
    assert said_words("Kevin sells all broken books.") is None
    assert said_words("The weather was lovely this morning.") is None
    clip = SpokenClip(Path("a"), "Kathy sells all broken books.", "f2", "en", 2.0)
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    notes: list = []
    assert _make_recogniser([clip], notes) is None
    assert "pocketsphinx" in notes[0].text
    assert "pip install pocketsphinx" in notes[0].remedy


def test_every_word_of_the_page_has_its_persian():
    words = [*(m.name for m in MEASURES), *(m.meaning for m in MEASURES)]
    places = [value for name, value in vars(held_out_module).items() if name.isupper()]
    words += [value for value in places if isinstance(value, str) and "{}" in value]
    words += held_out_module.DEMO_LISTS.values()
    assert {*words, FIRST_AUDIO, FIRST_AUDIO_MEANING} <= set(PERSIAN)


# -- the command --


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """`myxtts evaluate` of a voice that was never trained, beside a small demo corpus."""
    pytest.importorskip("pocketsphinx", reason="needs pip install pocketsphinx")
    if not espeak.is_available():
        pytest.skip("espeak-ng is not installed")
    folder = tmp_path_factory.mktemp("judged")
    make_demo_corpus(folder / "corpus", voices=DEMO_VOICES[:2], sentences=MIN_SENTENCES, held_out=8)
    run = save_run(folder / "run")
    config_of(run, folder / "corpus")
    report, numbers = folder / "page.html", folder / "numbers.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "MAX_SHOWN", 1)  # a picture takes a second
        flags = ["--clips", "4", "--lang", "fa", "--report", str(report), "--json", str(numbers)]
        patch.setattr(sys, "argv", ["myxtts", "evaluate", str(run), *flags])
        with pytest.raises(SystemExit) as over:
            main()
    assert not over.value.code
    return report.read_text(encoding="utf-8"), json.loads(numbers.read_text(encoding="utf-8"))


@needs_espeak
def test_the_originals_are_right_and_an_untrained_voice_is_not(judged):
    _, numbers = judged
    measures = numbers["measures"]
    assert numbers["clips"] == 4
    assert numbers["voices"] == 2
    for name in ("cepstral distortion", "pitch error", "pitch contour error", "voicing error"):
        assert measures[name]["original"] == pytest.approx(0, abs=1e-6)
        assert measures[name]["synthesis"] is None or measures[name]["synthesis"] > 0
    for name in ("words understood, trained", "words understood, unseen", "voice match"):
        assert measures[name]["original"] >= 0.8
        assert measures[name]["vocoder copy"] >= 0.5
    assert measures["words understood, trained"]["synthesis"] <= 0.2
    copied, spoken = (
        measures["cepstral distortion"][name] for name in ("vocoder copy", "synthesis")
    )
    assert 0 < copied < 0.5 * spoken
    assert measures["real-time factor"]["synthesis"] > 0
    assert measures["real-time factor"]["original"] is None
    assert measures["time to first audio"]["synthesis"] > 0
    assert {clip["list"] for clip in numbers["by_clip"]} == {"new sentences", "new words"}


@needs_espeak
def test_the_page_holds_numbers_pictures_and_audio_and_fetches_nothing(judged):
    page, _ = judged
    found: dict[str, list[str]] = {"img": [], "audio": []}
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.get(tag, []).append(dict(attrs).get("src"))
    parser.feed(page)
    assert len(found["img"]) == 1
    assert len(found["audio"]) == 3
    assert all(uri.startswith("data:image/png;base64,iVBOR") for uri in found["img"])
    assert all(uri.startswith("data:audio/wav;base64,UklGR") for uri in found["audio"])
    assert "http" not in page
    assert 'dir="rtl"' in page
    for name in ("ساختهٔ مدل", "اعوجاج کپسترال", "به تفکیک صدا"):
        assert name in page
    for english in ("synthesis", "cepstral distortion", "Listen and look", "How it was measured"):
        assert f">{english}<" not in page


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--help"], "--lang"),
        (["--report", "{}/none/page.html"], "does not exist or cannot be written"),
        (["--data", "{}/none"], "does not exist"),
    ],
)
def test_help_and_wrong_flags_need_no_tensorflow(run, tmp_path, flags, message):
    given = [flag.format(tmp_path) for flag in flags]
    program = (
        f"import sys; sys.argv[1:] = ['evaluate', {str(run)!r}, *{given!r}]\n"
        "from myxtts.cli.app import main\n"
        "try: main()\n"
        "finally: print('loaded:', *(m for m in ('tensorflow', 'keras') if m in sys.modules))"
    )
    result = run_python(["-c", program])
    assert result.stdout.endswith("loaded:\n")
    assert message in " ".join((result.stdout + result.stderr).split())
    assert result.returncode == (0 if flags == ["--help"] else 2)


@pytest.mark.parametrize(
    ("understood", "sentence"),
    [(0.97, "about as well"), (0.85, "Most of it"), (0.2, "Much of it"), (None, "not measured")],
)
def test_a_sentence_says_good_or_bad_beside_the_recordings(understood, sentence):
    evaluation = sample_evaluation()
    clips = []
    for clip in evaluation.clips:
        marks = {
            column: mark._replace(words=understood if column == SYNTHESIS else 1.0)
            for column, mark in clip.marks.items()
        }
        clips.append(replace(clip, words="unseen", marks=marks))
    assert sentence in replace(evaluation, clips=tuple(clips)).verdict()


def test_a_handful_of_clips_gets_no_tenths_of_a_per_cent():
    assert format_value(0.8, "share") == "80%"
    assert format_value(0.007, "share") == "0.7%"
