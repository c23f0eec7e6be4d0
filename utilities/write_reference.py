"""Write docs/*/reference-cli.md and reference-config.md from the code, in English and Persian."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a fresh clone

import typer
import yaml

from myxtts.cli.app import app
from myxtts.config.config import XTTSConfig
from myxtts.config.presets import MODEL_SIZES, OPTIMIZATION_LEVELS

ROOT = Path(__file__).resolve().parent.parent
Language = Literal["en", "fa"]
LEFT_TO_RIGHT = "\u200e"
LANGUAGES: tuple[Language, ...] = ("en", "fa")
WORDS_FILE = ROOT / "docs" / "reference.yaml"
WORDS: dict[str, Any] = yaml.safe_load(WORDS_FILE.read_text(encoding="utf-8"))

# Flags of `train` that are named otherwise than the setting they set.
FLAG_OF_SETTING = {
    "model.size": "--model-size",
    "data.pipeline_buffer_size": "--buffer-size",
    "data.static_shapes": "--enable-static-shapes / --disable-static-shapes",
    "training.learning_rate": "--lr",
    "training.resume": "--resume / --reset-training",
}
METAVARS = {
    **{"int": "N", "int range": "N", "float": "X", "float range": "X"},
    **{"str": "TEXT", "path": "PATH"},
}
CODE = re.compile(r"(?<![`\w-])(--[a-z][a-z-]*|\w*\.(?:csv|wav|flac)|wavs/)(?![^`]*`)")


class Phrases(NamedTuple):
    """What the pages say around the tables."""

    cli_title: str
    cli_intro: str
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
        "or setting, 128 plus a signal's number that it stopped the run.",
        flag="flag",
        default="default",
        meaning="what it does",
        required="required",
        commands="Commands",
        config_title="Configuration",
        config_intro="Every setting, as a YAML file for `--config` has it: sections `model`, "
        "`data` and `training`. Flags win over the file, the file over the defaults. A misspelt "
        "setting is refused. `configs/config.yaml` is a file with every default, and `myxtts train "
        "--print-config` shows what a command line adds up to. This page is written from the code "
        "by `python utilities/write_reference.py`.",
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
        "نادرست، و ۱۲۸ به‌اضافهٔ شمارهٔ یک سیگنال یعنی همان سیگنال اجرا را متوقف کرده است.",
        flag="پرچم",
        default="پیش‌فرض",
        meaning="کارش چیست",
        required="لازم",
        commands="دستورها",
        config_title="تنظیم‌ها",
        config_intro="همهٔ تنظیم‌ها، همان‌طور که در پروندهٔ YAML برای `--config` می‌آیند: بخش‌های "
        "`model`، `data` و `training`. پرچم‌ها بر پرونده مقدم‌اند و پرونده بر پیش‌فرض‌ها. تنظیمی که "
        "نامش غلط نوشته شده باشد پذیرفته نمی‌شود. `configs/config.yaml` پرونده‌ای با همهٔ "
        "پیش‌فرض‌هاست و `myxtts train --print-config` نشان می‌دهد یک دستور در مجموع چه تنظیم‌هایی "
        "دارد. این صفحه را `python utilities/write_reference.py` از روی کد می‌نویسد.",
        setting="تنظیم",
        values="مقدارها",
        presets="پیش‌تنظیم‌ها",
        presets_intro="آنچه `model.size` و `training.optimization_level` تعیین می‌کنند.",
        other="English",
    ),
}


def pages() -> dict[Path, str]:
    """Every page of the reference, by its path."""
    found = {}
    for language in LANGUAGES:
        folder = ROOT / "docs" / language
        found[folder / "reference-cli.md"] = _page("cli", _command_lines(language), language)
        found[folder / "reference-config.md"] = _page("config", _settings(language), language)
    return found


def help_texts() -> set[str]:
    """Every English sentence of the command line that the Persian page shows."""
    texts = set()
    for _, command in _commands():
        texts |= {*_paragraphs(command), *(parameter.help for parameter in command.params)}
    return texts


def settings() -> dict[str, dict[str, Any]]:
    """The JSON schema of every setting, by its dotted name."""
    schema = XTTSConfig.model_json_schema()
    found = {}
    for section, reference in schema["properties"].items():
        fields = schema["$defs"][reference["$ref"].rsplit("/", 1)[1]]["properties"]
        found |= {f"{section}.{name}": field for name, field in fields.items()}
    return found


def setting_flags() -> dict[str, str]:
    """The flag of `train` that sets a setting, where there is one."""
    train = dict(_commands())["myxtts train"]
    flags = {parameter.name: parameter.opts[0] for parameter in train.params}
    named_alike = {
        name: flags[name.split(".")[1]] for name in settings() if name.split(".")[1] in flags
    }
    return named_alike | FLAG_OF_SETTING


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
        if command.params:
            yield from ("", *_header(phrases.flag, phrases.default, phrases.meaning))
            defaults = _train_defaults() if name == "myxtts train" else {}
            for parameter in command.params:
                flag, facts, meaning = _flag_cells(parameter, context, language)
                yield _row((flag, facts or defaults.get(parameter.opts[0], "–"), meaning))


def _train_defaults() -> dict[str, str]:
    """What a flag of `train` is without a --config file: the default of its setting."""
    fields = settings()
    return {
        flag: f"`{_as_yaml(fields[name]['default'])}`"
        for name, flag in setting_flags().items()
        if fields[name]["default"] not in (None, False, []) and " / " not in flag
    }


def _commands() -> list[tuple[str, Any]]:
    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for child, subcommand in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {child}", subcommand)

    return list(walk("myxtts", typer.main.get_command(app)))


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]


def _flag_cells(parameter: Any, context: Any, language: Language) -> tuple[str, str, str]:
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
    phrases, flags = PHRASES[language], setting_flags()
    yield from (f"# {phrases.config_title}", "", phrases.config_intro)
    for section in XTTSConfig.model_fields:
        yield from ("", f"## {section}", "")
        heads = (phrases.setting, phrases.values, phrases.default, phrases.flag, phrases.meaning)
        yield from _header(*heads)
        for name, field in settings().items():
            if name.startswith(f"{section}."):
                flag = f"`{flags[name]}`" if name in flags else "–"
                default = f"`{_as_yaml(field['default'])}`"
                words = WORDS["settings"].get(name, {}).get(language, "")
                short = name.split(".")[1]
                yield _row((f"`{short}`", f"`{_values(field)}`", default, flag, words))
    yield from ("", f"## {phrases.presets}", "", phrases.presets_intro)
    for field_name, table in (("size", MODEL_SIZES), ("optimization_level", OPTIMIZATION_LEVELS)):
        names = list(next(iter(table.values())))
        yield from ("", *_header(f"`{field_name}`", *(f"`{name}`" for name in names)))
        for preset, values in table.items():
            yield _row((f"`{preset}`", *(f"`{_as_yaml(values[name])}`" for name in names)))


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
