"""The live view on a terminal: one panel, the same while training and in `myxtts monitor`."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from myxtts.messages import clock, harmless, rates, short
from myxtts.runs.pace import Pace
from myxtts.runs.view import SHARED_MEMORY, DeviceView, RunView, Status

_BAR = 16  # columns
MOST_REPLICAS = 8  # rows: the slowest ones
_STATUS_STYLE: dict[Status, str] = {
    "running": "green",
    "finished": "green",
    "ended early": "yellow",
    "failed": "red",
    "killed": "red",
}


def render_panel(view: RunView) -> RenderableType:
    """The run as it is, for any width from about 60 columns."""
    parts: list[RenderableType] = [_progress(view), Text(_numbers(view), overflow="fold")]
    if any(device.busy is not None for device in view.devices):
        parts += [Text(), _gauges(view), Text(), _verdict(view)]
    if view.pace.replicas:
        parts += [Text(), _replicas(view.pace)]
    if view.error:
        parts.append(Text(harmless(view.error, lines=True), style="red"))
    about = [view.name or "Training", view.mode]
    if view.simulated:
        about.append("simulated on CPU")
    return Panel(
        Group(*parts),
        title=Text(harmless(" · ".join(filter(None, about)))),
        title_align="left",
        subtitle=Text(view.status, style=_STATUS_STYLE[view.status]),
        subtitle_align="right",
        border_style="dim",
    )


def _progress(view: RunView) -> RenderableType:
    row = Table.grid(expand=True, padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True, justify="right")
    total = "" if view.total_steps is None else f"/{view.total_steps}"
    left = "" if view.total_steps is None or view.is_over else f"  ETA {clock(view.seconds_left)}"
    share = "" if view.progress is None else f"{view.progress:.0%}"
    bar = ProgressBar(total=view.total_steps or 1, completed=view.step if view.total_steps else 0)
    row.add_row(f"Step {view.step}{total}", bar, f"{share}{left}")
    return row


def _numbers(view: RunView) -> str:
    parts = [] if view.loss is None else [f"loss {short(float(view.loss))}"]
    parts += rates(view.steps_per_second, view.clips_per_second)
    if view.elapsed_s is not None:
        parts.append(f"for {clock(view.elapsed_s)}")
    return "   ".join(parts)


def _gauges(view: RunView) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for device in view.devices:
        if device.busy is not None:
            table.add_row(
                Text(harmless(device.label)),
                _bar(device.busy),
                f"{device.busy:.0%} busy",
                _memory(device),
            )
    if view.ring is not None and view.ring_size:
        ready = f"{view.ring:.1f} of {view.ring_size}"
        table.add_row("Ring", _bar(view.ring / view.ring_size), ready, "batches ready")
    if view.step_s is not None:
        varies = "" if view.variation is None else f"± {view.variation:.0%}"
        table.add_row("Step time", f"{1000 * view.step_s:.0f} ms", varies, "")
    return table


def _replicas(pace: Pace) -> RenderableType:
    """Each replica's work in a step, the longest as a whole bar, and how long it waits."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(no_wrap=True)
    slowest = pace.slowest
    shown = sorted(pace.replicas, key=lambda replica: -replica.work_s)[:MOST_REPLICAS]
    for replica in sorted(shown, key=lambda replica: replica.rank):
        share = replica.work_s / slowest.work_s if slowest.work_s else 0.0
        waits = "the slowest" if replica == slowest else f"waits {1000 * replica.waits_s:.0f} ms"
        works = f"{1000 * replica.work_s:.0f} ms"
        table.add_row(f"Replica {replica.rank}", _bar(share), works, waits)
    left_out = len(pace.replicas) - len(shown)
    words = f"{pace.sum_share:.0%} of a step" + (f"; {left_out} quicker ones" if left_out else "")
    table.add_row("Sum", _bar(pace.sum_share), f"{1000 * pace.sum_s:.0f} ms", words)
    return table


def _bar(share: float) -> ProgressBar:
    return ProgressBar(
        total=1.0, completed=share, width=_BAR, complete_style="cyan", finished_style="cyan"
    )


def _memory(device: DeviceView) -> str:
    if device.used_mb is None:
        return ""
    share = "" if device.memory_share is None else f" ({device.memory_share:.0%})"
    limit = "" if not device.limit_mb else f"/{device.limit_mb:.0f}"
    source = " whole process" if device.memory_source == SHARED_MEMORY else ""
    return f"{device.used_mb:.0f}{limit} MB{share}{source}"


def _verdict(view: RunView) -> Text:
    verdict = view.verdict
    text = Text(harmless(verdict.sentence), style="" if verdict.good else "yellow")
    for note in verdict.notes:
        text.append(harmless(f" {note}"))
    if verdict.flags:
        text.append(harmless(f" Try {' '.join(verdict.flags)}"), style="bold")
    return text
