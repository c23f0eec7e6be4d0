"""The command of the small distribution: `myxtts-voice say`, `info` and `serve`.

Only the standard library reads the arguments here: what is small stays small.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.errors import ConfigError, DataError, MyXTTSError
from myxtts.inference.small.threads import calm_blas

PROGRAM = "myxtts-voice"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        calm_blas()
        options.run(options)
    except (MyXTTSError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Speak with ONNX exports of MyXTTS, without TensorFlow."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    say = commands.add_parser("say", help="write a text as a WAV or FLAC file")
    say.set_defaults(run=_say)
    say.add_argument("voice", type=Path, help="ONNX export")
    say.add_argument("text", help="what to say (SSML if it begins with <speak); - reads it")
    say.add_argument("--output", type=Path, required=True, help="FILE.wav or FILE.flac")
    say.add_argument("--reference", type=Path, action="append", help="recording of the speaker")
    say.add_argument("--language", help="of the text; default: the voice's own")
    say.add_argument("--speed", type=float, default=1.0, help="from 0.25 to 4")
    say.add_argument("--pitch-shift", type=float, default=0.0, help="in semitones")
    say.add_argument("--loudness", type=float, help="in LUFS, such as -16")
    say.add_argument("--lexicon", type=Path, help="word, tab, /IPA/ or respelling")
    say.add_argument("--times", type=Path, help="also write FILE.json, .srt or .vtt")
    info = commands.add_parser("info", help="say what an export is")
    info.set_defaults(run=_info)
    info.add_argument("voice", type=Path, help="ONNX export")
    serve = commands.add_parser("serve", help="speak to OpenAI's clients and Home Assistant")
    serve.set_defaults(run=_serve)
    serve.add_argument("voice", type=Path, nargs="+", help="ONNX exports")
    serve.add_argument("--voices", type=Path, help="folder of recordings to speak like")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--token", help="needed on any address but this machine's")
    serve.add_argument("--wyoming", metavar="PORT", help="also speak Wyoming there")
    return parser


def _say(options: argparse.Namespace) -> None:
    import numpy as np

    from myxtts.inference.audio_files import FORMATS, write_audio
    from myxtts.inference.small.voice import SmallVoice
    from myxtts.inference.times import check_times_file, render_times
    from myxtts.text.lexicon import Lexicon

    if options.output.suffix.lower() not in FORMATS:
        raise ConfigError(f"What to write to {options.output} is unclear.", "FILE.wav or FILE.flac")
    kind = check_times_file(options.times) if options.times else ""
    lexicon = Lexicon.load(options.lexicon) if options.lexicon else None
    voice = SmallVoice.load(options.voice)
    inside = voice.files.voices
    if not options.reference and not inside:
        raise DataError("This export has no voice inside.", "--reference FILE.wav")
    text = sys.stdin.read() if options.text == "-" else options.text
    chunks = voice.stream_timed(
        text,
        voice=voice.listen(options.reference) if options.reference else next(iter(inside.values())),
        lexicon=lexicon,
        language=options.language,
        speed=options.speed,
        pitch_shift=options.pitch_shift,
        loudness=options.loudness,
    )
    said: list[Any] = []

    def waves() -> Any:
        for chunk in chunks:
            said.append(chunk.sentence)
            yield np.asarray(chunk.wave)

    seconds = write_audio(options.output, waves(), sample_rate=voice.sample_rate)
    if options.times:
        options.times.write_text(render_times(said, kind), encoding="utf-8")
    print(f"{options.output}: {seconds:.1f} s of speech", file=sys.stderr)


def _info(options: argparse.Namespace) -> None:
    from myxtts.inference.small.files import load_small

    files = load_small(options.voice)
    print(f"size       {files.size}, {files.head} head, {files.step} steps")
    print(f"languages  {', '.join(files.languages or (files.language,))}")
    print(f"reads      {files.kind}")
    print(f"voices     {', '.join(files.voices) or 'none inside: it needs a reference'}")
    print(f"ONNX       opset {files.opset}")


def _serve(options: argparse.Namespace) -> None:
    from myxtts.inference.small.voice import SmallVoice

    try:
        from myxtts.serving.catalog import Catalog
        from myxtts.serving.running import serve
        from myxtts.serving.settings import ServeSettings
    except ImportError as error:
        raise ConfigError(
            f"Serving needs {error.name}.", f'pip install "{PROGRAM}[serve]"'
        ) from error
    settings = ServeSettings(
        host=options.host,
        port=options.port,
        token=options.token,
        voices=options.voices,
        wyoming=options.wyoming,
    )
    models = {path.resolve().name: SmallVoice.load(path) for path in options.voice}
    catalog = Catalog(models, folder=settings.voices)
    for name, speaker in models.items():
        speaker.warm_up(catalog.hear(name, None))

    def ready(address: str) -> None:
        print(f"Serving on {address}/v1 until Ctrl-C", file=sys.stderr)

    serve(catalog, settings, ready=ready)


if __name__ == "__main__":
    sys.exit(main())
