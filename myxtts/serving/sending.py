"""Sends speech while it is made, and stops when nobody listens any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from starlette.types import Receive, Scope, Send

from myxtts.errors import MyXTTSError
from myxtts.serving.answers import answer_error, head_of
from myxtts.serving.requests import SpeechRequest
from myxtts.serving.speech import Speech, Studio

log = logging.getLogger(__name__)


class ReaderGoneError(Exception):
    """Nobody takes what is sent."""


class Sending:
    """The answer to one request: its place in the queue is freed however it ends."""

    def __init__(
        self,
        studio: Studio,
        asked: SpeechRequest,
        encode: Callable[[Speech], AsyncIterator[bytes]],
    ) -> None:
        self._studio, self._asked, self._encode = studio, asked, encode
        self._is_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Speak to whoever asked, until the end or until they leave."""
        speaking = asyncio.ensure_future(self._speak(scope, receive, send))
        leaving = asyncio.ensure_future(_wait_until_gone(receive))
        try:
            await asyncio.wait({speaking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if speaking.done():
                speaking.result()
        except ReaderGoneError:
            log.info("http: a reader took nothing for too long, and was left")
            raise ConnectionAbortedError from None
        finally:
            for task in (speaking, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _speak(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._studio.speech(self._asked, "http") as speech:
                kind, headers = head_of(speech)
                if not self._asked.stream:
                    data = b"".join([part async for part in self._encode(speech)])
                    headers |= {"content-length": str(len(data))}
                    await self._send_head(send, kind, headers)
                    await self._send_body(send, data, more=False)
                    return
                await self._send_head(send, kind, headers)
                async for part in self._encode(speech):
                    if part:
                        await self._send_body(send, part, more=True)
                await self._send_body(send, b"", more=False)
        except MyXTTSError as error:
            if self._is_begun:  # too late to say it
                raise
            await answer_error(error)(scope, receive, send)

    async def _send_head(self, send: Send, kind: str, headers: dict[str, str]) -> None:
        self._is_begun = True
        named = {"content-type": kind, "cache-control": "no-store", **headers}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _send_body(self, send: Send, data: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": more}
        try:
            await asyncio.wait_for(send(message), self._studio.settings.patience)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise ReaderGoneError from error


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
