"""`myxtts base`: the voice that comes with MyXTTS, and how it was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, make_console, start_logging
from myxtts.config.model import ModelSize
from myxtts.training.recipe import SHARPNESS

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig

app = typer.Typer(
    help="The base voice, from which new voices start: what it is, and how to make it anew.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

STEPS = {"tiny": 9000, "small": 20_000, "normal": 60_000, "big": 100_000}
BATCH_FRAMES = 4096  # as many as 16 sentences of three seconds
# Speakers are many, what they say follows their reference whatever the words, and none is learnt
# by heart.
AUGMENT_SPEED, AUGMENT_COLOUR_DB, DROPOUT = 0.12, 3.0, 0.05


@app.command()
def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where corpus and run are kept.")],
    size: Annotated[ModelSize, typer.Option(help="Size of the network.")] = "tiny",
    recordings: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="People's recordings with a clip list; repeatable."),
    ] = None,
    recordings_of_words: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="The same, of single words with a pause after each."),
    ] = None,
    leave_out: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Speakers kept for judging, never heard.")
    ] = "",
    english_texts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="English texts, a line each, for espeak-ng to say."),
    ] = None,
    voices: Annotated[int, typer.Option(min=2, help="Synthetic speakers.")] = 240,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Updates; the default depends on the size.")
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option(metavar="VOICE", help="A base voice to go on from, at a lower rate."),
    ] = None,
    sharpness: Annotated[
        float, typer.Option(min=0.0, help="Weight of the critic, as for `myxtts train`.")
    ] = SHARPNESS,
    seed: Annotated[int, typer.Option(min=0, help="Of texts, voices, weights and batches.")] = 0,
    debug: Debug = False,
) -> None:
    """Make the corpus of the base voice and train on it; interrupted, the same command goes on.

    espeak-ng speaks every language in many voices. Recordings of people are what makes it speak
    like people and clone them: those of the shipped voice are named on its card.
    """
    start_logging()
    from myxtts.corpora.base_voice import Recordings
    from myxtts.training.recipe import check_there

    if init_from is not None and not (out / "run").is_dir():
        check_there(init_from)  # making the corpus takes minutes
    left_out = frozenset(filter(None, map(str.strip, leave_out.split(","))))
    people = [Recordings(folder, False, left_out) for folder in recordings or []]
    people += [Recordings(folder, True, left_out) for folder in recordings_of_words or []]
    _make_corpus(out / "corpus", people, english_texts, voices=voices, seed=seed)
    load_tensorflow()
    from myxtts.pages.report import report_at_the_end
    from myxtts.training import make_trainer

    config = base_config(
        out / "corpus",
        out / "run",
        size=size,
        steps=steps or STEPS[size],
        init_from=init_from,
        sharpness=sharpness,
        seed=seed,
    )
    with make_trainer(config) as trainer, report_at_the_end(trainer.run.path):
        result = trainer.train()
    if result["stopped_by"] is not None:
        echo("Stopped; the same command goes on from there.")
        raise typer.Exit(128 + result["stopped_by"])
    echo(f"Trained {result['steps']} steps. Ship it: myxtts base export {out} FOLDER")


def _make_corpus(
    folder: Path, people: list[Any], english_texts: Path | None, *, voices: int, seed: int
) -> None:
    from rich.progress import Progress

    from myxtts.corpora.base_voice import make_base_corpus

    console = make_console()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("the corpus is made", total=None)
        facts = make_base_corpus(
            folder,
            recordings=people,
            english_texts=english_texts,
            voices=voices,
            seed=seed,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    for source, counted in facts["sources"].items():
        echo(
            f"{source}: {counted['clips']} clips, {counted['minutes']} minutes, "
            f"{counted['speakers']} speakers, {len(counted['languages'])} languages"
        )


def base_config(
    corpus: Path,
    run: Path,
    *,
    size: ModelSize,
    steps: int,
    init_from: Path | None,
    sharpness: float,
    seed: int,
) -> XTTSConfig:
    """The recipe of the base voice: a few static shapes of equally many frames."""
    from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig

    learning_rate = 2e-3 if size == "tiny" else 1e-3
    return XTTSConfig(
        model=ModelConfig(size=size),
        data=DataConfig(
            train_data=corpus,
            tokenizer="phonemes",
            batch_frames=BATCH_FRAMES,
            max_buckets=4,
            cache="memory",
            augment_speed=AUGMENT_SPEED,
            augment_colour_db=AUGMENT_COLOUR_DB,
            stall_timeout=86_400,  # hours in the background, where it may be paused for a while
        ),
        training=TrainingConfig(
            checkpoint_dir=run,
            max_steps=steps,
            learning_rate=learning_rate if init_from is None else learning_rate / 2,
            warmup_steps=300 if init_from is None else 50,
            init_from=init_from,
            sharpness=sharpness,
            dropout=DROPOUT,
            ema_decay=0.999,
            seed=seed,
            checkpoint_steps=500,
            checkpoint_minutes=5.0,
            keep_checkpoints=3,
            validation_steps=500,
            sample_steps=1000,
        ),
    )


@app.command()
def export(
    made: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that `myxtts base train` made.")
    ],
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to make or replace.")],
    numbers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What `python -m benchmarks.base_voice` wrote."),
    ] = None,
    note: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A line for the card, as where recordings are from."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the newest averaged weights as a base voice: half precision, with its card."""
    start_logging()
    from myxtts.inference.base_card import make_card
    from myxtts.inference.export import export_voice

    card = make_card(made, numbers=numbers, notes=note or [])
    folder = export_voice(made / "run", out, card=card)
    size_mb = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    echo(f"{out}: {card['size']}, step {card['steps']}, {size_mb:.2f} MB")


@app.command()
def show(
    as_json: Annotated[
        bool, typer.Option("--json", help="The whole cards, with seeds and hashes, in a list.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Print the card of the base voice: what it heard, how good it is, what it is not."""
    start_logging()
    from myxtts.base import base_folder, base_sizes, read_card

    base_folder()  # says it where there is none
    cards = [read_card(size) for size in reversed(base_sizes())]
    if as_json:
        typer.echo(json.dumps(cards, ensure_ascii=False, indent=1))
        return
    from myxtts.cli.base_card import print_cards

    print_cards(cards)
