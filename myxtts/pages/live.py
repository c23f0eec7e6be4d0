"""Serves the live view of a run on this machine: one page that asks for its newer self."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from myxtts.errors import MyXTTSError
from myxtts.messages import Message, clock, percent
from myxtts.pages.page import Language, Page
from myxtts.pages.render import render
from myxtts.pages.report import report_page
from myxtts.pages.report_content import content_of
from myxtts.pages.run_page import busy_chart, loss_chart, rate_cards, run_page, share_memory
from myxtts.pages.voice import served, voice_section
from myxtts.runs.follow import RunFollower
from myxtts.runs.history import RunHistory
from myxtts.runs.samples import find_sample
from myxtts.runs.view import RunView

HOST = "127.0.0.1"
POLL_S = 1.0


@contextlib.contextmanager
def serve(follower: RunFollower, *, port: int, lang: Language = "en") -> Iterator[str]:
    """Serve the run until the block ends; gives the address to open. Port 0 takes any free one."""
    try:
        server = _Server(follower, port=port, lang=lang)
    except OSError as error:
        raise MyXTTSError(
            f"Port {port} cannot be served: {error.strerror}", "another --port, or --port 0"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="monitor-web", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def live_page(page: Page, name: str, history: RunHistory, view: RunView, *, run: Path) -> str:
    """The page as it is first sent."""
    title = page.say("Live view of {}", name)
    values = live_values(page, history, view)
    voice = voice_section(page, run, served)
    poll_ms = int(1000 * POLL_S)
    return render(page, "live.html", title=title, poll_ms=poll_ms, voice=voice, **values)


def live_part(page: Page, history: RunHistory, view: RunView) -> str:
    """The part that changes."""
    return render(page, "live_run.html", **live_values(page, history, view))


def live_values(page: Page, history: RunHistory, view: RunView) -> dict[str, Any]:
    """What `live_run.html` shows."""
    about = [Message(view.status), Message(view.mode), Message("{}", (view.error,))]
    if view.elapsed_s is not None:
        about.append(Message("{} of training", (clock(view.elapsed_s),)))
    return {
        "view": view,
        "about": about,
        "cards": _cards(view),
        "shared": share_memory(view.devices),
        "loss": loss_chart(page, history.losses, history.validation),
        "busy": busy_chart(page, history.busy_curves(), x_label="step"),
    }


def _cards(view: RunView) -> tuple[tuple[str, Message], ...]:
    cards = rate_cards(view)
    if view.total_steps is not None and not view.is_over:
        cards.append(("time left", Message("{}", (clock(view.seconds_left),))))
    if view.step_s is not None:
        taken, varies = f"{1000 * view.step_s:,.0f}", percent(view.variation or 0.0)
        cards.append(("step time", Message("{} ms ± {}", (taken, varies))))
    return tuple(cards)


class _Server(ThreadingHTTPServer):
    """Answers for one run."""

    daemon_threads = True
    request_queue_size = 128  # the module's own 5 turns away whoever comes in a crowd

    def __init__(self, follower: RunFollower, *, port: int, lang: Language) -> None:
        self.follower, self.lang = follower, lang
        self.lock = threading.Lock()  # pages ask from threads of their own
        self._view: RunView | None = None
        self._polled_at = 0.0
        super().__init__((HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever leaves before the answer is no fault of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def view(self) -> RunView:
        """The run as it is, read no more than a few times a second however many look."""
        if self._view is None or time.monotonic() - self._polled_at > POLL_S / 4:
            self._view, self._polled_at = self.follower.poll(), time.monotonic()
        return self._view


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """The page, its part that changes, or the report."""
        # A foreign page could reach us by a name of its own that leads here.
        if self.headers.get("Host", "").rsplit(":", 1)[0] not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN, "only for this machine")
            return
        try:
            address = urlsplit(self.path)
        except ValueError:  # such as "http://[/"
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if address.path.startswith("/sample/"):
            self._send_sample(*address.path.split("/")[2:4])
            return
        asked = parse_qs(address.query).get("lang", [self.server.lang])[0]
        page = run_page("fa" if asked == "fa" else "en")
        try:
            with self.server.lock:
                answer = self._answer(address.path, page)
        except MyXTTSError as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
            return
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._send(answer.encode(errors="backslashreplace"), "text/html; charset=utf-8")

    def _send_sample(self, step: str = "", file: str = "") -> None:
        path = find_sample(self.server.follower.run_dir, step=step, file=file)
        try:
            content = None if path is None else path.read_bytes()
        except OSError:  # gone since
            content = None
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._send(content, "image/png" if file.endswith(".png") else "audio/wav")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "connect-src 'self'; img-src 'self' data:; media-src 'self' data:",
        )
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the page was closed
            self.wfile.write(body)

    def _answer(self, path: str, page: Page) -> str | None:
        follower, view = self.server.follower, self.server.view()
        run = follower.run_dir
        if path == "/":
            return live_page(page, view.name or run.name, follower.history, view, run=run)
        if path == "/voice":
            return voice_section(page, run, served)
        if path == "/view":
            return live_part(page, follower.history, view)
        if path == "/report":
            return report_page(content_of(run), lang=page.language)
        return None

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: every page asks once a second."""
