"""The corpus of the base voice: what is said, by whom, and what is kept for judging."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import soundfile

from myxtts.corpora import base_texts, base_voice
from myxtts.corpora.demo import write_list
from myxtts.data.manifests import read_manifest
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.text import espeak
from myxtts.text.languages import LANGUAGES

needs_espeak = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")


def people(folder, speakers=("s1", "s2"), text="one two zero"):
    (folder / "wavs").mkdir(parents=True)
    rows = ["audio_file|text|speaker_name|language"]
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    for speaker in speakers:
        for number in range(2):
            wave = np.pad(0.3 * np.sin(2 * np.pi * 150 * time), 4000)
            name = f"wavs/{speaker.replace('/', '-')}_{number}.flac"
            soundfile.write(folder / name, wave, SAMPLE_RATE)
            rows.append(f"{name}|{text}|{speaker}|en")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def test_every_language_has_sentences_of_its_own():
    for language in LANGUAGES:
        sentences = base_texts.sentences_of(language)
        assert len(sentences) == len(set(sentences)) >= 24
    assert len(base_texts.sentences_of("fa")) >= 100


def test_texts_repeat_with_their_seed_and_never_say_a_held_out_word():
    drawn = [
        [source.draw(tag) for tag in (*LANGUAGES, *["en"] * 200)]
        for source in (base_texts.TextSource(seed=seed) for seed in (0, 0, 1))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert not any(base_texts.says_held_out_word(text) for text in drawn[0])
    assert base_texts.says_held_out_word("Some purple ships.")


def test_phrases_are_plain_words_without_the_held_out_ones(tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text(
        "a1|x|The old ship left the harbour, slowly and without a sound.\n"
        "a2|x|He saw 12 golden trees there.\na3|x|Too short.\n",
        encoding="utf-8",
    )
    assert set(base_texts.read_phrases(texts)) == {
        "The old ship left the harbour.",
        "Slowly and without a sound.",
    }
    texts.write_text("a|b|no\n", encoding="utf-8")
    with pytest.raises(DataError, match="no English phrase"):
        base_texts.read_phrases(texts)


@needs_espeak
def test_a_corpus_holds_the_crowd_and_the_people_but_not_those_left_out(tmp_path):
    recordings = [
        base_voice.Recordings(people(tmp_path / "digits"), words=True, leave_out=frozenset({"s2"})),
    ]
    facts = base_voice.make_base_corpus(tmp_path / "base", recordings=recordings, voices=2)
    listed = read_manifest(tmp_path / "base")
    assert {"s1", "s1_up", "s1_down"} <= set(listed.speakers)
    assert not any(name.startswith("s2") for name in listed.speakers)
    assert facts["sources"]["digits"] == {
        "clips": 4,
        "minutes": pytest.approx(0.1, abs=0.05),
        "speakers": 3,
        "played": 2,
        "languages": ["en"],
    }
    texts = {clip.text for clip in listed if clip.speaker == "s1"}
    assert texts == {"one, two, zero."}  # what is heard between single words is a pause
    languages = Counter(c.language for c in listed if c.speaker == listed.speakers[0])
    assert (languages["en"], languages["fa"], len(languages)) == (5, 4, 6)
    again = base_voice.make_base_corpus(tmp_path / "base", recordings=recordings, voices=2)
    assert again == json.loads((tmp_path / "base" / base_voice.FACTS_FILE).read_text())
    with pytest.raises(DataError, match="other settings"):
        base_voice.make_base_corpus(tmp_path / "base", recordings=recordings, voices=4)


def test_whoever_is_to_be_left_out_must_be_there_and_folders_are_told_apart(tmp_path):
    digits = people(tmp_path / "digits")
    out = frozenset({"s2", "s3"})
    one = base_voice.Recordings(digits, words=True, leave_out=out)
    with pytest.raises(DataError, match=r"speakers to leave out: s3\."):
        base_voice.make_base_corpus(tmp_path / "base", recordings=[one], voices=2)
    folders = (digits, people(tmp_path / "b" / "digits"))
    both = [base_voice.Recordings(each, words=True) for each in folders]
    with pytest.raises(DataError, match="are called digits"):
        base_voice.make_base_corpus(tmp_path / "base", recordings=both, voices=2)


@needs_espeak
def test_names_and_texts_come_through_whatever_is_in_them(tmp_path):
    folder = people(tmp_path / "talks", ("a/b",), text='He said "yes" there')
    base_voice.make_base_corpus(
        tmp_path / "base", recordings=[base_voice.Recordings(folder)], voices=2
    )
    own = [clip for clip in read_manifest(tmp_path / "base") if clip.speaker == "a/b"]
    assert {clip.text for clip in own} == {'He said "yes" there'}
    assert all((tmp_path / "base" / clip.audio).is_file() for clip in own)


def test_what_would_end_a_field_of_a_list_becomes_a_space(tmp_path):
    people(tmp_path)
    write_list(tmp_path / "metadata.csv", [("wavs/s1_0.flac", 'one | "two"\r\nthree', "a|b", "en")])
    (clip,) = read_manifest(tmp_path)
    assert (" ".join(clip.text.split()), clip.speaker) == ('one "two" three', "a b")


@needs_espeak
def test_a_copy_of_a_person_is_faster_or_slower_and_a_level_of_its_own(tmp_path):
    recordings = [base_voice.Recordings(people(tmp_path / "d", ("s1",)), words=True)]
    base_voice.make_base_corpus(tmp_path / "base", recordings=recordings, voices=2)
    found = {
        clip.speaker: soundfile.read(tmp_path / "base" / clip.audio)[0]
        for clip in read_manifest(tmp_path / "base")
        if clip.speaker.startswith("s1")
    }
    lengths = {name: len(wave) for name, wave in found.items()}
    assert lengths["s1_up"] < lengths["s1"] < lengths["s1_down"]
    assert lengths["s1"] < SAMPLE_RATE * 1.2  # the silence at its ends is gone
    levels = [float(np.sqrt(np.mean(wave**2))) for wave in found.values()]
    assert len({round(level, 4) for level in levels}) == 3
