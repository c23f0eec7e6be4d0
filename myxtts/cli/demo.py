"""`myxtts demo`: a voice trained from nothing on this machine's CPU, and what it says."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.cli.output import Debug, load_tensorflow, start_logging
from myxtts.errors import MyXTTSError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.pipeline.telemetry import PipelineStats
    from myxtts.training.trainer import XTTSTrainer

RATE_STEPS = 30  # after which the rate is known well enough to plan the rest
GUESSED_RATE = 3.0  # steps a second on two cores, before that
LAST_PLAN_S = 60.0  # before the end; the rate of learning falls smoothly from then on
SENTENCES = 2  # of each held-out set


def demo(
    minutes: Annotated[
        float, typer.Option(min=0.5, help="How long to train; 6 give clear speech on two cores.")
    ] = 6.0,
    voices: Annotated[int, typer.Option(min=1, max=4, help="Speakers in the corpus.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the batches.")] = 0,
    output_dir: Annotated[Path, typer.Option(help="Where everything is written.")] = Path("demo"),
    debug: Debug = False,
) -> None:
    """Speak a small corpus with espeak-ng, train a tiny voice on it, and let it say new sentences.

    Training runs through the memory-isolated pipeline on two simulated devices of this CPU: one
    makes the features while the other trains. A demo that was interrupted goes on where it was.
    """
    start_logging()
    from rich.console import Console

    console = Console()
    corpus = _make_corpus(output_dir, voices=voices, console=console)
    load_tensorflow()
    from myxtts.training import make_trainer

    config = _config(corpus, output_dir / "run", minutes=minutes, seed=seed)
    with make_trainer(config) as trainer:
        run = trainer.run.path
        if _is_finished(run):
            console.print(f"This demo is trained already. To train anew, delete {run}")
        else:
            stats, trace = _train(trainer, minutes=minutes), output_dir / "trace.json"
            stats["telemetry"].write_trace(trace)
            _report(stats["stats"], console)
            console.print(f"Timeline: {trace} (open it in ui.perfetto.dev or chrome://tracing)")
            if stats["stopped_by"] is not None:
                console.print("Stopped; the same command goes on from there.")
                raise typer.Exit(128 + stats["stopped_by"])
            (run / FINISHED).touch()
    speech = _speak(run, corpus, output_dir / "speech")
    console.print("\nListen to what it says (and look: each has a picture beside it):")
    for path, text in speech:
        console.print(f"  {path}  [dim]{text}[/dim]", highlight=False)
    console.print(f"The run, with checkpoints, events and TensorBoard files: {run}")
    console.print("Next, let it say what you type, judge it by numbers, watch its curves, or train")
    console.print("on your own recordings:")
    programs = _where_programs_are()
    for command in (
        _speaking_command(run, corpus, output_dir / "mine.wav"),
        f"python -m benchmarks.intelligibility {run}",
        f"tensorboard --logdir {run / 'tensorboard'}",
        "myxtts train --train-data YOUR_FOLDER --checkpoint-dir runs/my-voice",
    ):
        typer.echo(f"  {programs}{command}")  # whole, to be copied: the console would wrap it


FINISHED = "demo.finished"


def _where_programs_are() -> str:
    """What to type before a program's name: nothing, or the folder of this environment."""
    folder = Path(sys.executable).parent  # not resolved: that of the environment, not of its base
    if str(folder) in os.environ.get("PATH", "").split(os.pathsep):
        return ""
    with contextlib.suppress(ValueError):  # elsewhere: the whole path
        folder = folder.relative_to(Path.cwd())
    return f"{folder}/"


def _is_finished(run: Path) -> bool:
    return (run / FINISHED).exists()


def _make_corpus(output_dir: Path, *, voices: int, console: Any) -> Path:
    from rich.progress import Progress

    from myxtts.data.demo import make_demo_corpus

    folder = output_dir / "corpus"
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MyXTTSError(
            f"The output folder {output_dir} cannot be made: {error}", "give another --output-dir"
        ) from error
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("espeak-ng speaks the corpus", total=None)
        summary = make_demo_corpus(
            folder,
            voices=voices,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    console.print(
        f"Corpus: {summary.num_clips} clips, {summary.seconds / 60:.1f} minutes, "
        f"{len(summary.speakers)} voices, in {folder}"
    )
    return folder


def _config(corpus: Path, run: Path, *, minutes: float, seed: int) -> XTTSConfig:
    """What learns quickest on a small corpus: one shape, a high rate, a short average."""
    from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig

    return XTTSConfig(
        model=ModelConfig(size="tiny"),
        data=DataConfig(
            train_data=corpus,
            static_shapes="one",
            cache="memory",
            simulate=True,
            enable_memory_isolation=True,
        ),
        training=TrainingConfig(
            checkpoint_dir=run,
            max_steps=int(minutes * 60 * GUESSED_RATE),  # until the rate is known
            learning_rate=2e-3,
            warmup_steps=50,
            ema_decay=0.995,
            seed=seed,
            checkpoint_minutes=1.0,
            validation_steps=100_000,
            sample_steps=100_000,
        ),
    )


def _train(trainer: XTTSTrainer, *, minutes: float) -> dict[str, Any]:
    began = time.monotonic() - trainer.state.seconds
    first = trainer.state.step
    measured_at = 0.0

    def plan_the_rest(step: int, losses: Any) -> None:
        nonlocal measured_at
        now = time.monotonic()
        if step == first + 1:
            measured_at = now  # the first step compiled
        # Planned again and again, since a busy machine changes its pace.
        elif (step - first) % RATE_STEPS == 0:
            left = began + 60 * minutes - now
            rate = (step - first - 1) / (now - measured_at)
            if left > LAST_PLAN_S or step == first + RATE_STEPS:
                trainer.stop_after(step + max(1, int(left * rate)))

    return trainer.train(on_step=plan_the_rest)


def _speak(run: Path, corpus: Path, folder: Path) -> list[tuple[Path, str]]:
    """Say held-out sentences in the corpus's voices; returns files and texts."""
    import soundfile

    from myxtts.data.demo import NEW_SENTENCES_MANIFEST, NEW_WORDS_MANIFEST
    from myxtts.data.ljspeech import read_manifest
    from myxtts.inference.synthesizer import Synthesizer
    from myxtts.observe.pictures import draw_speech

    synthesizer = Synthesizer.load(run)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, manifest in (
        ("new_sentence", read_manifest(corpus / NEW_SENTENCES_MANIFEST)),
        ("new_words", read_manifest(corpus / NEW_WORDS_MANIFEST)),
    ):
        clips = list(manifest)
        for number, clip in enumerate(clips[:SENTENCES], start=1):
            others = [c for c in clips if c.speaker == clip.speaker and c.text != clip.text]
            (speech,) = synthesizer.perform(
                [clip.text], references=[manifest.folder / c.audio for c in others[:3]]
            )
            path = folder / f"{name}_{number}_{clip.speaker}.wav"
            soundfile.write(path, speech.wave.clip(-1, 1), synthesizer.sample_rate, "PCM_16")
            picture = draw_speech(
                {
                    "original": synthesizer.mel_of(manifest.folder / clip.audio),
                    "synthesis": speech.mel,
                },
                alignment=speech.alignment,
                symbols=speech.symbols,
                pitch={"synthesis": speech.pitch},
                title=clip.text,
            )
            path.with_suffix(".png").write_bytes(picture)
            written.append((path, clip.text))
    return written


def _speaking_command(run: Path, corpus: Path, output: Path) -> str:
    """A command line that works as it is printed."""
    import soundfile

    from myxtts.data.demo import NEW_SENTENCES_MANIFEST
    from myxtts.data.ljspeech import read_manifest
    from myxtts.inference.references import LEAST_SECONDS

    manifest = read_manifest(corpus / NEW_SENTENCES_MANIFEST)
    recordings = [manifest.folder / clip.audio for clip in manifest]
    long = (path for path in recordings if soundfile.info(path).duration >= LEAST_SECONDS)
    flags = {
        "--model": run,
        "--reference": next(long),
        "--text": "Alice borrows twelve dark bottles.",
        "--output": output,
    }
    words = (f"{flag} {shlex.quote(str(value))}" for flag, value in flags.items())
    return f"myxtts synthesize {' '.join(words)}"


def _report(stats: PipelineStats, console: Any) -> None:
    from rich.table import Table

    table = Table(title="Where the time went (two simulated devices on the CPU, no GPU measured)")
    for heading in ("stage", "busy", "waiting for input", "waiting for room"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for name, stage in stats.stages.items():
        whole = stage.busy_s + stage.waiting_input_s + stage.waiting_room_s or 1.0
        shares = (stage.busy_s, stage.waiting_input_s, stage.waiting_room_s)
        table.add_row(name, *(f"{share / whole:.0%}" for share in shares))
    console.print(table)
    variation = "" if stats.variation is None else f", step time varies by {stats.variation:.0%}"
    console.print(f"{stats.rate:.1f} steps/s{variation}; the slowest stage is '{stats.bottleneck}'")
