"""What the studio answers: its page, the parts that change, sounds, and what is done in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from myxtts.documents import parse_json
from myxtts.errors import ConfigError, MyXTTSError
from myxtts.messages import Message
from myxtts.pages.page import Page
from myxtts.pages.studio import SCRIPTS, plain, read_script, studio_page
from myxtts.runs.samples import find_sample
from myxtts.studio.desk import Desk
from myxtts.studio.parts import Asked, Parts
from myxtts.studio.project import told_by
from myxtts.studio.security import Guard
from myxtts.studio.takes import Takes
from myxtts.studio.uploads import MB, TooLargeError, check_upload, receive

MAX_JSON_BYTES = 64 * 1024
SOUND_KINDS = {".wav": "audio/wav", ".flac": "audio/flac", ".ogg": "audio/ogg"}
SOUND_KINDS |= {".opus": "audio/ogg", ".mp3": "audio/mpeg", ".png": "image/png"}

Answer = Callable[[Request], Any]


def make_app(desk: Desk, *, token: str, lang: str = "en", upload_mb: int = 1024) -> Starlette:
    """The studio of a desk, for whoever has the token."""
    studio = _Studio(desk, lang=lang, upload_limit=upload_mb * MB)
    routes = [
        Route("/", studio.page),
        Route("/parts", studio.changed_parts),
        Route("/static/{name}", studio.script_file),
        Route("/script", studio.script),
        Route("/recording/{name}", studio.recording),
        Route("/clip/{key}", studio.clip),
        Route("/sample/{step}/{file}", studio.sample),
        Route("/spoken/{name}", studio.spoken),
        Route("/recordings", studio.upload, methods=["POST"]),
        Route("/takes", studio.take, methods=["POST"]),
        Route("/do/{what}", studio.do, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={MyXTTSError: studio.refuse, ClientDisconnect: _nobody_there},
    )


class _Studio:
    """The answers; what is slow runs on a thread of its own."""

    def __init__(self, desk: Desk, *, lang: str, upload_limit: int) -> None:
        self._desk, self._lang, self._limit = desk, lang, upload_limit
        self._takes = Takes(desk.project)
        self._parts = Parts(desk)

    # -- the page --

    def page(self, request: Request) -> Response:
        """The whole page, with its parts as they are."""
        page = self._page_of(request)
        return HTMLResponse(self._parts.whole(page, _asked(request)))

    def changed_parts(self, request: Request) -> Response:
        """Those parts whose fingerprints the page does not have."""
        page, known = self._page_of(request), set(request.query_params.getlist("known"))
        answer = {}
        for name, html in self._parts.all(page, _asked(request)).items():
            mark = hashlib.sha256(html.encode(errors="replace")).hexdigest()[:12]
            if f"{name}:{mark}" not in known:
                answer[name] = {"mark": mark, "html": html}
        return JSONResponse(answer)

    def script_file(self, request: Request) -> Response:
        """A script of the page."""
        name = request.path_params["name"]
        if name not in SCRIPTS:
            return Response(status_code=404)
        return Response(read_script(name), media_type="text/javascript")

    def script(self, request: Request) -> Response:
        """The sentences to read, and which have been."""
        return JSONResponse(self._takes.sentences())

    # -- sounds --

    def recording(self, request: Request) -> Response:
        """A recording as it was put here."""
        return _file(self._desk.project.find_recording(request.path_params["name"]))

    def clip(self, request: Request) -> Response:
        """A clip's sound."""
        return _file(self._desk.clips.sound(self._desk.clips.find(request.path_params["key"])))

    def sample(self, request: Request) -> Response:
        """What the run said at a step."""
        run, found = self._desk.project.run, request.path_params
        return _file(find_sample(run, step=found["step"], file=found["file"]))

    def spoken(self, request: Request) -> Response:
        """What a voice said."""
        path = self._desk.speaker.find(request.path_params["name"])
        keep = path is not None and "download" in request.query_params
        return _file(path, name=path.name if keep and path else None)

    # -- what is done --

    async def upload(self, request: Request) -> Response:
        """A recording, or the text of one, streamed."""
        name = request.query_params.get("name", "")
        seconds = await self._receive(request, name)
        return JSONResponse({"seconds": seconds})

    async def take(self, request: Request) -> Response:
        """A sentence that was read into the microphone."""
        number = request.query_params.get("sentence", "")
        name, text = await run_in_threadpool(self._takes.name_and_text, number)
        seconds = await self._receive(request, name)
        await run_in_threadpool(self._takes.note, name, text)
        return JSONResponse({"seconds": seconds})

    async def _receive(self, request: Request, name: str) -> float | None:
        length = request.headers.get("content-length", "")
        announced = int(length) if length.isdecimal() else None
        project = self._desk.project
        target = check_upload(project, name, announced=announced, limit=self._limit)
        return await receive(project, target, request.stream(), limit=self._limit)

    async def do(self, request: Request) -> Response:
        """Something that a button does, with what its form says."""
        given = await _read_json(request)
        what = self._actions().get(request.path_params["what"])
        if what is None:
            return Response(status_code=404)
        try:
            done = await run_in_threadpool(what, given)
        except OSError as error:
            raise MyXTTSError(f"{error.strerror}: {error.filename}", "check the folder") from error
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, MyXTTSError):
                raise
            raise ConfigError("The page sent something odd.", "reload the page") from error
        return JSONResponse({"done": done})

    def _actions(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        desk = self._desk
        return {
            "language": lambda given: desk.project.set_language(_text(given, "language")),
            "remove": lambda given: desk.project.remove_recording(_text(given, "name")),
            "import": lambda given: desk.start_import(),
            "stop-import": lambda given: desk.stop_import(),
            "hear": lambda given: desk.start_hearing(),
            "write": lambda given: desk.clips.write(_text(given, "key"), _text(given, "text")),
            "drop": lambda given: desk.clips.drop(_text(given, "key"), dropped=True),
            "keep": lambda given: desk.clips.drop(_text(given, "key"), dropped=False),
            "train": lambda given: desk.start_training(
                steps=int(given["steps"]) if given.get("steps") else None,
                start=_text(given, "start"),
                sample_text=_text(given, "sample_text"),
                anew=given.get("anew") is True,
            ),
            "stop": lambda given: desk.stop_training(),
            "say": lambda given: desk.say(
                text=_text(given, "text"),
                voice=_text(given, "voice"),
                reference=_text(given, "reference"),
                speed=float(given["speed"]),
                pitch=float(given["pitch"]),
            ),
            "export": lambda given: desk.export(),
        }

    # -- what went wrong --

    async def refuse(self, request: Request, error: Exception) -> Response:
        """An error in the page's language where there is one, with the way out."""
        assert isinstance(error, MyXTTSError)
        page = self._page_of(request)
        problem, remedy = told_by(error)
        said = {"problem": plain(page, problem), "remedy": plain(page, remedy)}
        large = isinstance(error, TooLargeError)
        # A body that is not read to its end would be taken for the next request.
        return JSONResponse(said, 413 if large else 400, headers={"Connection": "close"})

    def _page_of(self, request: Request) -> Page:
        lang = request.query_params.get("lang", self._lang)
        return studio_page("fa" if lang == "fa" else "en")


def _asked(request: Request) -> Asked:
    query = request.query_params
    number = query.get("page", "1")
    show = query.get("show", "all")
    return Asked(
        show=show if show in ("look", "dropped") else "all",  # type: ignore[arg-type]
        page=int(number) if number.isdecimal() and len(number) < 7 else 1,
    )


async def _read_json(request: Request) -> dict[str, Any]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_JSON_BYTES:
            raise TooLargeError(Message("The page sent too much."), Message("a shorter text"))
    try:
        found = parse_json(body or b"{}")
    except ValueError as error:
        raise ConfigError("The page sent something odd.", "reload the page") from error
    if not isinstance(found, dict):
        raise ConfigError("The page sent something odd.", "reload the page")
    return found


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _file(path: Path | None, *, name: str | None = None) -> Response:
    if path is None or not path.is_file():
        return Response(status_code=404)
    kind = SOUND_KINDS.get(path.suffix.lower(), "application/octet-stream")
    return FileResponse(path, media_type=kind, filename=name)


def _nobody_there(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
