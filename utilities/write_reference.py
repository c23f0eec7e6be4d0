#!/usr/bin/env python3
"""Write the reference (docs/*/reference-*.md, both languages) and configs/config.yaml from code."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a fresh clone

import typer
import yaml

from myxtts.cli.app import app
from myxtts.config.commands import settings
from myxtts.config.config import XTTSConfig
from myxtts.config.fields import GROUPS, Setting, Switch
from myxtts.config.presets import MODEL_SIZES, OPTIMIZATION_LEVELS

ROOT = Path(__file__).resolve().parent.parent
Language = Literal["en", "fa"]
LEFT_TO_RIGHT = "\u200e"
OWN_FLAGS = "Options"
UNITS = {"MB": "مگابایت", "seconds": "ثانیه", "minutes": "دقیقه", "dB": "دسی‌بل"}
LANGUAGES: tuple[Language, ...] = ("en", "fa")
WORDS_FILE = ROOT / "docs" / "reference.yaml"
WORDS: dict[str, Any] = yaml.safe_load(WORDS_FILE.read_text(encoding="utf-8"))

METAVARS = {
    **{"int": "N", "int range": "N", "float": "X", "float range": "X"},
    **{"str": "TEXT", "path": "PATH"},
}
CODE = re.compile(r"(?<![`\w-])(--[a-z][a-z-]*|\w*\.(?:csv|wav|flac)|wavs/)(?![^`]*`)")


class Phrases(NamedTuple):
    """What the pages say around the tables."""

    cli_title: str
    cli_intro: str
    own: str
    flag: str
    default: str
    meaning: str
    required: str
    commands: str
    config_title: str
    config_intro: str
    setting: str
    values: str
    presets: str
    presets_intro: str
    other: str


PHRASES: dict[Language, Phrases] = {
    "en": Phrases(
        cli_title="Command line",
        cli_intro="Every command, with every flag. This page is written from the code by "
        "`python utilities/write_reference.py`; `myxtts COMMAND --help` says the same. From a "
        "checkout `python train_main.py` is `myxtts train`, `python validate_memory_isolation.py` "
        "and `python validate_dual_gpu_pipeline.py` are `myxtts validate --check isolation` and "
        "`--check pipeline`, and `python utilities/dual_gpu_bottleneck_profiler.py` is `myxtts "
        "profile`. Exit codes: 0 is success, 1 a check that did not pass, 2 a wrong command line "
        "or setting, 75 that a replica was lost and the same command goes on, 128 plus a signal's "
        "number that it stopped the run.",
        own=OWN_FLAGS,
        flag="flag",
        default="default",
        meaning="what it does",
        required="required",
        commands="Commands",
        config_title="Configuration",
        config_intro="Every setting, as a YAML file for `--config` has it: sections `model`, "
        "`data` and `training`. Flags win over the file, the file over the defaults. A misspelt "
        "setting is refused. `configs/config.yaml` lists them all, each commented out: a line that "
        "is edited there counts for every command run from the checkout, and is said. `myxtts "
        "train --print-config` shows what a command line adds up to. This page is written from "
        "the code by `python utilities/write_reference.py`.",
        setting="setting",
        values="values",
        presets="Presets",
        presets_intro="What `model.size` and `training.optimization_level` set.",
        other="فارسی",
    ),
    "fa": Phrases(
        cli_title="خط فرمان",
        cli_intro="همهٔ دستورها با همهٔ پرچم‌ها. این صفحه را `python utilities/write_reference.py` از "
        "روی کد می‌نویسد؛ `myxtts COMMAND --help` همین‌ها را به انگلیسی می‌گوید. درون مخزن، `python "
        "train_main.py` همان `myxtts train` است، `python validate_memory_isolation.py` و `python "
        "validate_dual_gpu_pipeline.py` همان `myxtts validate --check isolation` و `--check "
        "pipeline` هستند، و `python utilities/dual_gpu_bottleneck_profiler.py` همان `myxtts "
        "profile` است. کد خروج ۰ یعنی موفقیت، ۱ یعنی بررسی‌ای که موفق نشد، ۲ یعنی دستور یا تنظیم "
        "نادرست، ۷۵ یعنی یکی از نسخه‌های موازی از دست رفته و همان دستور کار را ادامه می‌دهد، و ۱۲۸ "
        "به‌اضافهٔ شمارهٔ یک سیگنال یعنی همان سیگنال اجرا را متوقف کرده است.",
        own="گزینه‌ها",
        flag="پرچم",
        default="پیش‌فرض",
        meaning="کارش چیست",
        required="لازم",
        commands="دستورها",
        config_title="تنظیم‌ها",
        config_intro="همهٔ تنظیم‌ها، همان‌طور که در فایل YAML برای `--config` می‌آیند: بخش‌های "
        "`model`، `data` و `training`. پرچم‌ها بر فایل مقدم‌اند و فایل بر پیش‌فرض‌ها. تنظیمی که "
        "نامش غلط نوشته شده باشد پذیرفته نمی‌شود. `configs/config.yaml` همه را دارد، هر خط به شکل "
        "توضیح: خطی که آنجا ویرایش شود برای هر دستوری که درون مخزن اجرا شود به کار می‌رود و اعلام "
        "می‌شود. `myxtts train --print-config` نشان می‌دهد یک دستور در مجموع چه "
        "تنظیم‌هایی دارد. این صفحه را `python utilities/write_reference.py` از روی کد می‌نویسد.",
        setting="تنظیم",
        values="مقدارها",
        presets="پیش‌تنظیم‌ها",
        presets_intro="آنچه `model.size` و `training.optimization_level` تعیین می‌کنند.",
        other="English",
    ),
}


def pages() -> dict[Path, str]:
    """Every file written from the code, by its path."""
    found = {ROOT / "configs" / "config.yaml": "\n".join(_config_file()) + "\n"}
    for language in LANGUAGES:
        folder = ROOT / "docs" / language
        found[folder / "reference-cli.md"] = _page("cli", _command_lines(language), language)
        found[folder / "reference-config.md"] = _page("config", _settings(language), language)
    return found


def help_texts() -> set[str]:
    """Every English sentence of the command line itself: settings bring their own Persian."""
    texts = set()
    for _, command in _commands():
        own = (parameter for parameter in command.params if _setting_of(parameter) is None)
        texts |= {*_paragraphs(command), *(parameter.help for parameter in own)}
    return texts


def typed(setting: Setting) -> str:
    """The flags that set a setting."""
    return setting.flag or " / ".join(switch.flag for switch in setting.switches)


def _config_file() -> Iterator[str]:
    yield "# Every setting with its default. Take the # away from a line and edit it: commands that"
    yield "# are run from the folder above then use it, and say so. A file given with --config is"
    yield "# used instead, and flags win over both."
    yield "# Written by: python utilities/write_reference.py"
    for section in XTTSConfig.model_fields:
        yield from ("", f"{section}:")
        for name, setting in settings().items():
            if name.startswith(f"{section}."):
                yield from (f"  # {line}" for line in textwrap.wrap(setting.help, 96))
                yield f"  #{name.split('.')[1]}: {_as_yaml(_plain(setting.default))}"


def _page(name: str, lines: Iterator[str], language: Language) -> str:
    other = "fa" if language == "en" else "en"
    link = f"[{PHRASES[language].other}](../{other}/reference-{name}.md)"
    text = "\n".join([*lines, "", link])
    if language == "en":
        return text + "\n"
    # Without a mark on both sides, the dashes of a flag would be drawn at its other end.
    text = re.sub(r"(?<!`)`[^`\n]+`(?!`)", f"{LEFT_TO_RIGHT}\\g<0>{LEFT_TO_RIGHT}", text)
    return f'<div dir="rtl">\n\n{text}\n\n</div>\n'


def _command_lines(language: Language) -> Iterator[str]:
    phrases = PHRASES[language]
    yield from (f"# {phrases.cli_title}", "", phrases.cli_intro, "", f"## {phrases.commands}", "")
    for name, command in _commands():
        yield f"- [`{name}`](#{name.replace(' ', '-')}): {_said(_paragraphs(command)[0], language)}"
    for name, command in _commands():
        yield from ("", f"## {name}")
        for paragraph in _paragraphs(command):
            yield from ("", _said(paragraph, language))
        context = typer.Context(command, info_name=name)
        context.terminal_width = 1000
        usage = command.get_usage(context).removeprefix("Usage: ").replace("{", "").replace("}", "")
        block = ["```text", usage, "```"]
        if language == "fa":
            block = ['<div dir="ltr">', "", *block, "", "</div>"]
        yield from ("", *block)
        for heading, parameters in _by_heading(command).items():
            words = {**GROUPS, OWN_FLAGS: phrases.own} if language == "fa" else {}
            title = words.get(heading, heading)
            heads = _header(phrases.flag, phrases.default, phrases.meaning)
            yield from ("", f"**{title}**", "", *heads)
            for parameter in parameters:
                flag, facts, meaning = _flag_cells(parameter, context, language)
                yield _row((flag, facts or "–", meaning))


def _by_heading(command: Any) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = {}
    for parameter in command.params:
        heading = getattr(parameter, "rich_help_panel", None) or OWN_FLAGS
        lists.setdefault(heading, []).append(parameter)
    return lists


def _setting_of(parameter: Any) -> tuple[Setting, Switch | None] | None:
    """The setting that a flag sets, where it sets one."""
    if getattr(parameter, "rich_help_panel", None) not in GROUPS:
        return None
    for setting in settings().values():
        for switch in (None, *setting.switches):
            if parameter.opts[0] == (setting.flag if switch is None else switch.flag):
                return setting, switch
    raise LookupError(parameter.opts[0])


def _commands() -> list[tuple[str, Any]]:
    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for child, subcommand in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {child}", subcommand)

    return list(walk("myxtts", typer.main.get_command(app)))


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]


def _flag_cells(parameter: Any, context: Any, language: Language) -> tuple[str, str, str]:
    if (known := _setting_of(parameter)) is not None:
        setting, switch = known
        if switch is not None:
            meaning = switch.fa if language == "fa" else _said(switch.help, language)
            return f"`{switch.flag}`", "", meaning
        default = "" if setting.default in (None, ()) else f"`{_as_yaml(_plain(setting.default))}`"
        return f"`{setting.flag} {setting.metavar}`", default, _meaning(setting, language)
    flag, described = parameter.get_help_record(context)
    flag = re.sub(r"<([^>]*)>", lambda kind: METAVARS.get(kind[1], kind[1]), flag)
    facts = re.search(r"  \[(.*)\]$", described)
    shown = []
    for fact in facts[1].split("; ") if facts else ():
        if fact == "required":
            shown.append(PHRASES[language].required)
        else:
            shown.append(f"`{fact.removeprefix('default: ')}`")
    return f"`{flag}`", ", ".join(shown), _said(parameter.help, language)


def _said(text: str, language: Language) -> str:
    if language == "fa":
        return str(WORDS["persian"].get(text, text))
    return CODE.sub(r"`\1`", text)


def _settings(language: Language) -> Iterator[str]:
    phrases, schema = PHRASES[language], XTTSConfig.model_json_schema()["$defs"]
    yield from (f"# {phrases.config_title}", "", phrases.config_intro)
    for section, field in XTTSConfig.model_fields.items():
        values = schema[field.annotation.__name__]["properties"]
        yield from ("", f"## {section}", "")
        heads = (phrases.setting, phrases.values, phrases.default, phrases.flag, phrases.meaning)
        yield from _header(*heads)
        for name, setting in settings().items():
            if name.startswith(f"{section}."):
                short = name.split(".")[1]
                flag = f"`{typed(setting)}`" if typed(setting) else "–"
                default = f"`{_as_yaml(_plain(setting.default))}`"
                meaning = _meaning(setting, language)
                yield _row((f"`{short}`", f"`{_values(values[short])}`", default, flag, meaning))
    yield from ("", f"## {phrases.presets}", "", phrases.presets_intro)
    for field_name, table in (("size", MODEL_SIZES), ("optimization_level", OPTIMIZATION_LEVELS)):
        names = list(next(iter(table.values())))
        yield from ("", *_header(f"`{field_name}`", *(f"`{name}`" for name in names)))
        for preset, values in table.items():
            yield _row((f"`{preset}`", *(f"`{_as_yaml(values[name])}`" for name in names)))


def _meaning(setting: Setting, language: Language) -> str:
    unit = f" ({UNITS[setting.unit] if language == 'fa' else setting.unit})" if setting.unit else ""
    return (setting.fa if language == "fa" else _said(setting.help, language)) + unit


def _plain(default: Any) -> Any:
    """A default as YAML writes it."""
    if isinstance(default, Path):
        return str(default)
    return list(default) if isinstance(default, tuple) else default


def _values(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " | ".join(_values(option) for option in field["anyOf"])
    if "enum" in field:
        return " | ".join(field["enum"])
    if "const" in field:
        return str(field["const"])
    if field["type"] == "array":
        return f"[{_values(field['items'])}]"
    names = {"boolean": "true | false", "integer": "int", "number": "float", "string": "text"}
    name = "path" if field.get("format") == "path" else names.get(field["type"], field["type"])
    signs = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    bounds = [f"{sign} {field[bound]}" for bound, sign in signs.items() if bound in field]
    return " ".join([name, ", ".join(bounds)]).strip()


def _as_yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True).splitlines()[0]


def _header(*names: str) -> tuple[str, str]:
    return _row(names), "|" + "---|" * len(names)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
