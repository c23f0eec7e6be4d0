"""`myxtts monitor`: watch a run on the terminal or in a browser, or write its report."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from myxtts.cli.output import Debug, echo, make_console

if TYPE_CHECKING:
    from myxtts.runs.follow import RunFollower

PORT = 8090
POLL_S = 0.5


def monitor(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run's folder.")],
    once: Annotated[bool, typer.Option("--once", help="Show it once, and do not follow.")] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Serve it as a page on this machine only (127.0.0.1).")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of --web; 0 takes any free one.")
    ] = PORT,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the run's report, and end.")
    ] = None,
    lang: Annotated[
        Literal["en", "fa"], typer.Option(help="Of the page and of the report.")
    ] = "en",
    debug: Debug = False,
) -> None:
    """Show how a run is doing: progress, devices, buffers, memory, and what holds it back.

    A run still going on is followed until it ends or Ctrl-C, and one about to start is waited for;
    watching does not disturb it.
    """
    if report is not None:
        from myxtts.pages.report import write_report

        write_report(report, run_dir, lang=lang)
        echo(f"Report: {report}")
        return
    with contextlib.suppress(KeyboardInterrupt):
        follower = _follow(run_dir, patiently=web or (sys.stdout.isatty() and not once))
        if web:
            from myxtts.pages.live import serve

            with serve(follower, port=port, lang=lang) as address:
                echo(f"The run is shown at {address} (Ctrl-C ends this, not the run)")
                while True:
                    time.sleep(60)
        _show(follower, once=once)


def _follow(run_dir: Path, *, patiently: bool) -> RunFollower:
    """The run to follow; one that is not there yet is waited for, if it is to be followed."""
    from myxtts.runs.follow import NothingToldError, RunFollower

    said = False
    while True:
        try:
            return RunFollower(run_dir)
        except NothingToldError as nothing:
            if not patiently:
                raise
            if not said:
                echo(f"{nothing.problem} Waiting for it; Ctrl-C ends this.")
                said = True
        time.sleep(POLL_S)


def _show(follower: RunFollower, *, once: bool) -> None:
    from rich.live import Live

    from myxtts.runs.panel import render_panel

    console = make_console()
    view = follower.poll()
    if once or view.is_over or not console.is_terminal:
        console.print(render_panel(view))
        return
    with Live(render_panel(view), console=console, auto_refresh=False) as live:
        while not view.is_over:
            time.sleep(POLL_S)
            view = follower.poll()
            live.update(render_panel(view), refresh=True)
