"""Every page we write, of made-up things; names from elsewhere can be chosen, however odd."""

from __future__ import annotations

import base64
import io
from collections import Counter
from pathlib import Path

import numpy as np
import soundfile

from myxtts.config.config import XTTSConfig
from myxtts.data.summary import DataSummary
from myxtts.evaluation.held_out import GIVEN, Source, SpokenClip
from myxtts.evaluation.pitch import Sound
from myxtts.evaluation.results import COLUMNS, ClipResult, Evaluation, Marks, Note, Shown
from myxtts.messages import Message
from myxtts.pages import data_report, evaluation, report
from myxtts.pages.live import live_page
from myxtts.pages.page import Language
from myxtts.pages.run_page import run_page
from myxtts.pipeline.telemetry import StageStats, StepStats
from myxtts.profiling.measurements import (
    Advice,
    Change,
    DeviceUse,
    Layout,
    Link,
    Profile,
    Sample,
    Span,
    StageTimes,
    Together,
)
from myxtts.runs.follow import RunFollower
from tests.told_runs import EVEN, PLAN, event, half_a_run, started, write_events, write_trace

STEPS = 20
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
LENGTHS = (3, 41, 98, 275, 1204, 980, 377, 120, 0, 31, 8, 1)  # clips of each length


def sample_profile(name: str = "my <data>") -> Profile:
    """A profile that the data device holds back."""
    stages = {
        "read": StageStats(STEPS, 0.5, 0.0, 9.5),
        "process": StageStats(STEPS, 9.8, 0.1, 0.1),
        "transfer": StageStats(STEPS, 0.3, 9.6, 0.1),
        "train": StageStats(STEPS, 6.0, 4.0, 0.0),
    }
    spans = tuple(
        Span(stage, "busy", n, 0.5 * n, 0.5 * n + share)
        for n in range(STEPS)
        for stage, share in (("process", 0.48), ("transfer", 0.02), ("train", 0.3))
    )
    samples = tuple(Sample(0.5 * n, 900.0 + n, 2000.0, n % 4, 0.5, 0.9) for n in range(STEPS))
    devices = tuple(
        DeviceUse(role, name, "card", busy, 2000.0, 8192.0, 24576.0, "TensorFlow allocator", 0.5)
        for role, name, busy in (("data", "/GPU:0", 0.98), ("model", "/GPU:1", 0.6))
    )
    buckets = (
        StepStats("16x224x80", 12, 0.5, 0.1, 0.0),
        StepStats("16x96x80", 8, 0.4, 0.2, 0.0),
    )
    workers = {"data.num_workers": 24}
    advice = Advice(
        changes=(
            Change("--num-workers 24", workers, "more wait at once", 1.4, "workers"),
            Change("--batch-size 8", {"data.batch_size": 8}, "less memory", None, "smaller-batch"),
        ),
        predicted_rate=2.8,
        layouts=(
            Layout("single", 1.5, "predicted"),
            Layout("split", 2.0, "measured"),
            Layout("data-parallel", 2.7, "predicted"),
        ),
        best_layout="split",
        layout_reason=(Message("The split is {} times as fast as one device.", ("1.33",)),),
        command="myxtts train --num-workers 24",
        verdict=Message("The state of things."),
    )
    return Profile(
        config=XTTSConfig(),
        simulated=False,
        cores=8,
        machine="8 cores, 2 GPUs",
        data_name=name,
        alone={stage: StageTimes((0.1, 0.2)) for stage in stages},
        together=Together(10.0, stages, (0.5,) * STEPS, buckets, (5, 10, 5, 0), 0, spans, samples),
        devices=devices,
        link=Link("peer-to-peer", 2.5, 9000.0),
        advice=advice,
    )


def sample_run(folder: Path, name: str = "my voice", *, error: str = "") -> Path:
    """A run that ended early, whose data side is too slow."""
    devices = {**PLAN, "data_device": name, "model_device": name}
    told = [started(run=name, devices=devices, host=name)]
    told += half_a_run({**EVEN, "train": 0.5, "read": 0.95})[1:]
    told.append(event("ended", error=error))
    write_trace(write_events(folder, told))
    write_samples(folder, text=name)
    return folder


def write_samples(run: Path, *, text: str, steps: tuple[int, ...] = (0, 250, 500)) -> None:
    """What could be heard of a run: one clip's sentence and one of the user's."""
    for step in steps:
        folder = run / "samples" / f"step_{step:08d}"
        folder.mkdir(parents=True)
        for name in ("sample_1", "own_text"):
            wave = io.BytesIO()
            soundfile.write(wave, np.zeros(2205), 22050, "PCM_16", format="WAV")
            (folder / f"{name}.wav").write_bytes(wave.getvalue())
            (folder / f"{name}.txt").write_text(text, encoding="utf-8", errors="replace")
            (folder / f"{name}.png").write_bytes(PIXEL)


def sample_evaluation(name: str = "ann", *, lists: tuple[str, ...] = ("new words", "other")):
    """Four clips of two voices in two lists, one of them to look at."""
    random = np.random.default_rng(0)
    sound = Sound(random.normal(-4, 1, [40, 80]).astype(np.float32), np.full(40, 150, np.float32))
    marks = Marks(0.75, name, 4.2, 0.031, 0.12, 0.083)
    clips = tuple(
        ClipResult(
            clip=SpokenClip(Path(f"{voice}.wav"), f"{voice} said this.", voice, "en", 2.0, source),
            words=words,
            marks=dict.fromkeys(COLUMNS, marks),
            seconds=dict.fromkeys(COLUMNS, 2.0),
            took_s={"synthesis": 0.4},
        )
        for voice in (name, "بهرام")
        for source, words in zip(lists, ("trained", "unseen"), strict=True)
    )
    shown = Shown(
        clip=clips[0].clip,
        waves=dict.fromkeys(COLUMNS, np.zeros(2205, np.float32)),
        sounds=dict.fromkeys(COLUMNS, sound),
        alignment=np.eye(4, 40, dtype=np.float32),
        symbols=tuple("abcd"),
    )
    notes = (Note("Words are not judged: pocketsphinx is not installed.", f"pip install {name}"),)
    return Evaluation(clips, (name, "بهرام"), 0.42, (shown,), notes)


def sample_summary(name: str = "Ann & co") -> DataSummary:
    """A folder in which most clips are kept, and something of every kind is odd."""
    return DataSummary(
        listed=1240,
        kept=1236,
        dropped={"missing": ["lost.wav", name], "too long": ["a", "b\udcff"]},
        hours=1.25,
        speakers=Counter({name: 1200, "بهرام": 36}),
        languages=Counter({"en": 1236}),
        histogram=[(0.8 + 0.95 * i, 1.75 + 0.95 * i, count) for i, count in enumerate(LENGTHS)],
        unknown_symbols=Counter({"\u064b": 7, "\u200c": 2, "<": 1, name: 1}),
        clipped=["loud.wav", name],
        mostly_silent=["quiet.wav"],
        cancelling=["against.wav"],
        speaker_minutes={name: 40.2, "بهرام": 1.5},
    )


def write_every_page(folder: Path, lang: Language, *, name: str) -> dict[str, Path]:
    """All pages in one language, with this name wherever one comes from elsewhere."""
    place = folder / f"{lang} {name}".replace("/", "_").replace("\0", "_")
    run = sample_run(place, name, error=f"ValueError: {name}")
    pages = {
        what: folder / f"{what}.{lang}.html"
        for what in ("run", "profile", "live", "evaluation", "data")
    }
    report.write_report(pages["run"], run, lang=lang)
    report.write_report(pages["profile"], sample_profile(name), lang=lang)
    follower = RunFollower(run)
    live = live_page(run_page(lang), name, follower.history, follower.poll(), run=run)
    pages["live"].write_text(live, encoding="utf-8")
    heading = evaluation.Heading(name, 1000, Source(GIVEN, Path(name)), 3, 7, 2)
    evaluation.write_evaluation(
        pages["evaluation"], sample_evaluation(name), heading, language=lang
    )
    data_report.write_report(pages["data"], sample_summary(name), title=name, language=lang)
    return pages
