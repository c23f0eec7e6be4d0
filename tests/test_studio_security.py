"""Whoever else is on this machine or on the web gets nothing from the studio, nor breaks it."""

from __future__ import annotations

import io
import json
import select
import socket
import zipfile
from urllib.parse import quote, urlsplit

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra `studio`)")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from myxtts.studio.project import Project, check_name
from tests.studios import HERE, TOKEN, make_desk, running, visit, wave_bytes

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def desk(tmp_path):
    found = make_desk(tmp_path / "studio", texts=("One.", f"Two {EVIL}"))
    yield found
    found.close()


@pytest.fixture
def client(desk):
    return visit(desk)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("served") / "studio", upload_mb=1) as found:
        yield found


def files_below(folder):
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if ".myxtts" not in path.parts
    )


# -- who may talk to it --


def test_without_the_token_there_is_nothing(desk):
    stranger = visit(desk, lets_in=False)
    for path in ("/", "/?token=wrong", "/parts", "/script", "/clip/0", "/static/studio.js", "/x"):
        assert stranger.get(path).status_code == 403, path
    assert stranger.post("/do/import").status_code == 403
    assert stranger.get(f"/parts?token={TOKEN}").status_code == 403  # the page alone takes it
    let_in = stranger.get(f"/?token={TOKEN}")
    assert let_in.status_code == 200
    assert "HttpOnly; SameSite=Strict" in let_in.headers["Set-Cookie"]
    assert TOKEN not in let_in.text
    assert stranger.get("/parts").status_code == 200  # by the cookie, from now on


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8091", "[::1]:1", "", "[", "0"]
)
def test_other_hosts_are_refused(client, host):
    assert client.get("/parts", headers={"Host": host}).status_code == 403


def test_this_machine_by_its_other_name_is_let_in(client):
    told = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}  # as a tunnel has it
    assert client.get(f"/?token={TOKEN}", headers=told).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8091", "http://127.0.0.1:9999", ""]
)
def test_other_origins_are_refused(client, desk, origin):
    for call in (client.get, client.post):
        assert call("/do/language", headers={"Origin": origin}).status_code == 403
    assert desk.project.language == "en"


def test_what_changes_something_must_say_where_it_comes_from(client):
    del client.headers["Origin"]
    assert client.post("/do/import").status_code == 403
    assert client.get("/parts").status_code == 200


def test_a_page_elsewhere_can_only_lead_here(client):
    site = {"Sec-Fetch-Site": "cross-site"}
    del client.headers["Origin"]
    assert client.get("/parts", headers=site).status_code == 403
    assert client.get("/clip/0", headers=site).status_code == 403
    leads = {**site, "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=leads).status_code == 403
    assert client.get(f"/?token={TOKEN}", headers=leads).status_code == 200
    other_port = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/parts", headers=other_port).status_code == 403


def test_every_answer_forbids_what_the_page_does_not_need(client):
    for path in ("/", "/parts", "/nowhere", "/recording/gone.wav", "/static/studio.js"):
        headers = client.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
    assert "<script>" not in client.get("/").text  # all of it is fetched from here


# -- names --

PATHS = (
    "../up.wav",
    "../../.bashrc",
    "/etc/passwd.wav",
    "..\\up.wav",
    "a/b.wav",
    "a\\b.wav",
    ".hidden.wav",
    "a\0.wav",
    "a\n.wav",
    "..wav",
    "...wav",
    "~/x.wav",
    "x" * 300 + ".wav",
    f"{EVIL}.wav",
    "\u202ewav.exe.wav",
    "",
)


@pytest.mark.parametrize("name", PATHS)
def test_a_name_that_is_no_plain_name_is_refused(client, desk, name):
    before = files_below(desk.project.path.parent)
    answer = client.post("/recordings", params={"name": name}, content=wave_bytes())
    assert answer.status_code == 400
    assert client.post("/do/remove", json={"name": name}).status_code == 400
    assert files_below(desk.project.path.parent) == before


@pytest.mark.parametrize("name", ["chapter 1.wav", "صدا‌ها.mp3", "Ann & Bob's (2).flac", "é.ogg"])
def test_names_as_people_give_them_are_taken(name):
    assert check_name(name) == name


@pytest.mark.parametrize("path", ["../studio.json", "..%2f..%2fetc%2fpasswd", "%00", "a%2f..%2fb"])
@pytest.mark.parametrize("place", ["recording", "static", "clip", "spoken", "sample/1"])
def test_no_address_leads_out_of_its_folder(client, place, path):
    answer = client.get(f"/{place}/{path}")
    assert answer.status_code in (400, 404)
    assert "language" not in answer.text


def test_a_link_in_the_folder_is_not_followed(client, desk, tmp_path):
    (tmp_path / "secret.wav").write_bytes(wave_bytes())
    (desk.project.recordings / "link.wav").symlink_to(tmp_path / "secret.wav")
    assert client.get("/recording/link.wav").status_code == 400
    assert "link.wav" not in client.get("/").text


# -- what is sent --


def test_an_upload_that_announces_too_much_is_refused_before_it_comes(server):
    cookie = f"myxtts-studio={urlsplit(server.address).query.removeprefix('token=')}"
    with _connect(server) as client:
        head = _head(server, "POST", "/recordings?name=big.wav", cookie)
        client.sendall(f"{head}Content-Length: {2 << 30}\r\n\r\n".encode())
        answer = client.recv(4096)  # though not a byte of it was sent
    assert b" 413 " in answer
    assert b"connection: close" in answer.lower()


def test_an_upload_that_announces_nothing_is_cut_off_at_the_limit(server):
    cookie = f"myxtts-studio={urlsplit(server.address).query.removeprefix('token=')}"
    chunk, sent, answer = bytes(1 << 16), 0, b""
    with _connect(server) as client:
        head = _head(server, "POST", "/recordings?name=big.wav", cookie)
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        client.setblocking(False)
        while sent < 2 << 30 and not answer:
            readable, writable, _ = select.select([client], [client], [], 20)
            if readable:
                answer = client.recv(4096)
            elif writable:
                client.setblocking(True)
                client.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                client.setblocking(False)
                sent += len(chunk)
    assert b" 413 " in answer
    assert b"larger than 1 MB" in answer or b"connection: close" in answer.lower()
    assert sent < 64 << 20  # what lay in the sockets' buffers, and no more
    project = server.desk.project
    assert not list(project.recordings.iterdir())
    assert not list(project.own.glob("upload-*"))


def test_a_full_disk_is_said_before_it_is_full(client, desk, monkeypatch):
    monkeypatch.setattr(Project, "free_bytes", lambda self: 100 << 20)
    answer = client.post("/recordings", params={"name": "a.wav"}, content=wave_bytes())
    assert answer.status_code == 413
    assert "room" in answer.json()["problem"]


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../../evil.wav", wave_bytes())
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("all.zip", zipped(), "archive"),
        ("all.tar.gz", b"\x1f\x8b", "archive"),
        ("all.wav", zipped(), "no sound"),
        ("run.exe", b"MZ", "neither"),
        ("page.html", b"<script>", "neither"),
        ("noise.wav", bytes(4000), "no sound"),
        ("empty.wav", b"", "no sound"),
        ("text.txt", b"\xff\xfe\x00", "UTF-8"),
        ("text.txt", b"a\0b", "binary"),
    ],
)
def test_what_is_no_recording_is_refused_and_leaves_nothing(client, desk, name, content, problem):
    before = files_below(desk.project.path)
    answer = client.post("/recordings", params={"name": name}, content=content)
    assert answer.status_code == 400
    assert problem in answer.json()["problem"]
    assert answer.json()["remedy"]
    assert files_below(desk.project.path) == before


@pytest.mark.parametrize(
    "body", [b"{", b"[1]", b'"x"', b"[" * 50_000, b'{"key": 7}', b'{"key": null, "text": []}']
)
def test_odd_bodies_are_refused(client, body):
    for what in ("write", "drop", "say"):
        answer = client.post(f"/do/{what}", content=body)
        assert answer.status_code == 400, what
        assert answer.json()["remedy"]


def test_a_body_is_bounded(client):
    text = json.dumps({"key": "x", "text": "x" * 100_000})
    assert client.post("/do/write", content=text).status_code == 413
    assert client.post("/do/nothing", json={}).status_code == 404
    assert client.get("/do/import").status_code == 405


@pytest.mark.parametrize(
    "given",
    [
        {"steps": "0"},
        {"steps": "10000000000"},
        {"steps": "ten"},
        {"start": "/etc"},
        {"start": "--config"},
    ],
)
def test_a_training_takes_only_what_the_page_offers(client, given):
    answer = client.post("/do/train", json={"steps": "", "start": "", "sample_text": "", **given})
    assert answer.status_code == 400


# -- what is shown --


@pytest.mark.parametrize("lang", ["en", "fa"])
def test_html_in_texts_and_names_is_text(client, desk, lang):
    name = "Ann & Bob's (2).wav"
    assert client.post("/recordings", params={"name": name}, content=wave_bytes()).is_success
    (desk.project.recordings / "talk.txt").write_text(EVIL)
    key = desk.clips.read().rows[0].key
    assert client.post("/do/write", json={"key": key, "text": f'"{EVIL}" </textarea>'}).is_success
    (desk.project.spoken / "speech-20260101-000000.wav").write_bytes(wave_bytes(0.5))
    (desk.project.spoken / "speech-20260101-000000.txt").write_text(EVIL)
    for page in (client.get(f"/?lang={lang}").text, *parts(client, lang)):
        assert "<img src=x" not in page
        assert page.count("</textarea>") == page.count("<textarea")
    assert client.get(f"/?lang={lang}").text.count("&lt;img src=x") >= 5
    assert quote(name) in client.get("/").text or "Ann%20%26%20Bob" in client.get("/").text


def parts(client, lang):
    return [part["html"] for part in client.get(f"/parts?lang={lang}").json().values()]


def test_an_odd_list_of_clips_breaks_nothing(client, desk):
    desk.project.data.joinpath("metadata.jsonl").write_text('{"audio": 7}\n[[[\n')
    assert "none that an import wrote" in client.get("/").text
    outside = '{"audio": "../../../etc/passwd", "text": "x", "speaker": "s", "language": "en", '
    outside += '"origin": {"file": "f", "start": 0, "source": 1}}\n'
    desk.project.data.joinpath("metadata.jsonl").write_text(outside)
    (row,) = desk.clips.read().rows
    assert row.verdict.reason == "outside the data folder"
    assert client.get(f"/clip/{row.key}").status_code == 400


# -- crowds --


def _connect(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(server.address).port), timeout=20)


def _head(server, method, path, cookie):
    host = urlsplit(server.address).netloc
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\n"
    )


def test_a_hundred_connections_are_answered(server):
    cookie = f"myxtts-studio={urlsplit(server.address).query.removeprefix('token=')}"
    idle = [_connect(server) for _ in range(50)]  # that never say anything
    crowd = [_connect(server) for _ in range(100)]
    for client in crowd:
        client.sendall(f"{_head(server, 'GET', '/parts', cookie)}\r\n".encode())
    assert [client.recv(4096)[:15] for client in crowd] == [b"HTTP/1.1 200 OK"] * 100
    for client in (*crowd, *idle):
        client.close()


def test_odd_requests_are_answered_and_the_next_one_is_too(server):
    for odd in (b"\0\0\0\r\n\r\n", b"GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n", b"A" * 100_000):
        with _connect(server) as client:
            client.sendall(odd)
            client.shutdown(socket.SHUT_WR)
            assert b"Traceback" not in client.recv(4096)
    with _connect(server) as client:
        client.sendall(f"{_head(server, 'GET', '/', 'myxtts-studio=wrong')}\r\n".encode())
        assert b" 403 " in client.recv(4096)


def test_it_listens_on_this_machine_only(server):
    assert server.address.startswith("http://127.0.0.1:")
    assert urlsplit(HERE).hostname == "127.0.0.1"
    (listening,) = server._listening.getsockname()[:1]
    assert listening == "127.0.0.1"
