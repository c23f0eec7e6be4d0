"""`myxtts data import`: what people have is recognised, listed whole, and never changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from myxtts.data.clips import check_clips
from myxtts.data.manifests import read_manifest
from myxtts.errors import DataError
from myxtts.recordings.folder import change_text, drop_clip, read_clips
from myxtts.recordings.importer import import_recordings
from tests.layouts import LAYOUTS, WORDS, common_voice, hum, ljspeech, piper, vctk


def digest(folder):
    """Of every file below a folder, and when it was last written."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        (str(path), path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in files
    ]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_corpus_is_recognised_and_comes_out_as_a_data_folder(tmp_path, out, kind):
    source = LAYOUTS[kind](tmp_path / "source")
    before = digest(source)
    report = import_recordings(source, out, language="en")
    assert report.kind == kind
    assert report.recognised_by
    assert digest(source) == before, "the originals are never touched"
    manifest = read_manifest(out)
    assert len(manifest) == report.clips == report.new_clips > 0
    verdicts = check_clips(manifest, max_seconds=12.0)
    assert all(verdict.kept for verdict in verdicts), "what was imported can be trained on"
    for clip in read_clips(out):
        assert (source / clip.origin.file).exists() or kind in ("ljspeech", "piper")
        assert clip.text
        assert clip.seconds == pytest.approx(0.8, abs=0.1)
        assert not clip.audio.startswith("wavs/"), "what needs no cutting is linked, not copied"
    assert json.loads((out / "source.json").read_text())["sources"][0]["kind"] == kind


def test_common_voice_keeps_its_speakers_and_what_listeners_voted_down_is_left_out(tmp_path, out):
    report = import_recordings(common_voice(tmp_path / "cv"), out, language="en")
    assert [clip.speaker for clip in read_clips(out)] == ["ab" * 32, "ab" * 32, "cd" * 32]
    assert read_clips(out)[0].text == 'The "one" of them.'
    (refused,) = report.refused
    assert "common_voice_en_103" in refused.file
    assert "listeners" in refused.reason
    assert "CC0" in (out / "source.json").read_text()


def test_vctk_takes_one_microphone_and_names_what_is_missing(tmp_path, out):
    report = import_recordings(vctk(tmp_path / "vctk"), out, language="en")
    clips = read_clips(out)
    assert len(clips) == 4
    assert all("mic1" in clip.audio for clip in clips)
    assert {clip.speaker for clip in clips} == {"p225", "p226"}
    assert [refused.reason for refused in report.refused] == ["missing"]


def test_libritts_reads_the_normalised_text_and_piper_its_speakers(tmp_path, out):
    import_recordings(LAYOUTS["libritts"](tmp_path / "libri"), out, language="en")
    import_recordings(piper(tmp_path / "piper"), out, language="en")
    clips = read_clips(out)
    assert [(clip.text, clip.speaker) for clip in clips[:2]] == [
        ("He had two.", "174"),
        ("He had two.", "84"),
    ]
    assert {clip.speaker for clip in clips[2:]} == {"amy", "joe"}
    assert {clip.origin.source for clip in clips} == {1, 2}, "one folder may have several sources"
    assert all(verdict.kept for verdict in check_clips(read_manifest(out), max_seconds=12.0))


def test_another_kind_can_be_asked_for_and_an_unknown_one_is_refused(tmp_path, out):
    source = ljspeech(tmp_path / "lj")
    report = import_recordings(source, out, kind="recordings", language="en")
    assert (report.kind, report.recognised_by, report.without_text) == (
        "recordings",
        "asked for",
        4,
    )
    with pytest.raises(DataError, match="common-voice"):
        import_recordings(source, out, kind="mp3", language="en")


def test_running_again_imports_what_is_new_and_keeps_what_people_changed(tmp_path, out):
    source = ljspeech(tmp_path / "lj")
    import_recordings(source, out, language="en")
    first, second = read_clips(out)[:2]
    change_text(out, first.audio, "Corrected  by\nhand.")
    drop_clip(out, second.audio)
    hum(source / "wavs" / "LJ001-0009.wav")
    with (source / "metadata.csv").open("a") as file:
        file.write("LJ001-0009|It is nine.|It is nine.\n")
    report = import_recordings(source, out, language="en")
    assert (report.unchanged, report.new_clips, report.clips) == (4, 1, 4)
    assert read_clips(out)[0] == replace(first, text="Corrected by hand.")
    assert second.audio not in {clip.audio for clip in read_clips(out)}


def test_a_recording_that_changed_is_imported_anew(tmp_path, out):
    source = ljspeech(tmp_path / "lj")
    import_recordings(source, out, language="en")
    hum(source / "wavs" / "LJ001-0002.wav", seconds=2.0)
    report = import_recordings(source, out, language="en")
    assert (report.unchanged, report.new_clips, report.clips) == (3, 1, 4)
    assert read_clips(out)[2].seconds == pytest.approx(2.0, abs=0.01)


def test_an_import_that_is_stopped_goes_on_where_it_was(tmp_path, out):
    source = ljspeech(tmp_path / "lj")

    def stop(state):
        if state.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_recordings(source, out, language="en", progress=stop)
    assert len(read_clips(out)) == 2
    states = []
    report = import_recordings(source, out, language="en", progress=states.append)
    assert (report.unchanged, report.new_clips, report.clips) == (2, 2, 4)
    assert states[-1].share == 1.0
    assert states[-1].eta == 0.0


def test_a_killed_import_loses_nothing_that_was_noted(tmp_path, out, monkeypatch):
    from myxtts.recordings import ledger

    source = ljspeech(tmp_path / "lj")
    monkeypatch.setattr(ledger.Ledger, "publish", lambda self: [])  # a kill: the end never comes
    import_recordings(source, out, language="en")
    monkeypatch.undo()
    with (out / ".myxtts" / "importing.jsonl").open("a") as journal:
        journal.write('{"key": "1:cut off')
    report = import_recordings(source, out, language="en")
    assert (report.unchanged, report.clips) == (4, 4)


def test_two_imports_into_one_folder_and_one_into_itself_are_refused(tmp_path, out):
    source = ljspeech(tmp_path / "lj")

    def again(state):
        with pytest.raises(DataError, match="Another import"):
            import_recordings(source, out, language="en")

    import_recordings(source, out, language="en", progress=again)
    with pytest.raises(DataError, match="inside"):
        import_recordings(source, source / "out", language="en")


def test_names_that_lead_outside_and_files_that_are_no_audio_are_refused_with_a_remedy(
    tmp_path, out
):
    hum(tmp_path / "secret.wav")
    source = ljspeech(tmp_path / "lj")
    (source / "wavs" / "LJ001-0003.wav").write_bytes(b"RIFFnothing")
    with (source / "metadata.csv").open("a") as file:
        file.write("../secret|Not ours.|Not ours.\n")
    report = import_recordings(source, out, language="en")
    assert report.clips == 3
    reasons = {refused.file: refused for refused in report.refused}
    assert reasons["../secret"].reason == "outside the data folder"
    assert "convert" in reasons["LJ001-0003"].remedy


def test_copies_and_odd_formats_are_files_of_our_own(tmp_path, out):
    hum(tmp_path / "in" / "a.wav")
    hum(tmp_path / "in" / "b.aiff")
    (tmp_path / "in" / "c.m4a").write_bytes(b"phone")
    report = import_recordings(tmp_path / "in", out, language="fa", copy=True, licence="mine")
    assert sorted(clip.audio.rpartition(".")[2] for clip in read_clips(out)) == ["wav", "wav"]
    assert all((out / clip.audio).is_file() for clip in read_clips(out))
    assert not (out / "originals").exists()
    assert "ffmpeg" in report.refused[0].remedy
    assert json.loads((out / "source.json").read_text())["sources"][0]["licence"] == "mine"


def test_the_command_says_what_it_recognised_and_what_to_do_next(tmp_path, out, run_command):
    source = LAYOUTS["coqui"](tmp_path / "my clips")
    code, said, _ = run_command("data", "import", source, out)
    assert code == 0
    assert b"is read as coqui: metadata_train.csv has a header" in said
    assert b"3 new clips" in said
    assert b"data check" in said
    code, said, error = run_command("data", "import", tmp_path / "none", out)
    assert code == 2
    assert "does not exist" in error


def test_clips_without_a_text_are_listed_to_be_written(tmp_path, out, run_command):
    hum(tmp_path / "in" / "anna" / "a.wav")
    code, said, _ = run_command("data", "import", tmp_path / "in", out)
    assert code == 1
    assert b"1 clips have no text yet" in said
    (clip,) = read_clips(out)
    assert (clip.text, clip.speaker) == ("", "anna")
    change_text(out, clip.audio, WORDS[0])
    assert [v.kept for v in check_clips(read_manifest(out), max_seconds=12.0)] == [True]
    with pytest.raises(DataError, match="lists no clip"):
        drop_clip(out, "nothing.wav")
