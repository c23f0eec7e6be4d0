"""Serves the live view of a run on this machine: one page that asks for its newer self."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from myxtts.errors import MyXTTSError
from myxtts.messages import Message, clock, percent, short
from myxtts.pages.charts import share_bar
from myxtts.pages.page import Language
from myxtts.pages.report import ReportPage
from myxtts.pages.report_content import content_of
from myxtts.pages.run_page import CSS as RUN_CSS
from myxtts.pages.run_page import RunPage
from myxtts.runs.follow import RunFollower
from myxtts.runs.history import RunHistory
from myxtts.runs.view import RunView

HOST = "127.0.0.1"
POLL_S = 1.0

CSS = f"""{RUN_CSS}
.links{{display:flex;gap:1.2rem;margin-top:2rem}}a{{color:var(--bar)}}
#lost{{display:none}}.lost #lost{{display:block}}.lost #run{{opacity:.5}}
.progress{{display:flex;justify-content:space-between;margin-bottom:.3rem}}
"""
SCRIPT = """
(() => {
  const run = document.getElementById("run");
  let last = "";
  const ask = async () => {
    try {
      const answer = await fetch("view" + location.search, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const shown = await answer.text();
      if (shown !== last) run.innerHTML = last = shown;
      document.body.classList.remove("lost");
    } catch (error) { document.body.classList.add("lost"); }
    setTimeout(ask, POLL_MS);
  };
  setTimeout(ask, POLL_MS);
})();
""".replace("POLL_MS", str(int(1000 * POLL_S)))


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


class LivePage(RunPage):
    """The live view in one language."""

    def whole(self, name: str, history: RunHistory, view: RunView) -> str:
        """The page as it is first sent."""
        other = "en" if self.rtl else "fa"
        words = "English" if self.rtl else "فارسی"
        lost = self.say("The connection is lost; trying again")
        body = (
            f'<p id="lost" class="note">{lost}</p><main id="run">{self.live(history, view)}</main>'
            f'<p class="links"><a href="report?lang={self.language}">{self.say("Report")}</a>'
            f'<a href="?lang={other}" lang="{other}">{words}</a></p>'
        )
        title = self.words("Live view of {}", name)
        return self.frame(title, body, css=CSS, script=SCRIPT)

    def live(self, history: RunHistory, view: RunView) -> str:
        """The part that changes."""
        return "\n".join(
            [
                self._about(view),
                self._progress(view),
                self.cards(_cards(view)),
                self.verdict(view.verdict),
                self.device_table(view.devices),
                self._ring(view),
                self._curves(history),
            ]
        )

    def _about(self, view: RunView) -> str:
        facts = [
            self.say(view.status),
            self.say(view.mode),
            self.tell(Message("{}", (view.error,))),
        ]
        if view.elapsed_s is not None:
            facts.append(self.say("{} of training", self.digits(clock(view.elapsed_s))))
        shown = "".join(f"<span>{fact}</span>" for fact in facts if fact)
        if view.simulated:
            words = "simulated on CPU: no GPU was measured"
            shown += f'<span class="simulated">{self.say(words)}</span>'
        return f'<div class="about">{shown}</div>'

    def _progress(self, view: RunView) -> str:
        if view.progress is None:
            return f'<div class="progress">{self.say("Step {}", self.number(view.step))}</div>'
        steps = self.say(
            "Step {} of {}", self.number(view.step), self.number(view.total_steps or 0)
        )
        bar = share_bar(self, [(view.progress, "var(--good)", "")])
        share = self.percent(view.progress)
        return f'<div class="progress"><span>{steps}</span><span>{share}</span></div>{bar}<br>'

    def _ring(self, view: RunView) -> str:
        if view.ring is None or not view.ring_size:
            return ""
        words = self.say(
            "{} of {} batches ready", self.number(view.ring, 1), self.number(view.ring_size)
        )
        bar = share_bar(self, [(view.ring / view.ring_size, "var(--s3)", "")])
        row = self.bar_row(self.say("Ring of ready batches"), bar, words)
        return f'<table class="shares">{row}</table>'

    def _curves(self, history: RunHistory) -> str:
        parts = {
            "Loss": self.loss_chart(
                [(float(x), y) for x, y in history.losses],
                [(float(x), y) for x, y in history.validation],
            ),
            "How busy the devices were": self.busy_chart(history.busy_curves(), "step"),
        }
        return "".join(f"<h3>{self.say(name)}</h3>{part}" for name, part in parts.items() if part)


def _cards(view: RunView) -> tuple[tuple[str, Message], ...]:
    cards = []
    if view.loss is not None:
        cards.append(("loss", Message("{}", (short(float(view.loss)),))))
    if view.steps_per_second is not None:
        cards.append(("steps a second", Message("{}", (f"{view.steps_per_second:.2f}",))))
    if view.clips_per_second is not None:
        cards.append(("clips a second", Message("{}", (f"{view.clips_per_second:.1f}",))))
    if view.total_steps is not None and not view.is_over:
        cards.append(("time left", Message("{}", (clock(view.seconds_left),))))
    if view.step_s is not None:
        taken, varies = f"{1000 * view.step_s:,.0f}", percent(view.variation or 0.0)
        cards.append(("step time", Message("{} ms ± {}", (taken, varies))))
    return tuple(cards)


class _Server(ThreadingHTTPServer):
    """Answers for one run."""

    daemon_threads = True

    def __init__(self, follower: RunFollower, *, port: int, lang: Language) -> None:
        self.follower, self.lang = follower, lang
        self.lock = threading.Lock()  # pages ask from threads of their own
        self._view: RunView | None = None
        self._polled_at = 0.0
        super().__init__((HOST, port), _Handler)

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
        address = urlsplit(self.path)
        asked = parse_qs(address.query).get("lang", [self.server.lang])[0]
        page = LivePage("fa" if asked == "fa" else "en")
        try:
            with self.server.lock:
                answer = self._answer(address.path, page)
        except MyXTTSError as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
            return
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = answer.encode("utf-8", errors="backslashreplace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "connect-src 'self'; img-src data:",
        )
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the page was closed
            self.wfile.write(body)

    def _answer(self, path: str, page: LivePage) -> str | None:
        follower, view = self.server.follower, self.server.view()
        if path == "/":
            return page.whole(view.name or follower.run_dir.name, follower.history, view)
        if path == "/view":
            return page.live(follower.history, view)
        if path == "/report":
            return ReportPage(page.language).whole(content_of(follower.run_dir))
        return None

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: every page asks once a second."""
