"""The studio without a browser: its folder, its processes, its plan, and what its page says."""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra `studio`)")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from myxtts import studio
from myxtts.errors import ConfigError, MyXTTSError
from myxtts.messages import Message
from myxtts.pages import data_words, page, studio_words, words
from myxtts.pages.studio import SPOKEN_BY_SCRIPTS, studio_page
from myxtts.runs.lock import FolderLock
from myxtts.studio.desk import TRAIN, VOICE_NAMES
from myxtts.studio.hearing import FINDINGS_FILE, OF_A_CLIP
from myxtts.studio.jobs import Jobs, trainer_in
from myxtts.studio.plan import plan_training
from myxtts.studio.project import Project, write_whole
from myxtts.studio.waveforms import COLUMNS, outline
from myxtts.text.languages import LANGUAGES
from tests.studios import make_desk, visit, wave_bytes
from tests.told_runs import event, half_a_run, started, write_events

TEXTS = ("One two.", "", "Three four.")


@pytest.fixture
def desk(tmp_path):
    found = make_desk(tmp_path / "studio", texts=TEXTS)
    yield found
    found.close()


@pytest.fixture
def client(desk):
    return visit(desk)


def part(client, name, **query):
    return client.get("/parts", params=query).json()[name]["html"]


# -- the folder --


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ConfigError, match="holds files"):
        Project(tmp_path).open()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(ConfigError, match="is a file"):
        Project(tmp_path / "mine").open()


def test_a_recording_is_put_here_heard_and_removed(client, desk):
    sent = client.post("/recordings", params={"name": "a talk.wav"}, content=wave_bytes(2.5))
    assert sent.json() == {"seconds": 2.5}
    assert client.post(
        "/recordings", params={"name": "a talk.txt"}, content=b"What it says."
    ).is_success
    assert client.get("/recording/a talk.wav").content == wave_bytes(2.5)
    head = client.get("/recording/a talk.wav", headers={"Range": "bytes=0-3"})
    assert (head.status_code, head.content) == (206, b"RIFF")  # players jump
    shown = part(client, "recordings")
    assert "a talk.wav" in shown
    assert "What it says." in shown
    assert client.post("/do/remove", json={"name": "a talk.wav"}).is_success
    assert not list(desk.project.recordings.glob("a talk*"))


def test_a_sentence_of_the_script_is_read(client, desk):
    sentences = client.get("/script").json()
    assert len(sentences) > 50
    assert not any(each["done"] for each in sentences)
    assert client.post("/takes", params={"sentence": "2"}, content=wave_bytes()).is_success
    assert (desk.project.recordings / "read-en-0002.txt").read_text().strip() == sentences[1][
        "text"
    ]
    assert [each["done"] for each in client.get("/script").json()[:3]] == [False, True, False]
    for odd in ("0", "99999", "-1", "x", ""):
        assert client.post("/takes", params={"sentence": odd}, content=b"").status_code == 400


# -- clips --


def test_clips_are_shown_with_what_is_wrong_with_them(client, desk):
    shown = part(client, "clips")
    assert shown.count('class="wave"') == 3
    assert "empty text" in shown
    assert "One two." in shown
    assert "One two." not in part(client, "clips", show="look")
    row = desk.clips.read().shown("look")[0]
    assert client.get(f"/clip/{row.key}").content[:4] == b"RIFF"  # or nobody could write it down


def test_a_text_is_corrected_and_a_clip_left_out_and_taken_in(client, desk):
    keys = [row.key for row in desk.clips.read().rows]
    assert client.post(
        "/do/write", json={"key": keys[1], "text": " Now\n it says this. "}
    ).is_success
    assert desk.clips.read().rows[1].clip.text == "Now it says this."
    assert desk.clips.read().rows[1].state == "good"
    assert client.post("/do/drop", json={"key": keys[0]}).is_success
    assert client.post("/do/drop", json={"key": keys[0]}).is_success  # from a second window
    assert [row.state for row in desk.clips.read().rows] == ["dropped", "good", "good"]
    assert [row.key for row in desk.clips.read().usable] == keys[1:]
    assert client.post("/do/keep", json={"key": keys[0]}).is_success
    assert [row.state for row in desk.clips.read().rows] == ["good", "good", "good"]
    assert client.post("/do/write", json={"key": "gone", "text": "x"}).status_code == 400


def test_what_was_heard_is_told_until_the_text_is_corrected(client, desk):
    wrong = {"what": "wrong text", "english": "{} clips say it.", "values": ["1"], "say": []}
    wrong |= {"clips": ["wavs/000.wav"], "remedy": "listen to them"}
    found = {"findings": [wrong], "texts": {"wavs/000.wav": TEXTS[0]}}
    write_whole(desk.project.own / FINDINGS_FILE, json.dumps(found).encode())
    assert "1 clips say it." in part(client, "hearing")
    assert [row.state for row in desk.clips.read().rows] == ["look", "look", "good"]
    assert "It may say something else" in part(client, "clips", show="look")
    key = desk.clips.read().rows[0].key
    assert client.post("/do/write", json={"key": key, "text": "Now it is right."}).is_success
    assert [row.state for row in desk.clips.read().rows] == ["good", "look", "good"]
    write_whole(desk.project.own / FINDINGS_FILE, b'{"findings": [{}, 7]}')
    assert desk.clips.read().findings == []


def test_the_command_line_corrects_the_same(run_command, desk):
    folder = desk.project.data
    assert run_command("data", "correct", folder, "wavs/000.wav", "--text", "Typed.")[0] == 0
    assert run_command("data", "correct", folder, "wavs/002.wav", "--drop")[0] == 0
    rows = desk.clips.read().rows
    assert rows[0].clip.text == "Typed."
    assert rows[2].dropped
    assert run_command("data", "correct", folder, "wavs/002.wav", "--keep")[0] == 0
    assert not desk.clips.read().rows[2].dropped
    code, _, said = run_command("data", "correct", folder, "wavs/002.wav", "--keep", "--drop")
    assert code == 2
    assert "try: one of" in said


def test_a_waveform_is_drawn_once_for_a_file(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(wave_bytes())
    assert outline(path).count("M") == COLUMNS
    assert outline(path) is outline(path)
    path.write_bytes(b"no sound")
    assert outline(path).count("M") == 1
    assert outline(tmp_path / "gone.wav").count("M") == 1


# -- processes --


@pytest.fixture
def jobs(tmp_path):
    found = Jobs(tmp_path)
    yield found
    found.stop("one")


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_process_is_followed_to_its_end(jobs, tmp_path):
    assert jobs.look("one").state == "none"
    jobs.start("one", ["-c", "print('so far so good'); raise SystemExit(3)"], cwd=tmp_path)
    wait_for(lambda: jobs.look("one").state == "failed")
    assert jobs.look("one").said == "so far so good"
    wait_for(lambda: Jobs(tmp_path).look("one").state == "failed")
    jobs.start("one", ["-c", ""], cwd=tmp_path)
    wait_for(lambda: jobs.look("one").state == "done")


def test_a_process_outlives_the_server_and_is_found_and_stopped_by_the_next(jobs, tmp_path):
    jobs.start("one", ["-c", "import time; time.sleep(60)"], cwd=tmp_path)
    with pytest.raises(MyXTTSError, match="already"):
        jobs.start("one", ["-c", ""], cwd=tmp_path)
    assert os.getsid(jobs.look("one").pid) != os.getsid(0)  # no Ctrl-C reaches it
    other = Jobs(tmp_path)
    assert other.look("one").state == "running"
    assert other.stop("one")
    wait_for(lambda: jobs.look("one").state == "stopped")
    wait_for(lambda: other.look("one").state == "stopped")
    assert not other.stop("one")


def test_a_number_that_is_anothers_by_now_is_not_stopped(jobs, tmp_path):
    own = f'{{"pid": {os.getpid()}, "created": 1.0, "exit": null}}'
    (tmp_path / "one.json").write_text(own)
    assert jobs.look("one").state == "failed"
    assert not jobs.stop("one")
    (tmp_path / "one.json").write_text('{"pid": "x"}')
    assert jobs.look("one").state == "none"


def test_a_training_that_a_terminal_started_is_found_by_its_lock(jobs, tmp_path):
    run = tmp_path / "run"
    hold = "import sys, time; from pathlib import Path; from myxtts.runs.lock import FolderLock\n"
    hold += "lock = FolderLock(Path(sys.argv[1])); lock.take()\n"
    hold += "print('held', flush=True)\n"
    hold += "time.sleep(60)"
    jobs.start("one", ["-c", hold, str(run)], cwd=Path(studio.__file__).parents[2])
    wait_for(lambda: "held" in jobs.look("one").said)
    assert trainer_in(run) == jobs.look("one").pid
    assert Jobs(tmp_path / "elsewhere").stop(TRAIN, run=run)
    wait_for(lambda: jobs.look("one").state == "stopped")
    assert trainer_in(run) is None


def test_a_lock_left_behind_is_no_training(tmp_path):
    lock = FolderLock(tmp_path)
    lock.take()
    lock.release()
    assert trainer_in(tmp_path) is None  # it is ourselves who wrote it, and nobody holds it
    assert trainer_in(tmp_path / "none") is None


def test_training_is_the_command_that_the_page_shows(client, desk, monkeypatch):
    asked = []
    monkeypatch.setattr(Jobs, "start", lambda self, name, words, cwd: asked.append((name, words)))
    form = {"steps": "30", "start": "base", "sample_text": "Hello  you.\n", "anew": True}
    assert client.post("/do/train", json=form).is_success
    ((name, words),) = asked
    assert name == TRAIN
    assert words[:3] == ["-m", "myxtts", "train"]
    assert words[words.index("--max-steps") + 1] == "30"
    assert words[words.index("--init-from") + 1] == "base"
    assert words[words.index("--sample-text") + 1] == "Hello you."
    assert "--reset-training" not in words  # there is nothing to keep aside
    assert "myxtts train --train-data" in part(client, "train")
    (desk.project.run / "checkpoints" / "step_00000050").mkdir(parents=True)
    assert client.post("/do/train", json=form).is_success
    assert asked[-1][1][-1] == "--reset-training"
    assert client.post("/do/train", json=form | {"anew": False}).is_success
    run = str(desk.project.run)
    goes_on = ["train", "--resume", "--checkpoint-dir", run, "--max-steps", "30"]
    assert asked[-1][1][2:] == goes_on
    told = [started(host="elsewhere"), *half_a_run()[1:], event("ended", error="")]
    write_events(desk.project.run, told)
    assert desk.follow()[1].status in ("finished", "ended early")
    desk.project.data.joinpath("metadata.jsonl").unlink()
    assert client.post("/do/train", json=form).json()["problem"] == "There is no clip to train on."


def test_stop_is_a_signal_to_the_trainer(client, desk, monkeypatch):
    assert client.post("/do/stop").status_code == 400
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    desk.jobs.start(TRAIN, ["-c", "import time; time.sleep(60)"], cwd=desk.project.path)
    try:
        assert 'data-action="stop"' in part(client, "train")
        assert client.post("/do/stop").is_success
        assert sent == [signal.SIGTERM]
        assert client.post("/do/train", json={"start": ""}).status_code == 400  # one at a time
    finally:
        desk.jobs._started[TRAIN].terminate()


def test_a_run_is_followed_and_so_is_the_one_begun_anew(client, desk):
    assert "as soon as it trains" in part(client, "listen")
    told = [started(host="elsewhere", run="my voice"), *half_a_run()[1:]]
    write_events(desk.project.run, told)
    assert "Step 50 of 100" in part(client, "listen")
    desk.project.run.rename(desk.project.path / "old")
    assert "as soon as it trains" in part(client, "listen")
    write_events(desk.project.run, told[:2])
    assert "Step 50 of 100" not in part(client, "listen")


# -- speaking and exporting --


def test_what_cannot_be_said_is_refused_before_anything_starts(client, desk):
    form = {"text": "Hello.", "voice": "base", "reference": "", "speed": "1", "pitch": "0"}
    for odd in (
        {"text": " "},
        {"text": "x" * 6000},
        {"voice": "run"},
        {"voice": "../../etc"},
        {"speed": "9"},
        {"pitch": "nan"},
        {"speed": "fast"},
        {"reference": "gone"},
    ):
        assert client.post("/do/say", json=form | odd).status_code == 400, odd
    assert not desk.speaker.is_busy
    assert client.post("/do/export").status_code == 400
    assert desk.voices() == [("base", "base")]


# -- what it says --


@pytest.mark.parametrize(
    ("minutes", "gpu", "rate", "says"),
    [
        (1.0, False, None, "About 2 to 5 minutes"),
        (20.0, False, None, "minutes on this CPU: an estimate"),
        (20.0, True, None, "no run was measured"),
        (20.0, True, 10.0, "4 minutes by the rate of the last run"),
    ],
)
def test_a_plan_says_how_long_and_how_sure_it_is(minutes, gpu, rate, says):
    plan = plan_training(
        minutes=minutes, mean_seconds=3.0, steps=None, cores=2, has_gpu=gpu, measured_rate=rate
    )
    assert says in str(plan.time)
    assert plan.has_recipe


def test_a_plan_for_more_than_an_hour_has_no_recipe_and_knows_no_time_before():
    hours = {"minutes": 61, "mean_seconds": 3.0, "cores": 2, "has_gpu": False}
    plan = plan_training(steps=None, **hours)
    assert not plan.has_recipe
    assert "is not known before" in str(plan.time)
    plan = plan_training(steps=600, measured_rate=2.0, **hours)
    assert plan.steps == 600
    assert "6 minutes by the rate of the last run" in str(plan.time)


def test_only_what_changed_is_sent_again(client):
    first = client.get("/parts").json()
    known = [f"{name}:{found['mark']}" for name, found in first.items()]
    assert set(client.get("/parts", params={"known": known}).json()) <= {"machine"}  # free memory
    assert client.post("/do/language", json={"language": "fa"}).is_success
    assert "importing" in client.get("/parts", params={"known": known}).json()
    assert client.post("/do/language", json={"language": "xx"}).status_code == 400


def test_every_word_the_studio_says_has_its_persian():
    known = {key for room in (page, words, data_words, studio_words) for key in room.PERSIAN}
    said = {
        *SPOKEN_BY_SCRIPTS.values(),
        *LANGUAGES.values(),
        *VOICE_NAMES.values(),
        *OF_A_CLIP.values(),
    }
    for path in Path(studio.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "id", "")
            texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
            if name in ("Message", "Step"):
                said |= set(texts[:1] if name == "Message" else texts[1:2])
    assert len(said) > 60
    assert said - {"", "{}"} <= known


def test_refusals_are_said_in_the_pages_language(client):
    zipped = client.post("/recordings", params={"name": "a.zip", "lang": "fa"}, content=b"PK")
    assert zipped.json()["problem"] == "فایل فشرده پذیرفته نمی‌شود."
    long = client.post("/recordings", params={"name": "x" * 200, "lang": "fa"}, content=b"")
    assert "۱۲۰" in long.json()["remedy"]
    assert studio_page("fa").tell(Message("{} minutes", ("3",))) == "۳ دقیقه"


def test_the_command_says_what_is_missing(run_command, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, said = run_command("studio", tmp_path / "new")
    assert code == 2
    assert "myxtts[studio]" in said
    assert not (tmp_path / "new").exists()
