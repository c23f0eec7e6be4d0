"""Wyoming, the protocol of Home Assistant: speech over TCP, with texts that arrive in pieces."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, async_read_event, async_write_event
from wyoming.info import Attribution, Describe, Info, TtsProgram, TtsVoice
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from myxtts import __version__
from myxtts.errors import MyXTTSError
from myxtts.serving.requests import SpeechRequest
from myxtts.serving.speech import Studio
from myxtts.text.sentences import split_sentences

log = logging.getLogger(__name__)

CHUNK_SAMPLES = 4096  # of one event
IDLE_S = 600.0  # a silent connection is kept for so long


class WyomingServer:
    """Listens beside the HTTP server, and speaks with the same models and threads."""

    def __init__(self, studio: Studio, host: str, port: int) -> None:
        self._studio, self._host, self._port = studio, host, port
        self._server: asyncio.AbstractServer | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Begin to listen; returns the port."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self, grace: float) -> None:
        """No new ones; those who are being spoken to may hear it to the end, within the grace."""
        if self._server is None:
            return
        self._server.close()
        busy = {talk for talk in self._talks if getattr(talk, "speaks", False)}
        if busy:
            await asyncio.wait(busy, timeout=grace)
        for talk in list(self._talks):
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            await _Talk(
                self._studio, _Bounded(reader, self._studio.settings.max_body), writer
            ).run()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.TimeoutError):
            pass  # they left
        except (ValueError, KeyError, TypeError) as error:
            log.info("wyoming: a client sent what is no event (%s)", type(error).__name__)
        finally:
            self._talks.discard(task)
            writer.close()


class _Bounded:
    """A reader that takes no event larger than a request may be."""

    def __init__(self, reader: asyncio.StreamReader, limit: int) -> None:
        self._reader, self._limit = reader, limit

    async def readline(self) -> bytes:
        return await self._reader.readline()  # bounded by asyncio itself

    async def readexactly(self, count: int) -> bytes:
        if not 0 <= count <= self._limit:
            raise ValueError("an event that is too large")
        return await self._reader.readexactly(count)


class _Talk:
    """One connection, and the text that is arriving on it."""

    def __init__(self, studio: Studio, reader: Any, writer: asyncio.StreamWriter) -> None:
        self._studio, self._reader, self._writer = studio, reader, writer
        self._voice: SynthesizeVoice | None = None
        self._text: str | None = None  # not yet said; None: none is arriving
        self._is_started = False

    async def run(self) -> None:
        """Answer events until the other side leaves."""
        while True:
            event = await asyncio.wait_for(async_read_event(self._reader), IDLE_S)
            if event is None:
                return
            try:
                await self._handle(event)
            except MyXTTSError as error:
                self._text = None
                await self._write(Error(text=f"{error.problem} Try: {error.remedy}").event())

    async def _handle(self, event: Event) -> None:
        if Describe.is_type(event.type):
            await self._write(self._describe())
        elif Ping.is_type(event.type):
            await self._write(Pong(text=Ping.from_event(event).text).event())
        elif Synthesize.is_type(event.type):
            if self._text is None:  # within a stream it repeats the whole text for older servers
                asked = Synthesize.from_event(event)
                await self._say(asked.text, asked.voice)
                await self._write(AudioStop().event())
        elif SynthesizeStart.is_type(event.type):
            self._voice, self._text = SynthesizeStart.from_event(event).voice, ""
            self._is_started = False
        elif SynthesizeChunk.is_type(event.type) and self._text is not None:
            await self._hear(SynthesizeChunk.from_event(event).text)
        elif SynthesizeStop.is_type(event.type) and self._text is not None:
            rest, self._text = self._text, None
            if rest.strip():
                await self._say(rest, self._voice, start=not self._is_started)
            await self._write(AudioStop().event())
            await self._write(SynthesizeStopped().event())

    async def _hear(self, text: str) -> None:
        """One more piece of a text: what is surely a whole sentence is said at once."""
        assert self._text is not None
        self._text += text
        if len(self._text) > self._studio.settings.max_characters:
            raise MyXTTSError("The text is too long.", "shorter ones")
        if self._text.lstrip().startswith("<speak"):
            return  # SSML is read whole
        *whole, rest = [sentence.text for sentence in split_sentences(self._text)] or [""]
        if whole:
            ends_open = self._text[-1:].isspace()
            self._text = rest + (" " if ends_open else "")
            await self._say(" ".join(whole), self._voice, start=not self._is_started)
            self._is_started = True

    async def _say(self, text: str, voice: SynthesizeVoice | None, *, start: bool = True) -> None:
        settings = self._studio.settings
        if not text.strip() or len(text) > settings.max_characters:
            raise MyXTTSError("The text is empty or too long.", "some words")
        model, name = self._choose(voice.name if voice else None)
        language = voice.language if voice and not voice.name else None
        asked = SpeechRequest(text=text, model=model, voice=name, language=language)
        task: Any = asyncio.current_task()
        task.speaks = True
        try:
            async with self._studio.speech(asked, "wyoming") as speech:
                form = {"rate": speech.speaker.sample_rate, "width": 2, "channels": 1}
                if start:
                    await self._write(AudioStart(**form).event())
                async for chunk in speech.chunks():
                    samples = np.rint(chunk.wave.clip(-1.0, 1.0) * 32767.0).astype("<i2")
                    for at in range(0, len(samples), CHUNK_SAMPLES):
                        audio = samples[at : at + CHUNK_SAMPLES].tobytes()
                        await self._write(AudioChunk(audio=audio, **form).event())
        finally:
            task.speaks = False

    def _choose(self, name: str | None) -> tuple[str | None, str | None]:
        """Model and voice of a name as it was described."""
        if not name:
            return None, None
        model, mark, voice = name.partition("/")
        return (model, voice) if mark and model in self._studio.catalog.models else (None, name)

    def _describe(self) -> Event:
        credit = Attribution(name="MyXTTS", url="")  # a field that must be there
        catalog = self._studio.catalog
        many = len(catalog.models) > 1
        about: dict[str, Any] = {"attribution": credit, "installed": True, "version": __version__}
        voices = [
            TtsVoice(
                name=f"{model}/{voice}" if many else voice,
                description=f"{voice}, spoken by {model}",
                languages=list(speaker.files.languages or (speaker.files.language,)),
                **about,
            )
            for model, speaker in catalog.models.items()
            for voice in catalog.voices(model)
        ]
        program = TtsProgram(
            name="myxtts",
            description="MyXTTS",
            voices=voices,
            supports_synthesize_streaming=True,
            **about,
        )
        return Info(tts=[program]).event()

    async def _write(self, event: Event) -> None:
        await asyncio.wait_for(
            async_write_event(event, self._writer), self._studio.settings.patience
        )
