"""The flags of settings: one for each that has one, the same in every command that takes them."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_origin

import typer

from myxtts.config.commands import settings
from myxtts.config.config import XTTSConfig, load_config, read_yaml
from myxtts.config.fields import GROUPS, Group, Setting, Switch
from myxtts.errors import ConfigError

log = logging.getLogger(__name__)

Command = Callable[..., None]
Given = dict[str, Any]  # the settings that were typed, by their dotted names

# Beside where the command is run; every line in it is commented out until somebody edits it.
DEFAULT_CONFIG: Final = Path("configs/config.yaml")

ConfigFile = Annotated[
    Path | None, typer.Option(metavar="FILE.yaml", help="Settings; flags win over them.")
]


def setting_flags(*groups: Group, without: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """Give a command the flags of these groups; its `given` gets the settings that were typed."""

    def decorate(command: Command) -> Command:
        flags = tuple(flag for flag in _flags(groups) if flag.setting.name not in without)

        @functools.wraps(command)
        def with_flags(**values: Any) -> None:
            typed = {flag: values.pop(flag.name) for flag in flags}
            command(given=_given({flag: v for flag, v in typed.items() if v is not None}), **values)

        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.name != "given"]
        parameters += [flag.parameter() for flag in flags]
        with_flags.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_flags

    return decorate


def load_settings(config: Path | None, given: Given) -> XTTSConfig:
    """The settings of a command: what was typed, over a file, over the defaults."""
    if config is None and DEFAULT_CONFIG.is_file():
        edited = [
            f"{name}.{key}" for name, keys in read_yaml(DEFAULT_CONFIG).items() for key in keys
        ]
        if edited:
            config = DEFAULT_CONFIG
            log.info("Settings from %s: %s", DEFAULT_CONFIG, ", ".join(edited))
    return load_config(config, given)


def named_settings(config: Path | None, given: Given) -> set[str]:
    """The dotted names of the settings that were chosen: typed, or written in the file."""
    if config is None and DEFAULT_CONFIG.is_file():
        config = DEFAULT_CONFIG
    written = {} if config is None else read_yaml(config)
    return {*given, *(f"{name}.{key}" for name, keys in written.items() for key in keys)}


@dataclass(frozen=True)
class _Flag:
    """One flag of a setting: it takes a value, or is a switch that stands for one."""

    setting: Setting
    switch: Switch | None = None

    @property
    def flag(self) -> str:
        return self.setting.flag if self.switch is None else self.switch.flag

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    def parameter(self) -> inspect.Parameter:
        """What Typer makes the flag from; the setting itself refuses a wrong value."""
        setting, kind = self.setting, self.setting.type
        if self.switch is None:
            kind = kind if kind in (int, float, Path) else str
            option = typer.Option(self.flag, metavar=setting.metavar, help=_help(setting))
        else:
            kind, option = bool, typer.Option(self.flag, help=self.switch.help)
        option.rich_help_panel = setting.group
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(
            self.name, keyword, default=None, annotation=Annotated[kind | None, option]
        )


def _flags(groups: tuple[Group, ...]) -> Iterator[_Flag]:
    for group in GROUPS:
        for known in settings().values():
            if group in groups and known.group == group:
                if known.flag:
                    yield _Flag(known)
                yield from (_Flag(known, switch) for switch in known.switches)


def _help(setting: Setting) -> str:
    default = setting.default
    return setting.help if default in (None, ()) else f"{setting.help} [{default}]"


def _given(typed: dict[_Flag, Any]) -> Given:
    given: Given = {}
    for flag, value in typed.items():
        name = flag.setting.name
        if name in given:
            others = [other.flag for other in typed if other.setting == flag.setting]
            raise ConfigError(f"{' and '.join(others)} contradict each other.", "give one of them")
        if flag.switch is not None:
            given[name] = flag.switch.value
        elif get_origin(flag.setting.type) is tuple:
            given[name] = value.replace(" ", "").split(",")
        else:
            given[name] = value
    return given
