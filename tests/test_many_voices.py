"""The crowd of voices: how it is made up, its corpus, and the judge of who sounds like whom."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks import intelligibility
from benchmarks import voices as benchmark
from myxtts.cli import demo as command
from myxtts.corpora import demo, demo_sentences, many_voices
from myxtts.data.manifests import read_manifest
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.references import LEAST_SECONDS, read_references
from myxtts.inference.vocoder import GriffinLim
from myxtts.text import espeak

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The real recipe with fewer voices: those of its beginning."""
    trained, unseen = many_voices.trained_voices()[:6], many_voices.unseen_voices()[:4]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_voices, "trained_voices", lambda: trained)
        patch.setattr(many_voices, "unseen_voices", lambda: unseen)
        patch.setattr(many_voices, "NUM_VOICES", len(trained))
        folder = tmp_path_factory.mktemp("many") / "corpus"
        yield many_voices.make_many_voices_corpus(folder)


def test_the_crowd_is_large_mixed_and_without_twins():
    trained, unseen = many_voices.trained_voices(), many_voices.unseen_voices()
    assert len(trained) == 120
    assert len(unseen) >= 13
    everyone = trained + unseen
    assert len({voice.name for voice in everyone}) == len(everyone)
    settings = {(v.espeak_voice, v.pitch, v.pitch_range, v.rate, v.formants) for v in everyone}
    assert len(settings) == len(everyone)
    variants = Counter(voice.espeak_voice for voice in trained)
    assert len(variants) == 34
    assert sum(voice.espeak_voice not in variants for voice in unseen) == 6
    assert {variant.partition("+")[2] for variant in variants} <= set(espeak.list_variants())
    for field, low, high in (
        ("pitch", 20, 85),
        ("pitch_range", 25, 75),
        ("rate", 145, 168),
        ("formants", 0.88, 1.12),
    ):
        for women_or_men in (trained[::2], trained[1::2]):
            values = sorted(getattr(voice, field) for voice in women_or_men)
            assert low <= values[0] < low + 0.05 * (high - low)
            assert high - 0.05 * (high - low) < values[-1] <= high


def test_formants_move_without_the_tempo():
    text = "Peter sees three old ships."
    plain = demo.DemoVoice("plain", "en-us+f2")
    shorter = demo.DemoVoice("shorter", "en-us+f2", formants=1.12)
    waves = [demo.speak_clip(text, voice) for voice in (plain, shorter)]
    assert len(waves[1]) == pytest.approx(len(waves[0]), rel=0.05)
    low, high = (upper_quartile_hertz(wave) for wave in waves)
    assert high / low == pytest.approx(1.12, abs=0.02)


def upper_quartile_hertz(wave):
    """Three quarters of the power lie below it."""
    power = np.cumsum(np.abs(np.fft.rfft(wave.astype(float))) ** 2)
    return np.searchsorted(power, 0.75 * power[-1]) * SAMPLE_RATE / len(wave)


def test_unseen_voices_say_nothing_in_training_and_all_the_same_in_tests(corpus):
    train = read_manifest(corpus.folder / demo.TRAIN_MANIFEST)
    references = read_manifest(corpus.folder / demo.UNSEEN_REFERENCES_MANIFEST)
    tests = read_manifest(corpus.folder / demo.UNSEEN_TESTS_MANIFEST)
    assert set(Counter(train.speakers).values()) == {many_voices.CLIPS_A_VOICE}
    assert set(corpus.speakers) == set(train.speakers)
    assert not set(train.speakers) & set(corpus.unseen_speakers)
    assert set(references.speakers) == set(tests.speakers) == set(corpus.unseen_speakers)
    assert len(set(references.texts)) == len(references) == 3 * len(corpus.unseen_speakers)
    assert len(set(tests.texts)) * len(corpus.unseen_speakers) == len(tests)
    assert not set(train.texts) & {*references.texts, *tests.texts}
    unheard = {word for slot in demo_sentences.HELD_OUT_SLOTS.values() for word in slot}
    kinds = Counter(text.split()[0] in unheard for text in set(tests.texts))
    assert kinds[True] == kinds[False] == 2
    for speaker in corpus.unseen_speakers:
        audio = [references.folder / c.audio for c in references if c.speaker == speaker]
        assert sum(map(len, read_references(audio))) > LEAST_SECONDS * SAMPLE_RATE


def test_names_shared_by_trained_and_unseen_voices_are_refused(tmp_path):
    voice = demo.DemoVoice("a", "en-us")
    with pytest.raises(DataError, match="not usable"):
        demo.make_demo_corpus(tmp_path / "corpus", voices=[voice], unseen_voices=[voice])


def test_the_demo_lets_unseen_voices_speak_from_recordings_of_their_own(corpus):
    sayings = command._held_out(corpus.folder, many=True)
    assert len(sayings) == 2 * command.SENTENCES + command.UNSEEN_SPEAKERS
    unseen = [saying for saying in sayings if saying.name.startswith("unseen_voice")]
    assert {saying.speaker for saying in unseen} == set(corpus.unseen_speakers)
    for saying in sayings:
        assert len(saying.references) == command.REFERENCES
        assert saying.original.is_file()
        assert saying.original not in saying.references
        assert all(saying.speaker in path.name for path in saying.references)
    typed = command._speaking_command(
        corpus.folder, corpus.folder, corpus.folder, many=True, language="en"
    )
    assert any(f"_{speaker}.wav" in typed for speaker in corpus.unseen_speakers)


def test_each_benchmark_refuses_the_other_ones_corpus(corpus, tmp_path, capsys):
    with pytest.raises(DataError, match="benchmarks.voices"):
        intelligibility.read_corpus(corpus.folder)
    with pytest.raises(SystemExit) as ended:
        benchmark.main([str(tmp_path / "run")])
    assert ended.value.code == 2
    assert "not a corpus of many voices" in capsys.readouterr().err


class Parrot:
    """Speaks with espeak-ng in the voice that the references are named after, or in `only`."""

    def __init__(self, voices, vocoder, only=None):
        self.voices = {voice.name: voice for voice in voices}
        self.vocoder, self.only = vocoder, only

    def speak(self, texts, *, references, language):
        name = self.only or next(n for n in self.voices if n in references[0].name)
        return [benchmark.original(text, self.voices[name]) for text in texts]


@pytest.fixture(scope="module")
def four_voices(corpus):
    trained, unseen = many_voices.trained_voices()[:2], many_voices.unseen_voices()[:2]
    references: dict[str, list] = {}
    for path in sorted(corpus.folder.glob("*/wavs/*.wav")):
        references.setdefault("_".join(path.stem.split("_")[-2:]), []).append(path)
    return benchmark.Test(
        {benchmark.TRAINED: list(trained), benchmark.UNSEEN: list(unseen)},
        {voice.name: references[voice.name][:2] for voice in trained + unseen},
        ["Alice borrows twelve dark bottles."],
        ["Kevin holds forty sweet lemons."],
    )


def test_the_original_voices_match_and_one_voice_for_all_does_not(four_voices, capsys):
    judges = {"pitch and spectrum": benchmark.make_judges()["pitch and spectrum"]}
    everyone, vocoder = four_voices.everyone, GriffinLim(iterations=4)
    recogniser = intelligibility.make_recogniser()
    only = everyone[0].name
    good, bad = (
        benchmark.measure(parrot, four_voices, judges, recogniser)["pitch and spectrum"]
        for parrot in (Parrot(everyone, vocoder), Parrot(everyone, vocoder, only))
    )
    for kind in (benchmark.TRAINED, benchmark.UNSEEN):
        assert good.values[kind, benchmark.MATCH] == 1
        assert good.values[kind, benchmark.COPY] == 1
        assert good.values[kind, benchmark.PITCH] == 0
    assert bad.values[benchmark.UNSEEN, benchmark.MATCH] == 0
    assert not benchmark.print_tables(four_voices, {"pitch and spectrum": bad})
    said = capsys.readouterr().out
    assert "MISSED unseen voices, synthesis: 0.000, and the bar is >= 0.75" in said
    assert f"1 of 1 nearer to {only}" in said
