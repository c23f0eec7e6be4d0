"""The documents say the same in both languages and name only what exists; only text is looked at.

Their commands are run by test_documented_commands.py, their Python by test_readme.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer

from myxtts.cli.app import app
from myxtts.config.config import XTTSConfig
from tests.support import ROOT

ENGLISH, PERSIAN = ROOT / "docs" / "en", ROOT / "docs" / "fa"
PAIRS = [(ROOT / f"{name}.md", ROOT / f"{name}.fa.md") for name in ("README", "CONTRIBUTING")] + [
    (page, PERSIAN / page.name) for page in sorted(ENGLISH.glob("*.md"))
]
PAGES = [page for pair in PAIRS for page in pair]
COMMANDS: Any = typer.main.get_command(app)
# Those of pip, TensorBoard, containers and benchmarks.
FOREIGN_FLAGS = {
    *("--constraint", "--editable", "--no-cache-dir", "--logdir"),
    *("--gpus", "--cpuset-cpus", "--rm", "--user", "--build-arg", "--paper"),
}

LEFT_TO_RIGHT = "\u200e"  # the invisible mark

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else ""


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(text: str) -> str:
    return FENCE.sub("", text)


def headings(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^(#+) (.+)$", prose(text), re.MULTILINE)


def inline_code(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(text))


def all_commands(group: Any, *, path: str = "myxtts") -> dict[str, Any]:
    found = {path: group}
    for name, command in group.commands.items():
        inner = f"{path} {name}"
        found |= all_commands(command, path=inner) if hasattr(command, "commands") else {}
        found[inner] = command
    return found


ALL_COMMANDS = all_commands(COMMANDS)
ALL_FLAGS = {
    flag
    for command in ALL_COMMANDS.values()
    for parameter in command.params
    for flag in (*parameter.opts, *parameter.secondary_opts)
} | {"--help"}


def test_every_guide_exists_in_both_languages():
    assert {page.name for page in ENGLISH.glob("*.md")} == {
        page.name for page in PERSIAN.glob("*.md")
    }


@pytest.mark.parametrize(("english", "persian"), PAIRS, ids=name_of)
def test_both_languages_have_the_same_headings_tables_code_and_links(english, persian):
    ours, theirs = read(english), read(persian)
    assert [level for level, _ in headings(ours)] == [level for level, _ in headings(theirs)]
    assert FENCE.findall(ours) == FENCE.findall(theirs)
    assert set(inline_code(ours)) == set(inline_code(theirs))
    assert prose(ours).count("\n|") == prose(theirs).count("\n|")
    assert len(re.findall(r"^- |^\d\. ", ours, re.MULTILINE)) == len(
        re.findall(r"^(?:- |\d\. )", theirs, re.MULTILINE)
    )
    assert len(links(ours)) == len(links(theirs))


@pytest.mark.parametrize("page", [persian for _, persian in PAIRS], ids=name_of)
def test_persian_is_written_from_right_to_left_and_its_code_from_left_to_right(page):
    text = read(page)
    assert text.startswith('<div dir="rtl">\n')
    assert text.rstrip().endswith("</div>")
    fences = FENCE.findall(text)
    assert text.count('<div dir="ltr">\n\n```') == len(fences)
    assert text.count("<div") == text.count("</div>") == 1 + len(fences)
    assert not re.search("[يك]", text)  # Arabic letters that look like the Persian ones
    if not page.name.startswith("reference"):  # a flag's dashes would end up behind it
        for before, code in re.findall(r"(.?)`([^`\n]+)`", prose(text)):
            assert code[0].isalnum() or before == LEFT_TO_RIGHT, code


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(text))


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings."""
    titles = (title.lower() for _, title in headings(read(page)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    for link in links(read(page)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_flag_and_command_that_is_named_exists(page):
    text = read(page)
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text))
    assert named <= ALL_FLAGS | FOREIGN_FLAGS
    code = "\n".join([*inline_code(text), *(code for _, code in FENCE.findall(text))])
    for words in re.findall(r"(?:^|[\s/])myxtts ([a-z]+)", code, re.MULTILINE):
        assert f"myxtts {words}" in ALL_COMMANDS or words == "import", words
    for module in re.findall(r"python -m (benchmarks\.\w+)", code):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
    for target in re.findall(r"^make ([\w-]+)$", "\n".join(inline_code(text)), re.MULTILINE):
        assert re.search(rf"^{target}:.*## ", read(ROOT / "Makefile"), re.MULTILINE), target


def settings() -> set[str]:
    return {
        f"{section}.{name}"
        for section, field in XTTSConfig.model_fields.items()
        for name in field.annotation.model_fields
    }


def old_names() -> tuple[str, list[str]]:
    """The page of old names without the column of those that are gone, and these."""
    kept, gone = [], []
    for line in read(ENGLISH / "old-names.md").splitlines():
        was, mark, now = line.partition(" | ")
        if mark and (found := re.findall(r"`((?:observe|data|training|inference)\.\w+)`", was)):
            gone += found
            line = now
        kept.append(line)
    return "\n".join(kept), gone


@pytest.mark.parametrize("page", [english for english, _ in PAIRS], ids=name_of)
def test_every_file_module_and_setting_that_is_named_exists(page):
    text = old_names()[0] if page.stem == "old-names" else read(page)
    for code in inline_code(text):
        if re.fullmatch(r"[\w/-]+\.py|configs/[\w/]+\.yaml", code):
            assert any((ROOT / base / code).is_file() for base in ("", "myxtts")), code
        elif found := re.fullmatch(r"(?:myxtts\.)?((?:data|pipeline|training)\.[\w.]+)", code):
            dotted = found[1]
            assert dotted in settings() or _is_in_the_code(dotted), dotted


def _is_in_the_code(dotted: str) -> bool:
    """Whether it is a module of ours, or a name that one of them defines or passes on."""
    path, last = ROOT / "myxtts" / dotted.replace(".", "/"), dotted.rpartition(".")[2]
    if path.with_suffix(".py").is_file():
        return True
    parent = path.parent
    source = parent / "__init__.py" if parent.is_dir() else parent.with_suffix(".py")
    return source.is_file() and bool(re.search(rf"\b{last}\b", read(source)))


def test_an_old_name_is_gone_and_its_new_place_exists():
    now, gone = old_names()
    assert len(gone) > 40  # the table was found, and read
    for name in gone:
        assert not (ROOT / "myxtts" / name.replace(".", "/")).with_suffix(".py").exists(), name
    for name in re.findall(r"`myxtts\.([\w.]+)`", now):
        room = ROOT / "myxtts" / name.replace(".", "/")
        assert room.is_dir() or _is_in_the_code(name) or name == "observe", name
