"""What `data check` finds wrong with recordings and their texts, each with a remedy."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from myxtts.data.clips import check_clips
from myxtts.data.manifests import Manifest, read_manifest
from myxtts.data.verdicts import Verdict
from myxtts.features.audio import SAMPLE_RATE
from myxtts.recordings.audio import levels
from myxtts.recordings.audit import REMEDIES, audit_list
from myxtts.recordings.listening import decay_time
from myxtts.recordings.sound_audit import separation, several_people
from myxtts.text.function_words import foreign_language


def listed(texts, *, speakers=None, language="en"):
    manifest = Manifest(None)
    for i, text in enumerate(texts):
        manifest.audio.append(f"c{i}")
        manifest.texts.append(text)
        manifest.speakers.append(speakers[i] if speakers else "s")
        manifest.languages.append(language)
    return manifest


def findings(manifest, *, minutes=None, **facts):
    verdicts = [Verdict(seconds=3.0, snr_db=60.0, **facts) for _ in manifest.audio]
    return {f.what: f for f in audit_list(manifest, verdicts, minutes or {"s": 9.0})}


def test_rare_sounds_come_with_sentences_that_hold_them():
    found = findings(listed(["The cat sat on the mat."] * 30, speakers=[*map(str, range(30))]))
    sounds = found["sounds"]
    assert "ʒ (0)" in str(sounds.detail)
    assert len(sounds.say) >= 3
    assert "data script" in sounds.remedy
    from myxtts.recordings.sounds import count_sounds, needed_sounds

    missing = set(needed_sounds("en")) - set(count_sounds(["The cat sat on the mat."], "en"))
    assert missing & set(count_sounds(sounds.say, "en"))


def test_texts_in_another_language_are_named():
    texts = [
        "Das ist nicht die Frau, die ich mit dem Hund sah.",
        "سلام بر شما",
        "It is a good day.",
    ]
    found = audit_list(listed(texts), [Verdict(seconds=3.0, snr_db=60.0)] * 3, {"s": 9.0})
    said = {str(f.detail): f.clips for f in found if f.what == "language"}
    assert said == {
        "1 texts are listed as English and look like German.": ("c0",),
        "1 texts are listed as English and look like Persian.": ("c1",),
    }


@pytest.mark.parametrize(
    ("text", "language", "other"),
    [
        ("The cat and the dog were in the garden.", "de", "en"),
        ("Le chat et le chien sont dans la maison.", "fr", None),
        ("El perro de la casa no es muy grande.", "en", "es"),
        ("John Peter Smith.", "de", None),
        ("هوا خوب است.", "fa", None),
    ],
)
def test_little_words_tell_the_language(text, language, other):
    assert foreign_language(text, language) == other


def test_repetitions_clipping_noise_and_few_minutes_are_found():
    manifest = listed(["Say it.", "say it", "Say it."], speakers=["a", "a", "b"])
    verdicts = [Verdict(seconds=3.0, snr_db=12.0, clipped=0.01 * i) for i in range(3)]
    found = {f.what: f for f in audit_list(manifest, verdicts, {"a": 3.0, "b": 0.05})}
    assert found["repeated text"].clips == ("c1",), "another speaker may say the same"
    assert found["clipping"].clips == ("c1", "c2")
    assert "by 12 dB" in str(found["noise"].detail)
    assert "1 of 2 speakers" in str(found["minutes"].detail)
    assert all(f.remedy in REMEDIES.values() for f in found.values())


def test_good_data_gives_no_warning_but_for_its_sounds():
    assert set(findings(listed(["One good text.", "And another."]))) <= {"sounds"}


def test_the_noise_between_words_is_measured_while_the_clip_is_checked(tmp_path):
    random = np.random.default_rng(0)
    t = np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE
    speech = 0.3 * np.sin(2 * np.pi * 200 * t) * (np.sin(2 * np.pi * 1.5 * t) > -0.5)
    for name, noise in (("clean", 1e-4), ("noisy", 0.05)):
        soundfile.write(
            tmp_path / f"{name}.wav", speech + random.normal(0, noise, len(t)), SAMPLE_RATE
        )
    (tmp_path / "metadata.csv").write_text("clean|One.\nnoisy|Two.\n")
    clean, noisy = check_clips(read_manifest(tmp_path), max_seconds=12.0)
    assert clean.snr_db > 50
    assert 8 < noisy.snr_db < 20


def test_two_people_under_one_name_are_told_from_one():
    random = np.random.default_rng(0)
    one = random.normal(0, 1, [20, 17]).astype(np.float32)
    other = random.normal(0, 1, [20, 17]).astype(np.float32) + 8.0
    assert not several_people(one)
    assert several_people(np.concatenate([one, other]))
    assert separation(one[:3]) == 0.0, "too few to tell"


@pytest.mark.parametrize(("room_s", "low", "high"), [(0.15, 0.05, 0.3), (0.9, 0.6, 1.2)])
def test_echo_is_how_long_sound_takes_to_die_away(room_s, low, high):
    random = np.random.default_rng(0)
    bursts = np.zeros(6 * SAMPLE_RATE)
    for start in range(6):
        part = slice(start * SAMPLE_RATE, start * SAMPLE_RATE + SAMPLE_RATE // 4)
        bursts[part] = random.normal(0, 0.2, SAMPLE_RATE // 4)
    t = np.arange(int(1.5 * SAMPLE_RATE)) / SAMPLE_RATE
    room = random.normal(0, 1, len(t)) * 10 ** (-3 * t / room_s)
    size = len(bursts) + len(room)
    heard = np.fft.irfft(np.fft.rfft(bursts, size) * np.fft.rfft(room, size), size)
    wave = (heard / np.abs(heard).max() * 20_000).astype(np.int16)
    found = decay_time(levels(wave))
    assert found is not None
    assert low < found < high
