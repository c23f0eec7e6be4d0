"""`myxtts profile`, also `utilities/dual_gpu_bottleneck_profiler.py`: where does the time go?"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, start_logging, write_text
from myxtts.cli.setting_flags import (
    ConfigFile,
    Given,
    load_settings,
    named_settings,
    setting_flags,
)
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.profiling.measurements import Profile

BUILT_IN_CLIPS = 160  # enough for batches that differ; espeak-ng speaks them in a few seconds


@setting_flags("Data", "Batches", "Model", "Devices", "Buffers")
def profile(
    given: Given,
    config: ConfigFile = None,
    num_steps: Annotated[int, typer.Option(min=4, help="Steps of the whole pipeline.")] = 100,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE.json", help="Write all numbers there.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with pictures.")
    ] = None,
    lang: Annotated[str, typer.Option(metavar="en|fa", help="Language of the page.")] = "en",
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write a timeline for Perfetto.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure every stage alone and all of them together, and say which settings to change.

    With --train-data it measures what myxtts train would do with it; without, a small built-in
    corpus is spoken and measured with. Nothing of a run is changed: the model is made anew and
    thrown away.
    """
    start_logging()
    if lang not in ("en", "fa"):
        raise ConfigError(f"There is no page in the language {lang!r}.", "--lang en or --lang fa")
    settings = profile_settings(config, given)
    with measuring(settings, config) as measure:
        result = measure(settings, num_steps=num_steps, trace_file=trace)
    show_profile(result)
    if json_file is not None:
        write_text(json_file, result.to_json())
        echo(f"Numbers: {json_file}")
    if report is not None:
        from myxtts.pages.report import write_report

        write_report(report, result, lang="fa" if lang == "fa" else "en")
        echo(f"Report: {report}")
    if trace is not None:
        echo(f"Timeline: {trace} (open it in ui.perfetto.dev or chrome://tracing)")


def profile_settings(config: Path | None, given: Given) -> XTTSConfig:
    """The settings to measure: what `train` would choose, or what suits the built-in corpus."""
    from myxtts.cli.start import settle_start
    from myxtts.pipeline.devices import check_machine
    from myxtts.pipeline.request import check_request

    settings = load_settings(config, given)
    check_request(settings.data.device_request())
    check_machine(settings.data.device_request())
    folder = settings.data.train_data
    if folder is not None and not folder.exists():
        raise ConfigError(
            f"The data folder {folder} does not exist.", "check the path given with --train-data"
        )
    if folder is None:
        if "size" not in settings.model.model_fields_set and "model.size" not in given:
            settings.model.size = "tiny"
        if "static_shapes" not in settings.data.model_fields_set:
            settings.data.static_shapes = "one"  # each shape takes a compilation of its own
    else:
        settle_start(settings, named_settings(config, given))
    return settings


@contextlib.contextmanager
def measuring(settings: XTTSConfig, config_file: Path | None) -> Iterator[Callable[..., Profile]]:
    """What measures settings in this process, with its advice; shows how far it is."""
    load_tensorflow()
    from myxtts.pipeline.devices import configure_devices

    configure_devices(**asdict(settings.data.device_request()))  # before anything takes time
    with tempfile.TemporaryDirectory(prefix="myxtts-corpus-") as folder:
        file = "" if config_file is None else str(config_file)
        yield partial(_measure, config_file=file, corpus=Path(folder) / "corpus")


def _measure(
    config: XTTSConfig,
    *,
    config_file: str,
    corpus: Path,
    num_steps: int,
    trace_file: Path | None = None,
) -> Profile:
    from rich.progress import Progress

    from myxtts.profiling.advisor import advise
    from myxtts.profiling.profiler import measure
    from myxtts.profiling.subject import open_voice
    from myxtts.profiling.what_if import with_settings

    measured_config, name = config, ""
    if config.data.train_data is None:
        _speak_corpus(corpus)
        measured_config, name = (
            with_settings(config, {"data.train_data": corpus}),
            "built-in corpus",
        )
    with open_voice(measured_config, data_name=name) as bench, Progress(transient=True) as bars:
        bar, said = bars.add_task("profiling", total=None), set[str]()

        def show(phase: str, done: int, total: int) -> None:
            bars.update(bar, description=phase, completed=done, total=total)
            if not bars.console.is_terminal and phase not in said:  # a log gets a line a phase
                said.add(phase)
                echo(f"{phase}: {total} batches", err=True)

        result = measure(
            bench,
            num_steps=num_steps,
            trace_file=trace_file,
            on_progress=show,
        )
    result = replace(result, config=config, config_file=config_file)
    return replace(result, advice=advise(result))


def _speak_corpus(folder: Path) -> None:
    from myxtts.corpora.demo import make_demo_corpus

    if not folder.exists():
        echo("No --train-data: espeak-ng speaks a small corpus to measure with")
        make_demo_corpus(folder, sentences=BUILT_IN_CLIPS, held_out=4)


def show_profile(result: Profile) -> None:
    """Print the numbers and the advice."""
    from myxtts.profiling.describe import describe_advice, describe_profile

    echo("")
    for line in describe_profile(result):
        echo(line)
    if result.advice is not None:
        echo("")
        for line in describe_advice(result.advice):
            echo(line)
