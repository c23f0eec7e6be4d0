"""`myxtts demo`: a voice trained on this machine's CPU, from the base voice, and what it says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, make_console, start_logging
from myxtts.errors import MyXTTSError
from myxtts.messages import harmless, where_programs_are

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.list_forms import Clip
    from myxtts.pipeline.telemetry import PipelineStats

GUESSED_RATE = 3.0  # steps a second on two cores, before that
SENTENCES = 2  # of each held-out set
UNSEEN_SPEAKERS = 4  # who say a sentence each
REFERENCES = 3  # recordings to clone a voice from
MANY = "many"
ENGLISH = "en"
SIZE: Final = "tiny"
MINUTES = {False: 6.0, True: 15.0}  # of training, by whether there are many voices
TO_TYPE = {"en": "Alice borrows twelve dark bottles.", "fa": "مریم دوازده کتاب قدیمی خرید."}


def _read_voices(text: str) -> str:
    if text not in ("1", "2", "3", "4", MANY):
        raise typer.BadParameter(f"{text!r} is neither 1, 2, 3, 4 nor {MANY}.")
    return text


def _read_language(text: str) -> str:
    if text not in TO_TYPE:
        raise typer.BadParameter(f"there is no demo in {text!r}: one of {', '.join(TO_TYPE)}.")
    return text


def demo(
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.5,
            help="How long to train. On two cores the default of 6 gives clear speech, and that of "
            "15 with many voices also their likeness.",
        ),
    ] = None,
    voices: Annotated[
        str,
        typer.Option(
            metavar=f"1..4|{MANY}",
            callback=_read_voices,
            help="Speakers in the corpus; with many (120) it learns to clone voices it never "
            "heard.",
        ),
    ] = "4",
    language: Annotated[
        str,
        typer.Option(
            metavar="|".join(TO_TYPE),
            callback=_read_language,
            help="What it speaks: en is English, fa Persian with its short vowels and ezafe.",
        ),
    ] = ENGLISH,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the batches.")] = 0,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where everything is written: demo if not given, and demo/fa for Persian."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Speak a small corpus with espeak-ng, train a tiny voice on it, and let it say new sentences.

    The base voice that comes with MyXTTS says a sentence first. Training starts from it, and runs
    through the memory-isolated pipeline on two simulated devices of this CPU: one makes the
    features while the other trains. A demo that was interrupted goes on where it was.
    """
    start_logging()
    from rich.text import Text

    console = make_console()
    many = voices == MANY
    minutes = minutes or MINUTES[many]
    if output_dir is None:
        output_dir = Path("demo") if language == ENGLISH else Path("demo") / language
    corpus = _make_corpus(output_dir, voices=voices, language=language, console=console)
    load_tensorflow()
    from myxtts.pages.report import report_at_the_end
    from myxtts.training import make_trainer
    from myxtts.training.timed import train_for

    run = output_dir / "run"
    config = _config(corpus, run, minutes=minutes, seed=seed)
    sayings = _held_out(corpus, many=many)
    speech = output_dir / "speech"
    with make_trainer(config) as trainer:
        if config.training.init_from is not None:
            ((path, text),) = _speak(config.training.init_from, [sayings[0].by_base()], speech)
            console.print("What the base voice says before any training:")
            console.print(Text.assemble(f"  {path}  ", (harmless(text), "dim")))
        if _is_finished(run):
            console.print(f"This demo is trained already. To train anew, delete {run}")
        else:
            with report_at_the_end(run):
                stats, trace = train_for(trainer, minutes=minutes), run / "trace.json"
            _report(stats["stats"], console)
            console.print(f"Timeline: {trace} (open it in ui.perfetto.dev or chrome://tracing)")
            console.print(f"Report, to be opened in a browser: {run / 'report.html'}")
            if stats["stopped_by"] is not None:
                console.print("Stopped; the same command goes on from there.")
                raise typer.Exit(128 + stats["stopped_by"])
            (run / FINISHED).touch()
    console.print("\nListen to what it says (and look: each has a picture beside it):")
    for path, text in _speak(run, sayings, speech):
        console.print(Text.assemble(f"  {path}  ", (harmless(text), "dim")))
    console.print(f"The run, with checkpoints, events and TensorBoard files: {run}")
    console.print("Next, let it say what you type, judge it by numbers, watch its curves, or train")
    console.print("on your own recordings:")
    programs = where_programs_are()
    benchmark = "voices" if many else "intelligibility"
    for command in (
        _speaking_command(run, corpus, output_dir / "mine.wav", language=language, many=many),
        f"python -m benchmarks.{benchmark if language == ENGLISH else 'persian_speech'} {run}",
        f"myxtts evaluate {run}",
        f"tensorboard --logdir {run / 'tensorboard'}",
        "myxtts train --train-data YOUR_FOLDER --checkpoint-dir runs/my-voice",
    ):
        echo(f"  {programs}{command}")  # whole, to be copied: the console would wrap it


FINISHED = "demo.finished"


def _is_finished(run: Path) -> bool:
    return (run / FINISHED).exists()


def _make_corpus(output_dir: Path, *, voices: str, language: str, console: Any) -> Path:
    from rich.progress import Progress

    from myxtts.corpora.demo import make_demo_corpus
    from myxtts.corpora.many_voices import make_many_voices_corpus

    folder = output_dir / "corpus"
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MyXTTSError(
            f"The output folder {output_dir} cannot be made: {error}", "give another --output-dir"
        ) from error
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("espeak-ng speaks the corpus", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        if voices == MANY:
            summary = make_many_voices_corpus(folder, language=language, progress=show)
        else:
            summary = make_demo_corpus(folder, voices=int(voices), language=language, progress=show)
    unseen = len(summary.unseen_speakers)
    console.print(
        f"Corpus: {summary.num_clips} clips, {summary.seconds / 60:.1f} minutes, "
        f"{len(summary.speakers)} voices, in {folder}"
        + (f"; {unseen} more voices are kept apart, to be cloned" if unseen else "")
    )
    return folder


def _config(corpus: Path, run: Path, *, minutes: float, seed: int) -> XTTSConfig:
    """What learns quickest on a small corpus: one shape, a high rate, a short average."""
    from myxtts.base import BASE, base_sizes
    from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig
    from myxtts.training.recipe import SHARPNESS

    begun = run / "config.yaml"  # of a demo that goes on, perhaps one that had no critic yet
    kept = XTTSConfig.from_yaml(begun).training.sharpness if begun.is_file() else SHARPNESS
    return XTTSConfig(
        model=ModelConfig(size=SIZE),
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
            sharpness=kept,
            seed=seed,
            checkpoint_minutes=1.0,
            init_from=Path(BASE) if SIZE in base_sizes() else None,
        ),
    )


@dataclass(frozen=True)
class _Saying:
    """A sentence to be said in someone's voice, and how they said it themselves."""

    name: str
    speaker: str
    text: str
    language: str
    original: Path
    references: list[Path]

    def by_base(self) -> _Saying:
        """The same, said by the base voice."""
        return replace(self, name=f"base_{self.name}")


def _held_out(corpus: Path, *, many: bool) -> list[_Saying]:
    """What to say at the end, and in whose voice."""
    from myxtts.corpora import demo
    from myxtts.data.manifests import read_manifest

    def read(manifest: str) -> list[tuple[Path, Clip]]:
        listed = read_manifest(corpus / manifest)
        return [(listed.folder / clip.audio, clip) for clip in listed]

    new_sentences, new_words = read(demo.NEW_SENTENCES_MANIFEST), read(demo.NEW_WORDS_MANIFEST)
    chosen = [
        (f"{name}_{number}", clip, new_sentences + new_words)
        for name, clips in (("new_sentence", new_sentences), ("new_words", new_words))
        for number, clip in enumerate(clips[:SENTENCES], start=1)
    ]
    if many:
        references, tests = read(demo.UNSEEN_REFERENCES_MANIFEST), read(demo.UNSEEN_TESTS_MANIFEST)
        first_of_each = list({clip.speaker: (path, clip) for path, clip in tests[::-1]}.values())
        chosen += [
            (f"unseen_voice_{number}", clip, references)
            for number, clip in enumerate(first_of_each[::-1][:UNSEEN_SPEAKERS], start=1)
        ]
    return [
        _Saying(
            name,
            clip.speaker,
            clip.text,
            clip.language,
            path,
            _recordings(clip, others)[:REFERENCES],
        )
        for name, (path, clip), others in chosen
    ]


def _recordings(clip: Clip, among: list[tuple[Path, Clip]]) -> list[Path]:
    """Other recordings of a clip's speaker."""
    return [p for p, other in among if other.speaker == clip.speaker and other.text != clip.text]


def _speak(run: Path, sayings: list[_Saying], folder: Path) -> list[tuple[Path, str]]:
    """Say held-out sentences in the corpus's voices; returns files and texts."""
    import soundfile

    from myxtts.inference.pictures import draw_speech
    from myxtts.inference.synthesizer import Synthesizer

    synthesizer = Synthesizer.load(run)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for saying in sayings:
        (speech,) = synthesizer.perform(
            [saying.text], references=saying.references, language=saying.language
        )
        path = folder / f"{saying.name}_{saying.speaker}.wav"
        soundfile.write(path, speech.wave.clip(-1, 1), synthesizer.sample_rate, "PCM_16")
        picture = draw_speech(
            {"original": synthesizer.mel_of(saying.original), "synthesis": speech.mel},
            alignment=speech.alignment,
            symbols=speech.symbols,
            pitch={"synthesis": speech.pitch},
            title=saying.text,
        )
        path.with_suffix(".png").write_bytes(picture)
        written.append((path, saying.text))
    return written


def _speaking_command(run: Path, corpus: Path, output: Path, *, language: str, many: bool) -> str:
    """A command line that works as it is printed, if possible with a voice never heard."""
    import soundfile

    from myxtts.corpora.demo import NEW_SENTENCES_MANIFEST, UNSEEN_REFERENCES_MANIFEST
    from myxtts.data.manifests import read_manifest
    from myxtts.inference.references import LEAST_SECONDS

    manifest = read_manifest(
        corpus / (UNSEEN_REFERENCES_MANIFEST if many else NEW_SENTENCES_MANIFEST)
    )
    recordings = [manifest.folder / clip.audio for clip in manifest]
    long = (path for path in recordings if soundfile.info(path).duration >= LEAST_SECONDS)
    flags: dict[str, Path | str] = {
        "--model": run,
        "--reference": next(long),
        "--text": TO_TYPE[language],
        "--output": output,
    }
    if language != ENGLISH:
        flags["--language"] = language
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
