"""A server that is treated badly: it refuses in words, frees what it holds, and goes on."""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from myxtts.text import espeak
from myxtts.text.languages import LANGUAGES
from tests.small_voice import FIXTURE, running, small_voice
from tests.support import ROOT

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")

LONG = "This is a sentence that goes on for a while. " * 40


@pytest.fixture(scope="module")
def server():
    with running(max_queue=4) as server:
        yield server


def ask(server, body: bytes | dict, *, path="/v1/audio/speech", **headers) -> tuple[int, bytes]:
    raw = json.dumps(body).encode() if isinstance(body, dict) else body
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("POST", path, raw, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def speak_slowly(server, text: str = LONG) -> socket.socket:
    """Ask for much, and take no more of it than the first bytes."""
    taker = socket.socket()
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    taker.connect(("127.0.0.1", server.port))
    body = json.dumps({"input": text, "response_format": "wav"}).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    taker.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
    assert taker.recv(15) == b"HTTP/1.1 200 OK"
    return taker


def wait_until_free(server, seconds: float = 15.0) -> None:
    until = time.monotonic() + seconds
    while server.studio.scheduler.num_jobs and time.monotonic() < until:
        time.sleep(0.05)
    assert server.studio.scheduler.num_jobs == 0


def still_speaks(server) -> None:
    status, audio = ask(server, {"input": "Still here.", "response_format": "pcm"})
    assert status == 200
    assert len(audio) > 1000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"input": 5}',
        b'{"input": ""}',
        b'{"input": "...!?"}',
        b'{"input": "hi", "speed": NaN}',
        b'{"input": "hi", "speed": "fast"}',
        b'{"input": "hi", "speed": 1e400}',
        b'{"input": "hi", "seed": -1}',
        b'{"input": "hi", "seed": 99999999999999999999}',
        b'{"input": "hi", "voice": 7}',
        b'{"input": "hi", "language": "klingon"}',
        b'{"input": "hi", "lexicon": ["a"]}',
        b'{"input": "hi", "lexicon": {"": "/a/"}}',
        b'{"input": "hi", "response_format": "exe"}',
        b'{"input": "hi", "loudness": 100}',
        b'{"input": "<speak>unclosed"}',
    ],
)
def test_nonsense_is_refused_in_words(server, body):
    status, answer = ask(server, body)
    assert status == 400
    assert json.loads(answer)["error"]["message"]


def test_a_body_of_a_hundred_megabytes_is_refused_unread(server):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    giant = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    giant.sendall(
        b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: 104857600\r\n\r\n"
    )
    assert giant.recv(100).startswith(b"HTTP/1.1 413")
    giant.close()
    # Without a length it is counted as it comes.
    flood = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    flood.sendall(
        b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    try:
        for _ in range(100):
            flood.sendall(chunk)
    except OSError:
        pass  # it hung up, as it should
    flood.close()
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mb < 50
    still_speaks(server)


def test_a_text_that_is_too_long_is_refused(server):
    status, answer = ask(server, {"input": "word " * 10_000})
    assert status == 400
    assert b"50000 characters" in answer


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "default/../default", "..", "a\0b", "x" * 5000]
)
def test_a_voice_with_a_path_in_its_name_is_only_an_unknown_name(server, name):
    status, answer = ask(server, {"input": "Hi.", "voice": name})
    assert status == 404
    assert len(answer) < 1000


def test_texts_in_every_script_are_spoken_or_refused_in_words(server):
    texts = {
        "ru": "Привет, мир.", "ar": "مرحبا بالعالم", "fa": "سلام دنیا", "hi": "नमस्ते दुनिया",
        "zh-cn": "你好世界。", "ja": "こんにちは。", "ko": "안녕하세요.", "en": "Hello 🎉 world.",
        "cs": "Dobrý den.", "tr": "Merhaba dünya.",
    }  # fmt: skip
    for language, text in texts.items():
        assert language in LANGUAGES
        status, audio = ask(
            server, {"input": text, "language": language, "response_format": "pcm", "speed": 4}
        )
        assert status == 200, (language, audio)
        assert len(audio) > 100
    for odd in ("ᚠᚢᚦ ᚨᚱᚲ", "\u202e\u0000\u0007", "\ud800 half", "𝕳𝖊𝖑𝖑𝖔", "🎉🎉", "ﷺ", "ไทย"):
        status, answer = ask(server, {"input": odd, "response_format": "pcm", "speed": 4})
        assert status in (200, 400), answer
    still_speaks(server)


def test_a_full_queue_is_answered_429_and_is_free_again_when_clients_leave(server):
    takers = [speak_slowly(server) for _ in range(4)]
    status, answer = ask(server, {"input": "One more."})
    assert status == 429
    assert b"again in a moment" in answer
    for taker in takers:
        taker.close()
    wait_until_free(server)
    still_speaks(server)


def test_who_leaves_before_the_first_audio_frees_its_work(server):
    taker = socket.create_connection(("127.0.0.1", server.port))
    body = json.dumps({"input": LONG}).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    taker.sendall(head.encode() + b"\r\n" + body)
    taker.close()
    wait_until_free(server)


def test_a_reader_that_takes_nothing_is_not_spoken_ahead_of_and_is_left_in_the_end():
    with running(patience=1.0) as server:
        spoken = []
        reading = small_voice().read_timed

        def counted(*arguments, **options):
            for chunk in reading(*arguments, **options):
                spoken.append(len(chunk.wave))
                yield chunk

        speaker = server.studio.catalog.models["tiny"]
        speaker.read_timed = counted
        try:
            taker = speak_slowly(server, LONG * 8)
            wait_until_free(server)
            taker.close()
        finally:
            del speaker.read_timed
        assert len(spoken) < 20, "of 320 lines"
        still_speaks(server)


def test_a_thousand_connections_that_ask_nothing_do_not_matter(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3000:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1000)]
    try:
        for each in idle[::50]:
            each.sendall(b"POST /v1/audio/spe")  # and never goes on
        still_speaks(server)
    finally:
        for each in idle:
            each.close()


def test_many_at_once_are_all_answered():
    with running(max_queue=64) as server:
        answers: list[int] = []

        def one(number: int) -> None:
            body = {"input": f"Number {number}.", "response_format": "pcm", "speed": 4}
            answers.append(len(ask(server, body)[1]))

        threads = [threading.Thread(target=one, args=[number]) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 16
        assert min(answers) > 1000
        wait_until_free(server)


def test_a_line_that_fails_ends_its_own_request_only(server, monkeypatch):
    speaker = server.studio.catalog.models["tiny"]
    monkeypatch.setattr(speaker, "vocoder", lambda *_: 1 / 0, raising=True)
    with pytest.raises((http.client.HTTPException, OSError)):  # cut off, never a whole answer
        ask(server, {"input": "Hi.", "response_format": "pcm"})
    monkeypatch.undo()
    wait_until_free(server)
    still_speaks(server)


def test_sigterm_lets_a_stream_end_and_then_the_process():
    program = f"""
import sys
from myxtts.inference.small.voice import SmallVoice
from myxtts.serving.catalog import Catalog
from myxtts.serving.running import serve
from myxtts.serving.settings import ServeSettings
catalog = Catalog({{"tiny": SmallVoice.load({str(FIXTURE)!r})}})
serve(catalog, ServeSettings(port=0, grace=20.0), ready=lambda url: print(url, flush=True))
assert "tensorflow" not in sys.modules
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        body = json.dumps({"input": "One two. " * 4, "response_format": "pcm"})
        connection.request("POST", "/v1/audio/speech", body)
        answer = connection.getresponse()
        first = answer.read(1000)
        process.send_signal(signal.SIGTERM)
        rest = answer.read()  # whole, or http.client raises
        assert len(first) + len(rest) > 4 * 0.4 * 2 * 24_000
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
