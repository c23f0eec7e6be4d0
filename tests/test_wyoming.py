"""Home Assistant's protocol, spoken with its own client package."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from myxtts.serving.catalog import Catalog
from myxtts.serving.settings import ServeSettings
from myxtts.serving.speech import Studio
from myxtts.serving.wyoming_server import WyomingServer
from myxtts.text import espeak
from tests.small_voice import small_voice

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")


def talk(conversation):
    """Run a conversation with a server of its own."""

    async def run():
        studio = Studio(Catalog({"tiny": small_voice()}), ServeSettings(workers=1))
        server = WyomingServer(studio, "127.0.0.1", 0)
        port = await server.start()
        try:
            return await asyncio.wait_for(conversation(port), 60)
        finally:
            await server.stop(grace=5.0)
            studio.close()

    return asyncio.run(run())


async def read_until(client, last):
    events = []
    while not events or not last.is_type(events[-1].type):
        event = await client.read_event()
        assert event is not None
        events.append(event)
    return events


def seconds_of(events) -> float:
    chunks = [AudioChunk.from_event(e) for e in events if AudioChunk.is_type(e.type)]
    return sum(chunk.seconds for chunk in chunks)


def test_it_says_what_it_is_and_speaks():
    async def conversation(port):
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Describe().event())
            info = Info.from_event(await client.read_event())
            await client.write_event(
                Synthesize(text="Hello there.", voice=SynthesizeVoice(name="default")).event()
            )
            return info, await read_until(client, AudioStop)

    info, events = talk(conversation)
    (program,) = info.tts
    assert program.supports_synthesize_streaming
    assert [voice.name for voice in program.voices] == ["default"]
    assert "fa" in program.voices[0].languages
    assert AudioStart.from_event(events[0]).rate == 22_050
    expected = small_voice().say("Hello there.", voice=small_voice().files.voices["default"])
    assert seconds_of(events) == pytest.approx(len(expected) / 22_050, abs=0.001)


def test_a_text_that_arrives_in_pieces_is_spoken_as_its_sentences_end():
    async def conversation(port):
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(SynthesizeStart().event())
            for piece in ("Hello th", "ere. How a", "re you?"):
                await client.write_event(SynthesizeChunk(text=piece).event())
            early = await read_until(client, AudioChunk)  # before the text has ended
            await client.write_event(Synthesize(text="Hello there. How are you?").event())
            await client.write_event(SynthesizeStop().event())
            return early, await read_until(client, SynthesizeStopped)

    early, rest = talk(conversation)
    kinds = [event.type for event in (*early, *rest)]
    assert kinds.count("audio-start") == 1
    assert kinds[-2:] == ["audio-stop", "synthesize-stopped"]
    assert seconds_of([*early, *rest]) > 1.5


def test_what_cannot_be_said_is_an_error_and_the_talk_goes_on():
    async def conversation(port):
        async with AsyncTcpClient("127.0.0.1", port) as client:
            nobody = SynthesizeVoice(name="../nobody")
            await client.write_event(Synthesize(text="Hi.", voice=nobody).event())
            (refused,) = await read_until(client, Error)
            await client.write_event(Synthesize(text="Hello.").event())
            return Error.from_event(refused).text, await read_until(client, AudioStop)

    problem, events = talk(conversation)
    assert "no voice '../nobody'" in problem
    assert seconds_of(events) > 0.2


@pytest.mark.parametrize(
    "raw",
    [
        b"no json\n",
        b'{"type": "synthesize", "data_length": 99999999999}\n',
        b'{"type": "synthesize", "payload_length": -5}\n',
        b'{"type": "synthesize"}\n',
        b"x" * 200_000,
    ],
)
def test_nonsense_ends_its_own_connection_only(raw):
    async def conversation(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            writer.write(raw)
            await writer.drain()
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Describe().event())
            return Info.from_event(await client.read_event())

    assert talk(conversation).tts
