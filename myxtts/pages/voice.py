"""What a run's pages begin with: its voice, to be listened to and looked at."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from myxtts.pages.page import Page, data_uri
from myxtts.pages.render import render
from myxtts.runs.samples import Sample, read_sentences

MOST_STEPS = 4  # at which a sentence can be heard on a page

Address = Callable[[Sample, str], str]  # of a sample's "wav" or "png"


def voice_section(page: Page, run: Path, address: Address) -> Markup:
    """The sentences of a run with players and pictures; nothing where there is none."""
    sentences = [
        (
            sentence.text or sentence.name.replace("_", " "),
            [(_when(page, sample), address(sample, "wav")) for sample in sentence.samples],
            address(sentence.samples[-1], "png") if sentence.samples[-1].picture.is_file() else "",
        )
        for sentence in read_sentences(run, most=MOST_STEPS)
    ]
    if not sentences:
        return Markup()
    return Markup(render(page, "voice.html", sentences=sentences))  # noqa: S704 - our template


def embedded(sample: Sample, kind: str) -> str:
    """The file itself as an address, for a page that opens anywhere."""
    content = (sample.picture if kind == "png" else sample.wave).read_bytes()
    if kind == "png":
        return data_uri("image/png", content)
    import soundfile  # late: monitors of runs without samples need none

    wave, rate = soundfile.read(io.BytesIO(content), dtype="int16")
    packed = io.BytesIO()
    soundfile.write(packed, wave, rate, format="FLAC")  # half of a WAV, and every browser plays it
    return data_uri("audio/flac", packed.getvalue())


def served(sample: Sample, kind: str) -> str:
    """Where the live page's server has it."""
    return f"sample/{sample.step}/{sample.name}.{kind}"


def _when(page: Page, sample: Sample) -> Markup:
    if sample.step == 0:
        return page.say("before training")
    return page.say("Step {}", page.number(sample.step))
