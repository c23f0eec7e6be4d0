"""The server's HTTP side: what OpenAI's clients call, and health and metrics."""

from __future__ import annotations

import base64
import hmac
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from myxtts.errors import MyXTTSError
from myxtts.inference.speaker import Chunk
from myxtts.inference.times import as_dict, render_times
from myxtts.serving.answers import answer_error, error_answer, ignored_header
from myxtts.serving.formats import Encoder
from myxtts.serving.metrics import CONTENT_TYPE
from myxtts.serving.requests import read_request
from myxtts.serving.sending import Sending
from myxtts.serving.speech import Speech, Studio

log = logging.getLogger(__name__)

OPEN_PATHS = ("/health",)
LOCAL_NAMES = {"localhost", "127.0.0.1", "[::1]"}


def make_app(studio: Studio) -> ASGIApp:
    """The application; the caller closes the studio."""
    endpoints = _Endpoints(studio)
    routes = [
        Route("/v1/audio/speech", endpoints.speech, methods=["POST"]),
        Route("/v1/audio/speech/times", endpoints.times, methods=["POST"]),
        Route("/v1/audio/voices", endpoints.voices),
        Route("/v1/models", endpoints.models),
        Route("/v1/models/{name}", endpoints.model),
        Route("/health", endpoints.health),
        Route("/metrics", endpoints.metrics),
    ]
    handlers: dict[Any, Any] = {
        MyXTTSError: _answer_error,
        HTTPException: _answer_http,
        Exception: _answer_failure,
    }
    return _Guard(Starlette(routes=routes, exception_handlers=handlers), studio)


class _Endpoints:
    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def speech(self, request: Request) -> Any:
        """Audio of a text: in chunks as it is made, as events, or whole."""
        asked = await self._read(request)
        if asked.times and asked.stream_format != "sse":
            raise MyXTTSError(
                '"times" cannot be sent within audio.',
                '"stream_format": "sse", or POST /v1/audio/speech/times',
            )
        return Sending(self._studio, asked, self._encode)

    async def times(self, request: Request) -> Response:
        """Audio in base64 with the times of its words and sentences, as JSON."""
        asked = await self._read(request, times=True)
        async with self._studio.speech(asked, "http") as speech:
            chunks = [chunk async for chunk in speech.chunks()]
        wave = np.concatenate([chunk.wave for chunk in chunks])
        said = [chunk.sentence for chunk in chunks]
        encoder = Encoder(asked.response_format, speech.speaker.sample_rate, samples=len(wave))
        return JSONResponse(
            {
                "audio": base64.b64encode(encoder.add(wave) + encoder.end()).decode(),
                "format": asked.response_format,
                "sample_rate": encoder.rate,
                "duration": round(speech.seconds, 3),
                **as_dict(said),
                "srt": render_times(said, "srt"),
                "vtt": render_times(said, "vtt"),
            },
            headers=ignored_header(speech),
        )

    async def voices(self, _request: Request) -> Response:
        """Who can be asked for, of each model."""
        listed = await run_in_threadpool(self._list_voices)  # their folder may be slow
        return JSONResponse({"object": "list", "voices": listed, "data": listed})

    def _list_voices(self) -> list[dict[str, Any]]:
        catalog = self._studio.catalog
        return [
            {"id": voice, "name": voice, "model": model, "languages": speaker.files.languages}
            for model, speaker in catalog.models.items()
            for voice in catalog.voices(model)
        ]

    async def models(self, _request: Request) -> Response:
        """The models in memory."""
        listed = [_describe(name) for name in self._studio.catalog.models]
        return JSONResponse({"object": "list", "data": listed})

    async def model(self, request: Request) -> Response:
        """One model."""
        name, _ = self._studio.catalog.model(request.path_params["name"])
        return JSONResponse(_describe(name))

    async def health(self, _request: Request) -> Response:
        """That it lives."""
        jobs = self._studio.scheduler.num_jobs
        return JSONResponse({"status": "ok", "queue": jobs})

    async def metrics(self, _request: Request) -> Response:
        """For Prometheus."""
        return Response(self._studio.metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def _read(self, request: Request, *, times: bool = False) -> Any:
        limit = self._studio.settings.max_body
        declared = request.headers.get("content-length", "0")
        body = bytearray()
        if not declared.isdecimal() or int(declared) > limit:
            raise HTTPException(413, f"The body is larger than {limit} bytes.")
        async for part in request.stream():
            body += part
            if len(body) > limit:
                raise HTTPException(413, f"The body is larger than {limit} bytes.")
        settings = self._studio.settings
        asked = read_request(bytes(body), max_characters=settings.max_characters)
        return replace(asked, times=True) if times else asked

    async def _encode(self, speech: Speech) -> AsyncIterator[bytes]:
        """The bytes of the answer, as they become known."""
        asked, rate = speech.request, speech.speaker.sample_rate
        chunks, known = speech.chunks(), None
        if not asked.stream:
            whole = [chunk async for chunk in chunks]
            chunks, known = _again(whole), sum(len(chunk.wave) for chunk in whole)
        one_line = len(speech.script.lines) == 1
        encoder: Encoder | None = None
        try:
            async for chunk in chunks:
                if encoder is None:
                    known = len(chunk.wave) if one_line else known
                    encoder = Encoder(asked.response_format, rate, samples=known)
                data = encoder.add(chunk.wave)
                if asked.stream_format == "audio":
                    yield data
                    continue
                yield _event("speech.audio.delta", audio=base64.b64encode(data).decode())
                if asked.times:
                    yield _event("speech.audio.times", **as_dict([chunk.sentence]))
            assert encoder is not None
            data = encoder.end()
            if asked.stream_format == "audio":
                yield data
                return
            if data:
                yield _event("speech.audio.delta", audio=base64.b64encode(data).decode())
            yield _event("speech.audio.done", usage=_usage(speech))
        finally:
            if encoder is not None:
                encoder.close()


class _Guard:
    """Who may ask: those with the token; without one, only what this machine asks itself.

    A web page that a browser on this machine shows could ask too. It knows our address by a name of
    its own, which the Host header tells.
    """

    def __init__(self, app: ASGIApp, studio: Studio) -> None:
        self._app, self._settings = app, studio.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http":
            headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in scope["headers"]
            }
            refusal = self._refuse(scope["path"], headers)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refuse(self, path: str, headers: dict[str, str]) -> Response | None:
        token = self._settings.token
        if token is None:
            host = headers.get("host", "").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in LOCAL_NAMES and name != self._settings.host.lower():
                return error_answer(403, f"This server is not {name[:80]!r}.", "its own address")
            return None
        given = headers.get("authorization", "").removeprefix("Bearer ").encode("latin-1")
        if path in OPEN_PATHS or hmac.compare_digest(given, token.encode()):
            return None
        return error_answer(401, "The token is missing or wrong.", "Authorization: Bearer TOKEN")


async def _again(chunks: list[Chunk]) -> AsyncIterator[Chunk]:
    for chunk in chunks:
        yield chunk


def _describe(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "myxtts"}


def _usage(speech: Speech) -> dict[str, Any]:
    characters = len(speech.request.text)
    return {"input_tokens": characters, "output_tokens": 0, "total_tokens": characters}


def _event(kind: str, **values: Any) -> bytes:
    data = json.dumps({"type": kind, **values}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


async def _answer_error(_request: Request, error: MyXTTSError) -> Response:
    return answer_error(error)


async def _answer_http(_request: Request, error: HTTPException) -> Response:
    return error_answer(error.status_code, str(error.detail), "")


async def _answer_failure(_request: Request, error: Exception) -> Response:
    log.error("A request failed: %s", type(error).__name__, exc_info=error)
    return error_answer(500, "The server failed.", "its log says why")
