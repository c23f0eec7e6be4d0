"""One request from its text to its last chunk, the same for every protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from myxtts.errors import MyXTTSError
from myxtts.inference.script import Delivery, Line, Script
from myxtts.inference.speaker import Chunk, HeardVoice, Speaker
from myxtts.serving.catalog import Catalog
from myxtts.serving.metrics import Metrics
from myxtts.serving.requests import SpeechRequest
from myxtts.serving.scheduler import Job, QueueFullError, Scheduler
from myxtts.serving.settings import ServeSettings
from myxtts.text.scripts import likely_language

log = logging.getLogger(__name__)


@dataclass
class Speech:
    """A text that is about to be spoken: checked, and its voice heard."""

    request: SpeechRequest
    speaker: Speaker
    voice: HeardVoice
    delivery: Delivery
    script: Script
    job: Job
    began: float
    protocol: str
    studio: Studio = field(repr=False)
    seconds: float = 0.0  # of audio so far
    first_audio: float | None = None

    @property
    def ignored(self) -> list[str]:
        """What was asked for in vain."""
        return [*self.request.ignored, *self.script.unsupported]

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The audio, line by line, as soon as each is made."""
        lines: list[Line] = self.script.lines
        reading = self.speaker.read_timed(lines, voice=self.voice, delivery=self.delivery)
        async for chunk in self.job.chunks(reading):
            if self.first_audio is None:
                self.first_audio = time.monotonic() - self.began
                self.studio.metrics.first_audio.observe(self.first_audio)
            self.seconds += len(chunk.wave) / self.speaker.sample_rate
            yield chunk


class Studio:
    """The models, the threads that speak, and the counters of one server."""

    def __init__(self, catalog: Catalog, settings: ServeSettings) -> None:
        self.catalog, self.settings = catalog, settings
        self.scheduler = Scheduler(workers=settings.num_workers, max_queue=settings.max_queue)
        self.metrics = Metrics(lambda: self.scheduler.num_jobs)
        # Reading a text takes a while too, and must not hold up those who are being sent audio.
        self._readers = ThreadPoolExecutor(settings.num_workers, thread_name_prefix="reader")

    @asynccontextmanager
    async def speech(self, request: SpeechRequest, protocol: str) -> AsyncIterator[Speech]:
        """A place in the queue for a request, read and checked; freed however it ends."""
        began = time.monotonic()
        try:
            job = self.scheduler.admit()
        except QueueFullError:
            self.metrics.requests.labels(protocol, "refused").inc()
            raise
        outcome, speech = "left", None  # a client that goes away cancels what runs here
        try:
            loop = asyncio.get_running_loop()
            prepared = await loop.run_in_executor(self._readers, self._prepare, request)
            speech = Speech(request, *prepared, job, began, protocol, self)
            yield speech
            outcome = "done"
        except MyXTTSError:
            outcome = "invalid"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            self.scheduler.dismiss(job)
            self._count(outcome, protocol, request, speech, time.monotonic() - began)

    def close(self) -> None:
        """End the threads."""
        self.scheduler.close()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, request: SpeechRequest) -> tuple[Speaker, HeardVoice, Delivery, Script]:
        name, speaker = self.catalog.model(request.model)
        language = request.language or _guess_language(request.text, speaker)
        delivery = speaker.delivery(language, **request.how)
        script = speaker.script(
            request.text, delivery, lexicon=request.lexicon, with_words=request.times
        )
        return speaker, self.catalog.hear(name, request.voice), delivery, script

    def _count(
        self,
        outcome: str,
        protocol: str,
        request: SpeechRequest,
        speech: Speech | None,
        took: float,
    ) -> None:
        self.metrics.requests.labels(protocol, outcome).inc()
        if speech is not None:
            self.metrics.duration.observe(took)
            self.metrics.audio.inc(speech.seconds)
            self.metrics.characters.inc(len(request.text))
        seconds = speech.seconds if speech is not None else 0.0
        said = f": {request.text!r}" if self.settings.log_texts else ""
        log.info(
            "%s %s: %.1f s of speech from %d characters in %.2f s%s",
            *(protocol, outcome, seconds, len(request.text), took, said),
        )


def _guess_language(text: str, speaker: Speaker) -> str | None:
    """The language of the text's script, where it is not that of the voice's own language."""
    likely = likely_language([text])
    own = speaker.files.language_for(None)
    if likely is None or likely == "en" or likely == own:  # Latin letters may be any language
        return None
    return likely if likely in speaker.files.languages else None
