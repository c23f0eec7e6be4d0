"""How a command is found, and how its help is laid out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# A command is the function of its name in the module of its name, or that module's `app` if it has
# commands of its own. The line is the first of its own help, so that `myxtts --help` need not load
# every module for it.
LINES: Mapping[str, str] = {
    "train": "Train a voice on one device, or on two: one prepares the data, the other trains.",
    "validate": "Check this machine for two-device training; exit code 0 only if every check "
    "passed.",
    "demo": "Speak a small corpus with espeak-ng, train a tiny voice on it, and let it say new "
    "sentences.",
    "profile": "Measure every stage alone and all of them together, and say which settings to "
    "change.",
    "plan": "Plan memory for cards of a size, ask a profile what-if, or put its advice to the "
    "test.",
    "studio": "Serve a page on this machine only: record, cut, correct, train, listen, speak, "
    "export.",
    "monitor": "Show how a run is doing: progress, devices, buffers, memory, and what holds it "
    "back.",
    "synthesize": "Say a text of any length in the voice of the references, on the CPU.",
    "serve": "Speak to OpenAI's clients over HTTP, and to Home Assistant over Wyoming, on the CPU.",
    "export": "Write the newest averaged weights of a run with all that is needed to speak from "
    "them.",
    "evaluate": "Speak held-out sentences in cloned voices and measure them, on the CPU.",
    "env": "Print versions, devices and settings as Markdown, ready to be pasted into an issue.",
    "data": "Import recordings, look at training data, or make the built-in corpus.",
    "base": "The base voice, from which new voices start: what it is, and how to make it anew.",
}


class GroupedCommand(TyperCommand):
    """A command whose `--help` lists its flags under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a list for each heading; flags of the command itself come first."""
        lists: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            heading = getattr(parameter, "rich_help_panel", None) or kind
            if record is not None:
                lists.setdefault(heading, []).append(record)
        for heading, records in lists.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class LazyGroup(TyperGroup):
    """The commands of `LINES`: a command's module is loaded when the command is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody adds one

    def format_commands(self, _: Any, formatter: Any) -> None:
        """List them by their lines, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(LINES.items()))


class _Commands(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        if name not in LINES:
            raise KeyError(name)
        module = importlib.import_module(f"myxtts.cli.{name}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(name, cls=GroupedCommand)(getattr(module, name))
        command = typer.main.get_command(app)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(LINES)

    def __len__(self) -> int:
        return len(LINES)
