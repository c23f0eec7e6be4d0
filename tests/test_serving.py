"""The server as OpenAI's own client, curl and Prometheus meet it."""

from __future__ import annotations

import io
import json
import logging
import shutil
import struct
import subprocess
import urllib.error
import urllib.request
from functools import cache

import numpy as np
import openai
import pytest
import soundfile

from myxtts.errors import ConfigError, DataError
from myxtts.serving.catalog import Catalog
from myxtts.serving.settings import ServeSettings
from myxtts.text import espeak
from tests.small_runs import hum
from tests.small_voice import HELLO, running, small_voice

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voices")
    soundfile.write(folder / "anna.wav", hum(pitch=220.0), 22_050)
    (folder / "ben").mkdir()
    soundfile.write(folder / "ben" / "1.flac", hum(pitch=110.0), 22_050)
    soundfile.write(folder / "ben" / "2.flac", hum(pitch=115.0), 22_050)
    (folder / "notes.txt").write_text("no voice")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with running(Catalog({"tiny": small_voice()}, folder=folder)) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        yield client


@cache
def hello():
    return small_voice().say(HELLO, voice=small_voice().files.voices["default"])


def post(server, path="/v1/audio/speech", headers=None, **fields):
    request = urllib.request.Request(
        server.url + path,
        json.dumps(fields).encode(),
        {"content-type": "application/json", **(headers or {})},
    )
    return urllib.request.urlopen(request, timeout=30)


def refusal(server, path="/v1/audio/speech", **fields):
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(server, path, **fields)
    return refused.value.code, json.load(refused.value)["error"]["message"]


# -- OpenAI's client --


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "opus"])
def test_every_format_holds_the_speech(client, kind):
    answer = client.audio.speech.create(
        model="tiny", voice="default", input=HELLO, response_format=kind
    )
    wave, rate = soundfile.read(io.BytesIO(answer.content))
    expected = hello()
    assert len(wave) / rate == pytest.approx(len(expected) / 22_050, abs=0.1)
    if kind in ("wav", "flac"):
        np.testing.assert_allclose(wave, expected, atol=1e-4)


def test_raw_samples_have_the_rate_that_clients_expect(client):
    answer = client.audio.speech.create(
        model="tts-1", voice="default", input=HELLO, response_format="pcm"
    )
    expected = hello()
    assert len(answer.content) / 2 / 24_000 == pytest.approx(len(expected) / 22_050, abs=0.01)


def test_audio_comes_sentence_by_sentence(server, client):
    text = "One. Two three. Four five six."
    with client.audio.speech.with_streaming_response.create(
        model="tiny", voice="default", input=text, response_format="wav"
    ) as answer:
        parts = [len(part) for part in answer.iter_bytes()]
    assert len(parts) >= 3
    assert answer.headers["transfer-encoding"] == "chunked"


def test_speed_is_obeyed(client):
    sizes = [
        len(
            client.audio.speech.create(
                model="tiny", voice="default", input=HELLO, response_format="pcm", speed=speed
            ).content
        )
        for speed in (0.5, 2.0)
    ]
    assert sizes[0] > 1.8 * sizes[1]


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_what_is_wrong_is_an_error_of_the_client(client):
    with pytest.raises(openai.NotFoundError, match="no voice 'nobody'"):
        client.audio.speech.create(model="tiny", voice="nobody", input="Hi.")
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.audio.speech.create(model="other", voice="default", input="Hi.")
    with pytest.raises(openai.BadRequestError, match="speed"):
        client.audio.speech.create(model="tiny", voice="default", input="Hi.", speed=9)


# -- voices --


def test_each_recording_and_folder_is_a_voice(server, folder):
    with urllib.request.urlopen(f"{server.url}/v1/audio/voices") as answer:
        names = [voice["id"] for voice in json.load(answer)["voices"]]
    assert names == ["default", "anna", "ben"]
    heard = [server.studio.catalog.hear("tiny", name).log_pitch[0] for name in ("anna", "ben")]
    assert np.exp(heard) == pytest.approx([220, 112.5], abs=3)


def test_a_new_recording_is_a_voice_at_once_and_a_changed_one_is_heard_anew(server, folder):
    catalog = server.studio.catalog
    shutil.copy(folder / "anna.wav", folder / "carla.wav")
    first = catalog.hear("tiny", "carla")
    soundfile.write(folder / "carla.wav", hum(3.0, pitch=150.0), 22_050)
    assert not np.allclose(first.log_pitch, catalog.hear("tiny", "carla").log_pitch)
    (folder / "carla.wav").unlink()
    assert "carla" not in catalog.voices("tiny")


def test_a_server_without_any_voice_does_not_start(tmp_path):
    import dataclasses

    bare = small_voice()
    silent = type("Bare", (), {"files": dataclasses.replace(bare.files, voices={})})()
    with pytest.raises(DataError, match="no voice to speak in"):
        Catalog({"tiny": silent}, folder=tmp_path)


# -- what OpenAI's API does not have --


def test_times_come_with_audio_in_base64(server):
    found = json.load(post(server, "/v1/audio/speech/times", input=HELLO, response_format="wav"))
    assert [word["text"] for word in found["words"]] == "Hello there How are you".split()
    assert found["words"][-1]["end"] <= found["duration"]
    assert found["srt"].startswith("1\n00:00:00,")
    assert found["vtt"].startswith("WEBVTT")


def test_times_come_as_events_between_audio(server):
    answer = post(
        server, input=HELLO, stream_format="sse", times=True, response_format="pcm"
    ).read()
    events = [json.loads(line[6:]) for line in answer.decode().splitlines() if line[:6] == "data: "]
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["speech.audio.delta", "speech.audio.times"]
    assert kinds[-1] == "speech.audio.done"
    assert sum(len(event.get("words", ())) for event in events) == 5
    assert refusal(server, input=HELLO, times=True)[0] == 400


def test_a_whole_answer_has_its_length(server):
    answer = post(server, input=HELLO, stream=False, response_format="wav")
    body = answer.read()
    assert int(answer.headers["content-length"]) == len(body)
    assert struct.unpack("<I", body[40:44])[0] == len(body) - 44


def test_what_is_ignored_is_named(server):
    text = "<speak>Hello <emphasis>there</emphasis>.</speak>"
    answer = post(server, input=text, instructions="cheerfully", response_format="pcm")
    answer.read()
    assert answer.headers["x-myxtts-ignored"] == "instructions, <emphasis>"


def test_a_lexicon_and_a_language_of_the_request(server):
    plain, other, persian = (
        len(post(server, input=text, response_format="pcm", **fields).read())
        for text, fields in (
            ("Nguyen.", {}),
            ("Nguyen.", {"lexicon": {"Nguyen": "/wˈɪnwˈɪnwˈɪnwˈɪn/"}}),
            ("سلام دنیا", {}),  # told by its script
        )
    )
    assert other > plain
    assert persian > 0


def test_curl_hears_it_too(server, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    said = '{"model": "tiny", "input": "Hello there.", "voice": "anna", "response_format": "wav"}'
    json_type = "content-type: application/json"
    command = ["curl", "-sSf", f"{server.url}/v1/audio/speech", "-H", json_type]
    subprocess.run([*command, "-d", said, "-o", tmp_path / "a.wav"], check=True)
    assert soundfile.info(tmp_path / "a.wav").duration > 0.5


def test_health_and_metrics(server):
    post(server, input="Hello.", response_format="pcm").read()
    with urllib.request.urlopen(f"{server.url}/health") as answer:
        assert json.load(answer)["status"] == "ok"
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        page = answer.read().decode()
    assert 'myxtts_requests_total{outcome="done",protocol="http"}' in page
    assert "myxtts_first_audio_seconds_bucket" in page
    assert "myxtts_queue 0.0" in page


# -- who may ask --


def test_a_token_is_asked_for_when_there_is_one():
    with running(token="a secret of sixteen") as server:
        assert refusal(server, input="Hi.")[0] == 401
        good = {"authorization": "Bearer a secret of sixteen"}
        assert post(server, headers=good, input="Hi.", response_format="pcm").read()
        bad = {"authorization": "Bearer a secret of sixteeN"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(server, headers=bad, input="Hi.")
        assert urllib.request.urlopen(f"{server.url}/health").status == 200


def test_a_web_page_under_another_name_is_refused(server):
    with pytest.raises(urllib.error.HTTPError, match="403"):
        post(server, headers={"host": "evil.example"}, input="Hi.")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"host": "0.0.0.0"}, "anybody in the network"),
        ({"host": "example.org"}, "anybody in the network"),
        ({"token": "short"}, "5 characters"),
        ({"wyoming": "high"}, "cannot listen"),
    ],
)
def test_an_unsafe_or_senseless_server_does_not_start(settings, problem):
    with pytest.raises(ConfigError, match=problem):
        ServeSettings(**settings)
    assert ServeSettings(host="0.0.0.0", token="x" * 16).token == "x" * 16
    assert "x" * 16 not in repr(ServeSettings(token="x" * 16))


def test_texts_are_not_logged_unless_asked_for(caplog):
    caplog.set_level(logging.DEBUG)
    for log_texts in (False, True):
        with running(log_texts=log_texts) as server:
            post(server, input="A private matter.", response_format="pcm").read()
        assert ("private matter" in caplog.text) == log_texts


def test_the_command_says_what_is_missing(run_command, tmp_path):
    code, _, told = run_command("serve", tmp_path / "none", "--port", "0")
    assert code == 2
    assert "none is missing" in told
    code, _, told = run_command("serve", "base", "--host", "0.0.0.0")
    assert code == 2
    assert "--token" in told
