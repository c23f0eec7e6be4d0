"""Long recordings with plain texts or subtitles: each word is found where it is said."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from myxtts.corpora.demo import DEMO_VOICES, speak_clip
from myxtts.data.clips import check_clips
from myxtts.data.manifests import read_manifest
from myxtts.features.audio import SAMPLE_RATE
from myxtts.recordings.folder import read_clips
from myxtts.recordings.importer import import_recordings
from myxtts.text import espeak

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="needs espeak-ng")

SENTENCES = (
    "The weather was lovely this morning.",
    "Could you please pass me the sugar?",
    "She usually goes to work by train.",
    "My father bought a new car.",
    "They were singing along the river.",
    "What time does the library open?",
    "The thick fog hid the valley.",
)
PAUSE_S = 0.35


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Seven sentences in one file; where each begins and ends."""
    folder = tmp_path_factory.mktemp("spoken")
    random = np.random.default_rng(0)
    parts, spans, now = [], [], 0.0
    for sentence in SENTENCES:
        wave = speak_clip(sentence, DEMO_VOICES[0])
        loud = np.flatnonzero(np.abs(wave) > 300)
        wave = wave[loud[0] : loud[-1]]
        spans.append((now, now + len(wave) / SAMPLE_RATE))
        parts += [wave, np.zeros(int(PAUSE_S * SAMPLE_RATE), np.int16)]
        now = sum(map(len, parts)) / SAMPLE_RATE
    wave = np.concatenate(parts)
    wave = np.clip(wave + random.normal(0, 6, len(wave)), -32768, 32767).astype(np.int16)
    soundfile.write(folder / "talk.flac", wave, SAMPLE_RATE)
    return folder, spans


def check_times(clips, spans, *, within):
    """Every sentence is in the clip that holds its time, and no cut is inside of one."""
    assert [word for clip in clips for word in clip.text.split()] == " ".join(SENTENCES).split()
    words = 0
    for clip in clips:
        words += len(clip.text.split())
        counts = np.cumsum([len(sentence.split()) for sentence in SENTENCES])
        assert words in counts, "cut between sentences, where the pauses are"
        number = int(np.flatnonzero(counts == words)[0])
        ends = spans[number][1]
        starts = spans[number + 1][0] if number + 1 < len(spans) else ends + PAUSE_S
        assert ends - within <= clip.origin.end <= starts + within
        assert 1.5 <= clip.seconds <= 11.8


def test_a_plain_text_is_aligned_and_the_recording_cut_at_its_pauses(spoken, tmp_path):
    folder, spans = spoken
    text = " ".join(SENTENCES).replace("morning. Could", "morning.\n\n  Could")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "talk.flac").symlink_to(folder / "talk.flac")
    (tmp_path / "in" / "talk.txt").write_text(text, encoding="utf-8")
    report = import_recordings(tmp_path / "in", tmp_path / "out", language="en")
    assert (report.kind, report.refused) == ("texts", [])
    clips = read_clips(tmp_path / "out")
    assert len(clips) > 1
    check_times(clips, spans, within=0.1)
    verdicts = check_clips(read_manifest(tmp_path / "out"), max_seconds=11.9)
    assert all(verdict.kept for verdict in verdicts)


def test_subtitles_that_are_off_by_a_third_of_a_second_are_set_right(spoken, tmp_path):
    folder, spans = spoken
    lines = []
    for number, (sentence, (start, end)) in enumerate(zip(SENTENCES, spans, strict=True)):
        off = 0.3 if number % 2 else -0.2
        times = " --> ".join(f"00:00:{max(0.0, t + off):06.3f}" for t in (start, end))
        lines.append(f"{number}\n{times.replace('.', ',')}\n<i>{sentence}</i>\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "talk.flac").symlink_to(folder / "talk.flac")
    (tmp_path / "in" / "talk.en.srt").write_text("\n".join(lines), encoding="utf-8")
    report = import_recordings(tmp_path / "in", tmp_path / "out", language="en")
    assert (report.kind, report.refused) == ("subtitles", [])
    check_times(read_clips(tmp_path / "out"), spans, within=0.1)


def test_without_a_text_it_is_cut_at_pauses_alone(spoken, tmp_path):
    folder, spans = spoken
    report = import_recordings(folder / "talk.flac", tmp_path / "out", language="en")
    assert (report.kind, report.clips) == ("recordings", report.without_text)
    for clip in read_clips(tmp_path / "out"):
        assert all(not start + 0.1 < clip.origin.end < end - 0.1 for start, end in spans)


def test_a_text_of_something_else_is_refused_where_it_does_not_fit(spoken, tmp_path):
    folder, _ = spoken
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "talk.flac").symlink_to(folder / "talk.flac")
    (tmp_path / "in" / "talk.txt").write_text(" ".join(SENTENCES * 40), encoding="utf-8")
    report = import_recordings(tmp_path / "in", tmp_path / "out", language="en")
    assert report.clips == 0
    assert "does not fit" in report.refused[0].reason


def test_listening_finds_a_wrong_text_and_a_copy(tmp_path, run_command):
    from myxtts.recordings.sound_audit import audit_sound

    rows = []
    (tmp_path / "wavs").mkdir()
    for number, sentence in enumerate([*SENTENCES, SENTENCES[0]]):
        name = f"c{number}.{'flac' if number % 2 else 'wav'}"
        soundfile.write(tmp_path / "wavs" / name, speak_clip(sentence, DEMO_VOICES[0]), SAMPLE_RATE)
        said = "Nobody ever talked about cheese." if number == 3 else sentence
        rows.append(f"{name}|{said}\n")
    (tmp_path / "metadata.csv").write_text("".join(rows))
    manifest = read_manifest(tmp_path)
    found = audit_sound(manifest, check_clips(manifest, max_seconds=12.0))
    assert {f.what: f.clips for f in found} == {
        "wrong text": ("c3.flac",),
        "same audio": ("c7.flac",),
    }
