"""`myxtts serve`: voices over HTTP, as OpenAI's clients ask for them, and over Wyoming."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, start_logging
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.inference.speaker import Speaker


def serve(
    voices: Annotated[
        list[Path],
        typer.Argument(
            metavar="VOICE",
            help="Run folders, exports of either kind, or base, the voice that comes with MyXTTS. "
            "A client names one by its folder's name; the first is the default.",
        ),
    ],
    voices_folder: Annotated[
        Path | None,
        typer.Option(
            "--voices",
            metavar="DIR",
            help="Recordings to speak like: each file, or each folder of several, is a voice by "
            "its name. Looked at anew with every request.",
        ),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Recording for the voice named default; repeat it for several."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than this machine's needs --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="SECRET",
            envvar="MYXTTS_TOKEN",
            show_envvar=False,
            help="What clients send as API key; better in the variable MYXTTS_TOKEN, where `ps` "
            "does not show it.",
        ),
    ] = None,
    wyoming: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help="Also speak Wyoming, for Home Assistant, on this port of this machine; HOST:PORT "
            "for others to reach it, without a token.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, max=256, help="Threads that speak; 0: one for each core.")
    ] = 0,
    queue: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Requests that speak or wait; more are answered 429."),
    ] = 64,
    max_characters: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Longest text of one request.")
    ] = 20_000,
    max_body: Annotated[
        int, typer.Option(min=1024, max=2**30, metavar="BYTES", help="Largest body of a request.")
    ] = 2**20,
    grace: Annotated[
        float,
        typer.Option(min=0.0, max=3600.0, metavar="SECONDS", help="For streams to end on SIGTERM."),
    ] = 30.0,
    patience: Annotated[
        float,
        typer.Option(
            min=1.0,
            max=3600.0,
            metavar="SECONDS",
            help="A client that takes nothing for so long is left.",
        ),
    ] = 60.0,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Also log what is said; never by default.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Speak to OpenAI's clients over HTTP, and to Home Assistant over Wyoming, on the CPU.

    POST /v1/audio/speech, GET /v1/models, /v1/audio/voices, /health and /metrics. Audio is sent
    sentence by sentence, as it is made. ONNX exports are served without TensorFlow.
    """
    start_logging()
    _check_packages()
    from myxtts.inference.references import read_references  # late: --help must be quick
    from myxtts.serving.catalog import Catalog
    from myxtts.serving.running import serve as run
    from myxtts.serving.settings import ServeSettings

    settings = ServeSettings(
        host=host,
        port=port,
        token=token,
        voices=voices_folder.expanduser() if voices_folder else None,
        max_characters=max_characters,
        max_queue=queue,
        max_body=max_body,
        workers=workers,
        grace=grace,
        patience=patience,
        wyoming=wyoming,
        log_texts=log_texts,
    )
    if reference:
        read_references(reference)  # a bad recording is refused before anything heavy starts
    catalog = Catalog(_load(voices), folder=settings.voices, references=reference or None)
    for name, speaker in catalog.models.items():
        speaker.warm_up(catalog.hear(name, None))
        listed = ", ".join(catalog.voices(name))
        echo(f"{name}: {type(speaker).__name__}, {speaker.files.size}; voices: {listed}", err=True)
    run(
        catalog,
        settings,
        ready=lambda address: echo(f"Serving on {address}/v1 until Ctrl-C", err=True),
    )


def _load(voices: list[Path]) -> dict[str, Speaker]:
    from myxtts.inference.opening import open_voice
    from myxtts.inference.small.files import is_onnx_export

    models: dict[str, Speaker] = {}
    for path in voices:
        name = path.name if path.name not in ("", ".", "..") else path.resolve().name
        if name in models:
            raise ConfigError(
                f"Two voices are named {name}, and clients could not tell them apart.",
                "rename one of the folders",
            )
        if not is_onnx_export(path.expanduser()):
            load_tensorflow()
            from myxtts.pipeline.hardware import HARDWARE

            HARDWARE.hide_gpus()  # fast enough without, and a training on them is not disturbed
        models[name] = open_voice(path)
    return models


def _check_packages() -> None:
    from importlib.util import find_spec

    needed = ("starlette", "uvicorn", "prometheus_client", "wyoming")
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ConfigError(f"Serving needs {' and '.join(missing)}.", 'pip install "myxtts[serve]"')
