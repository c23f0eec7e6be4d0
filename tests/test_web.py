"""The live page and the report in a real browser; and the server, for this machine only."""

from __future__ import annotations

import http.client
import socket
import struct
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from myxtts.errors import MyXTTSError
from myxtts.pages.live import serve
from myxtts.pages.report import write_report
from myxtts.runs.follow import RunFollower
from tests.browsers import fits, page_opener, start_browser
from tests.sample_pages import write_every_page
from tests.told_runs import event, half_a_run, metrics, pipeline, started, write_events, write_trace


@pytest.fixture(scope="module")
def browser():
    with start_browser() as started_browser:
        yield started_browser


@pytest.fixture
def open_page(browser):
    with page_opener(browser, width=900, height=800) as opener:
        yield opener


@pytest.fixture
def run(tmp_path):
    told = [started(host="elsewhere", run="my voice"), *half_a_run()[1:]]
    folder = write_events(tmp_path / "run", told)
    write_trace(folder)
    return folder


@pytest.fixture
def address(run):
    with serve(RunFollower(run), port=0) as served:
        yield served


def background(page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_live_page_follows_the_run(address, run, open_page):
    page = open_page(address)
    assert page.title() == "Live view of my voice"
    assert "Step 50 of 100" in page.inner_text("main")
    assert "98% busy" in page.inner_text("main")
    write_events(run, [metrics(60, 0.1234), pipeline(60, seconds=30.0)])
    page.wait_for_selector("text=Step 60 of 100", timeout=20_000)
    assert "0.1234" in page.inner_text(".cards")
    write_events(run, [pipeline(100, seconds=50.0), event("ended", error="")])
    page.wait_for_selector("text=finished", timeout=20_000)
    assert fits(page)


def test_the_live_page_changes_language_and_leads_to_the_report(address, open_page):
    page = open_page(address)
    page.click("text=فارسی")
    assert page.get_attribute("html", "dir") == "rtl"
    assert "گام ۵۰ از ۱۰۰" in page.inner_text("main")
    page.click(".links a >> nth=0")
    page.wait_for_selector("text=حلقهٔ دسته‌های آماده")
    assert page.get_attribute("html", "dir") == "rtl"


def test_a_lost_connection_is_said(run, open_page):
    with serve(RunFollower(run), port=0) as address:
        page = open_page(address)
        assert not page.is_visible("#lost")
    page.wait_for_selector("#lost", state="visible", timeout=20_000)


@pytest.mark.parametrize("lang", ["en", "fa"])
def test_the_report_changes_its_theme_and_copies_its_command(tmp_path, run, open_page, lang):
    write_report(tmp_path / "report.html", run, lang=lang)
    permissions = ["clipboard-read", "clipboard-write"]
    page = open_page(
        (tmp_path / "report.html").as_uri(), color_scheme="light", permissions=permissions
    )
    light = background(page)
    page.click("#theme")
    dark = background(page)
    assert light != dark
    page.wait_for_timeout(300)  # a browser stores it in its own time
    page.reload()
    assert background(page) == dark  # it is remembered
    page.emulate_media(media="print")
    assert background(page) == light  # paper is white
    assert not page.is_visible("#theme")
    page.emulate_media(media="screen")
    label = page.inner_text(".command button")
    page.click(".command button")
    page.wait_for_selector(f".command button:not(:text-is('{label}'))", timeout=20_000)
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.inner_text(".command code")
    assert copied.startswith("myxtts profile --config ")
    assert fits(page)
    code = page.locator(".command code").bounding_box()
    button = page.locator(".command button").bounding_box()
    assert code["x"] < button["x"]  # commands read from the left in both languages


# What a reader of the page does not see: what stands beyond its sides or in a part that scrolls
# sideways, and labels of a chart that stand on one another.
NOT_SEEN = """() => {
  const names = [], tell = (why, element) => names.push(
    `${why}: <${element.tagName}> ${element.textContent.trim().slice(0, 40)}`);
  for (const element of document.querySelectorAll("body, body *")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    if (box.left < -1 || box.right > innerWidth + 1) tell("beyond", element);
    if (getComputedStyle(element).overflowX !== "visible"
        && element.scrollWidth > element.clientWidth + 1) tell("scrolls", element);
  }
  for (const chart of document.querySelectorAll("svg[role=img]")) {
    const labels = [...chart.querySelectorAll("text")].filter((one) => one.getClientRects().length);
    labels.forEach((one, index) => {
      const a = one.getBoundingClientRect();
      for (const other of labels.slice(index + 1)) {
        const b = other.getBoundingClientRect();
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4
            && b.top < a.bottom - 4) tell(`on "${other.textContent}"`, one);
      }
    });
  }
  return names;
}"""


@pytest.mark.parametrize("lang", ["en", "fa"])
def test_a_telephone_shows_all_of_every_page(tmp_path, open_page, lang):
    name = "one-long-name-without-a-space/" * 5
    for what, path in write_every_page(tmp_path, lang, name=name).items():
        page = open_page(path.as_uri(), width=390)
        assert fits(page), what
        assert page.evaluate(NOT_SEEN) == [], what


def test_a_dark_system_gets_a_dark_page(tmp_path, run, open_page):
    write_report(tmp_path / "report.html", run)
    pages = [
        open_page((tmp_path / "report.html").as_uri(), color_scheme=scheme)
        for scheme in ("light", "dark")
    ]
    assert background(pages[0]) != background(pages[1])


# -- the server --


def ask(address: str, path: str, host: str | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    return connection.getresponse()


def test_the_server_answers_this_machine_only_and_only_its_pages(address):
    answer = ask(address, "/")
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert b"my voice" in answer.read()
    assert ask(address, "/view?lang=fa").read().decode().count("گام ۵۰ از ۱۰۰") == 1
    assert ask(address, "/view?lang=xx").status == 200
    assert ask(address, "/../events.jsonl").status == 404
    assert ask(address, "/", host="evil.example").status == 403
    assert urlsplit(address).hostname == "127.0.0.1"


def test_a_port_that_is_taken_is_said(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(MyXTTSError, match="cannot be served"),
            serve(RunFollower(run), port=taken.getsockname()[1]),
        ):
            pass


def test_odd_requests_and_crowds_are_answered(address, capfd):
    host, port = urlsplit(address).hostname, urlsplit(address).port
    with socket.create_connection((host, port)) as client:
        client.sendall(f"GET http://[/ HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert b" 400 " in client.recv(100)
    crowd = [socket.create_connection((host, port), timeout=10) for _ in range(60)]
    for client in crowd:
        client.sendall(f"GET /view HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
    for client in crowd:
        assert b" 200 " in client.recv(100)
        client.close()
    assert "Traceback" not in capfd.readouterr().err


def test_odd_events_do_not_break_the_live_page(run, address):
    odd = [
        event("metrics", 60, loss="much"),
        event("metrics", -3, loss=1.0),
        event("pipeline", 60, stages={"train": {"busy": 1}}),
        {"kind": 7},
        pipeline(61, seconds=30.0, ring_occupancy=[0, 1, 2, 3, 4, 5, 6]),
    ]
    write_events(run, [*odd, metrics(60, 0.25)])
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port)
    connection.request("GET", "/view")
    answer = connection.getresponse()
    assert answer.status == 200
    assert "0.25" in answer.read().decode()


def test_who_leaves_before_the_answer_leaves_no_traceback(address, capfd):
    host, port = urlsplit(address).hostname, urlsplit(address).port
    for _ in range(20):
        client = socket.create_connection((host, port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(f"GET http://[/ HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        client.close()  # with a reset, while the answer is on its way
    assert urlopen(address).status == 200
    assert "Traceback" not in capfd.readouterr().err
