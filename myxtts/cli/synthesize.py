"""`myxtts synthesize`: text to audio files, in the voice of a recording."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, make_console, start_logging
from myxtts.errors import ConfigError, DataError

if TYPE_CHECKING:
    from myxtts.inference.script import Line

ABOUT_BASE = (
    "The base voice ({size}): made to start a voice from. It comes near the speaker of the "
    "reference, no more; `myxtts base show` says how near."
)
STDIO = "-"


class Target(NamedTuple):
    """Where the audio goes: a file, a folder, or standard output."""

    path: Path | None  # None: standard output
    is_folder: bool = False


class Part(NamedTuple):
    """What becomes one file."""

    path: Path | None
    script: list[Line]


def synthesize(
    source: Annotated[
        str | None,
        typer.Argument(metavar="-", help="Reads the text from standard input."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="base|RUN_OR_EXPORT",
            help="Run folder or export, or base, the voice that comes with MyXTTS. Required.",
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="What to say; - reads it from standard input.")
    ] = None,
    text_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="UTF-8 text to read out; empty lines part paragraphs."),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Recording of the speaker, 2 s or more, in any language; repeat it to average "
            "several. Required, unless the export has a voice inside.",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Of the text; default: the voice's own.")
    ] = None,
    force_language: Annotated[
        bool,
        typer.Option("--force-language", help="Also in a language that the voice never heard."),
    ] = False,
    speed: Annotated[float, typer.Option(help="From 0.25 (slow) to 4 (fast).")] = 1.0,
    pitch_shift: Annotated[
        float, typer.Option(metavar="SEMITONES", help="Higher, or lower below 0.")
    ] = 0.0,
    timbre: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="How far each sound is moved to how the reference says it, from 0 to 1: more like "
            "the speaker, less clearly said. Default: 1 with the base voice, else 0.",
        ),
    ] = None,
    loudness: Annotated[
        float | None,
        typer.Option(
            metavar="LUFS",
            help="Make it as loud as this: -16 is usual for speech. Default: as the voice has it.",
        ),
    ] = None,
    lexicon: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How words are said: word, tab, /IPA/ or respelling."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Another take of voices with the flow head.")
    ] = 0,
    times: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write when each word and sentence is said: a .json, .srt or .vtt file.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DIR|-",
            help="A .wav or .flac file; a folder, which gets 0001.wav and so on, one for each line "
            "of the text; or - for WAV on standard output. Required.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Say a text of any length in the voice of the references, on the CPU.

    Sentence by sentence, with a pause between them and a longer one between paragraphs. A file
    appears when it is whole. The same seed gives the same audio. `{word|/IPA/}` says how a word is
    said, and a text that begins with `<speak` is read as SSML.
    """
    start_logging()
    if model is None:
        raise ConfigError(
            "There is no voice to speak with.", "--model RUN_OR_EXPORT, or --model base"
        )
    from myxtts.inference.references import read_references
    from myxtts.inference.script import Delivery
    from myxtts.inference.small.files import is_onnx_export
    from myxtts.text.lexicon import Lexicon

    target = _check_output(output)
    kind = _check_times(times, target)
    words = _read_text(source, text, text_file)
    own_words = Lexicon.load(lexicon) if lexicon is not None else None
    is_onnx = is_onnx_export(model.expanduser())
    voice_files = _read_voice(model, is_onnx=is_onnx)
    inside = getattr(voice_files, "voices", {})
    pieces = read_references(reference or []) if reference or not inside else None
    if voice_files.is_base:
        echo(ABOUT_BASE.format(size=voice_files.size), err=True)
    spoken = voice_files.language_for(language, force=force_language)
    delivery = Delivery(spoken, speed=speed, pitch_shift=pitch_shift, seed=seed, loudness=loudness)
    reading = {"lexicon": own_words, "with_words": times is not None}
    parts = _plan(words, target, voice_files, delivery.language, reading)
    speaker = _make_speaker(voice_files, timbre, is_onnx=is_onnx)
    voice = next(iter(inside.values())) if pieces is None else speaker.listen_to_pieces(pieces)
    began = time.monotonic()
    said: list[Any] = []

    def speak(script: list[Line]) -> Iterator[Any]:
        for chunk in speaker.read_timed(script, voice=voice, delivery=delivery):
            said.append(chunk.sentence)
            yield chunk.wave

    seconds = _write(parts, speak, sample_rate=speaker.sample_rate)
    took = time.monotonic() - began
    if times is not None:
        _write_times(times, said, kind)
    where = "standard output" if target.path is None else target.path
    files = f"{len(parts)} files, " if target.is_folder else ""
    # Standard output may be the audio's.
    echo(f"{where}: {files}{seconds:.1f} s of speech, made in {took:.1f} s", err=True)


def _read_voice(model: Path, *, is_onnx: bool) -> Any:
    if is_onnx:
        from myxtts.inference.small.files import load_small

        return load_small(model)
    from myxtts.inference.voice_files import load_voice

    return load_voice(model)


def _make_speaker(files: Any, timbre: float | None, *, is_onnx: bool) -> Any:
    if is_onnx:
        from myxtts.inference.small.threads import calm_blas
        from myxtts.inference.small.voice import SmallVoice

        calm_blas()
        return SmallVoice(files, timbre=timbre)
    load_tensorflow()
    from myxtts.inference.synthesizer import Synthesizer
    from myxtts.pipeline.hardware import HARDWARE

    HARDWARE.hide_gpus()  # fast enough without, and a training on them is not disturbed
    return Synthesizer(files, timbre=timbre)


def _check_times(times: Path | None, target: Target) -> str:
    if times is None:
        return ""
    from myxtts.inference.times import check_times_file

    if target.is_folder:
        raise ConfigError(
            "One file of times cannot be for many files of audio.", "--output FILE.wav with --times"
        )
    kind = check_times_file(times)
    if not times.expanduser().parent.is_dir():
        raise ConfigError(f"The folder {times.parent} does not exist.", f"mkdir -p {times.parent}")
    return kind


def _write_times(times: Path, said: list[Any], kind: str) -> None:
    from myxtts.inference.times import render_times

    path = times.expanduser()
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        partial.write_text(render_times(said, kind), encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _read_text(source: str | None, text: str | None, text_file: str | None) -> str:
    given = [name for name in (source, text, text_file) if name is not None]
    if len(given) != 1 or source not in (None, STDIO):
        problem = "There is more than one text." if len(given) > 1 else "There is no text to say."
        if source not in (None, STDIO):
            problem = f"The word {source!r} belongs to no flag."
        raise ConfigError(problem, 'one of --text "…", --text-file FILE, and - (standard input)')
    try:
        if STDIO in given:
            words = sys.stdin.buffer.read().decode("utf-8-sig")
        elif text_file is not None:
            words = Path(text_file).expanduser().read_text(encoding="utf-8-sig")
        else:
            words = text or ""
    except OSError as error:
        raise DataError(
            f"The text {text_file} cannot be read: {error}", "check the path"
        ) from error
    except UnicodeDecodeError as error:
        name = text_file or "on standard input"
        raise DataError(f"The text {name} is not UTF-8: {error}", "save it as UTF-8") from error
    if not words.strip():
        raise DataError("The text is empty.", "some words to say")
    return words


def _check_output(output: str | None) -> Target:
    from myxtts.inference.audio_files import FORMATS

    if output is None:
        raise ConfigError("There is nowhere to put the audio.", "--output FILE.wav, a folder, or -")
    if output == STDIO:
        if sys.stdout.isatty():
            raise ConfigError(
                "Audio would be printed onto the terminal.", "a pipe, or --output FILE.wav"
            )
        return Target(None)
    path = Path(output).expanduser()
    is_file = path.suffix.lower() in FORMATS
    if is_file and path.is_dir():
        raise ConfigError(f"{path} is a folder, not a file.", "another name")
    if not is_file and not path.is_dir() and (path.exists() or path.suffix):
        raise ConfigError(
            f"What to write to {path} is unclear.",
            f"a name that ends with {' or '.join(FORMATS)}, or a folder for one file a line",
        )
    if not path.parent.is_dir():
        raise ConfigError(f"The folder {path.parent} does not exist.", f"mkdir -p {path.parent}")
    folder = path.parent if is_file or not path.exists() else path
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"The folder {folder} cannot be written to.", "another --output")
    return Target(path, is_folder=not is_file)


def _plan(
    words: str, target: Target, voice: Any, language: str, reading: dict[str, Any]
) -> list[Part]:
    from myxtts.inference.script import warn_of, write_script

    unsupported: dict[str, None] = {}

    def script(text: str) -> list[Line]:
        written = write_script(
            text,
            tokenizer=voice.tokenizer,
            language=language,
            max_text_length=voice.max_text_length,
            **reading,
        )
        unsupported.update(dict.fromkeys(written.unsupported))
        return written.lines

    if not target.is_folder:
        parts = [Part(target.path, script(words))]
    else:
        assert target.path is not None
        lines = [line for line in words.splitlines() if line.strip()]
        parts = [
            Part(target.path / f"{number:04d}.wav", script(line))
            for number, line in enumerate(lines, start=1)
        ]
    warn_of(list(unsupported))
    return parts


def _write(parts: list[Part], speak: Any, *, sample_rate: int) -> float:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from myxtts.inference.audio_files import write_audio, write_stream

    console, total = make_console(stderr=True), sum(len(part.script) for part in parts)
    columns = ("speaking", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = total < 2 or not console.is_terminal
    seconds = 0.0
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task("speaking", total=total)

        def counted(chunks: Iterable[Any]) -> Iterator[Any]:
            for chunk in chunks:
                yield chunk
                progress.advance(bar)

        for path, script in parts:
            chunks = counted(speak(script))
            if path is None:
                whole = io.BytesIO()  # the header of a WAV says how long it is
                seconds += write_stream(whole, chunks, sample_rate=sample_rate)
                sys.stdout.buffer.write(whole.getvalue())
                sys.stdout.buffer.flush()
            else:
                path.parent.mkdir(exist_ok=True)
                seconds += write_audio(path, chunks, sample_rate=sample_rate)
    return seconds
