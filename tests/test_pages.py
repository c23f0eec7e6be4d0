"""What holds for every page: nothing from elsewhere acts in it, and it speaks both languages."""

from __future__ import annotations

import ast
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError, nodes

from myxtts.messages import Message
from myxtts.pages import data_words, evaluation_words, page, render, studio_words, words
from myxtts.pages.page import Page, harmless
from tests.sample_pages import write_every_page

HOSTILE = (
    "</script><script>x()</script><!--\"'><img src=x onerror=x()>{{7*7}}{0}{% raw %}&lt;",
    "gnp\u202eexe\u2069\u2066\u2067\u202d\u2028\u2029 \x1b[2J\x00\x7f\x9b\r\udcff",
)
NAMES_OF_THEIR_OWN = {"title", "aria-label", "data-head", "src"}  # attributes that hold texts


def is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


class Reader(HTMLParser):
    """A page as a list of tags, its texts, and what its scripts and styles say."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.tags: list[object] = []
        self.texts: list[str] = []
        self.code: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = [(key, key in NAMES_OF_THEIR_OWN or value) for key, value in attrs]
        self.tags.append((tag, given))
        self.texts += [value for _, value in attrs if value]
        self._inside = tag

    def handle_endtag(self, tag):
        self.tags.append(tag)
        self._inside = ""

    def handle_comment(self, data):
        self.tags.append(("comment", data))

    def handle_data(self, data):
        (self.code if self._inside in ("script", "style") else self.texts).append(data)


def read(pages: dict[str, Path]) -> dict[str, Reader]:
    return {what: Reader(path.read_text(encoding="utf-8")) for what, path in pages.items()}


@pytest.fixture(scope="module", params=["en", "fa"])
def plain(request, tmp_path_factory):
    """Every page with a name that does no harm."""
    folder = tmp_path_factory.mktemp("plain")
    return request.param, read(write_every_page(folder, request.param, name="my voice"))


@pytest.mark.parametrize("name", HOSTILE, ids=["markup", "controls"])
def test_a_name_from_elsewhere_is_read_and_does_nothing(tmp_path, plain, name):
    lang, expected = plain
    for what, found in read(write_every_page(tmp_path, lang, name=name)).items():
        assert found.tags == expected[what].tags, what
        assert found.code == expected[what].code, what
        assert harmless(name) in "".join(found.texts), what
        for text in found.texts:
            # Our own marks around a name come in pairs; whatever else could act is spelled out.
            own = re.sub("[\u2066\u2068]([^\u2066-\u2069]*)\u2069", r"\1", text)
            assert own == harmless(own), (what, text)


def test_what_could_act_is_made_visible_and_persian_is_left_alone():
    assert harmless("a\u202eb\x1b[m\x00\udcff") == r"a\u202eb\x1b[m\x00\udcff"
    persian = "می‌روم،\u200f «‎GPU‎» \t۱۲\n👩‍🚀"
    assert harmless(persian) == persian


def test_names_in_a_sentence_keep_their_side():
    english, persian = Page("en", words.PERSIAN), Page("fa", words.PERSIAN)
    assert english.say("Report of {}", "run 1 <x>") == "Report of run 1 &lt;x&gt;"
    assert english.say("Report of {}", "صدا") == "Report of \u2068صدا\u2069"
    assert persian.say("Report of {}", "run.1") == "گزارش \u2066run.1\u2069"
    assert persian.say("Step {} of {}", "5", "1,000") == "گام ۵ از ۱٬۰۰۰"
    assert persian.tell(Message("{}", (Message("Grade: {}", ("x\u2069",)),))).endswith(
        "\u2066x\\u2069\u2069"
    )
    assert english.say("{0.__class__}") == "{0.__class__}"


def test_a_template_may_name_nothing_that_is_not_given(tmp_path):
    with pytest.raises(UndefinedError, match="summary"):
        render.render(Page("en", {}), "data.html", title="x")


def test_every_word_of_the_pages_has_its_persian():
    known = {
        key
        for room in (page, words, data_words, evaluation_words, studio_words)
        for key in room.PERSIAN
    }
    environment = render.environment()
    said = set()
    for path in Path(page.__file__).parent.glob("*.py"):
        for call in filter(is_call, ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
            if getattr(call.func, "attr", "") == "say" and isinstance(call.args[0], ast.Constant):
                said.add(call.args[0].value)
    for name in environment.list_templates(extensions=["html"]):
        source, _, _ = environment.loader.get_source(environment, name)
        for call in environment.parse(source).find_all(nodes.Call):
            if getattr(call.node, "name", "") == "say" and isinstance(call.args[0], nodes.Const):
                said.add(call.args[0].value)
            if getattr(call.node, "attr", "") == "table":
                said |= {head.value for head in call.args[0].find_all(nodes.Const)} - {""}
            if getattr(call.node, "name", getattr(call.node, "attr", "")) in ("section", "counted"):
                said.add(call.args[0].value)
    assert len(said) > 80
    assert said - {"{}"} <= known


def test_a_page_asks_nobody_and_keeps_its_styles_and_scripts(plain):
    for found in plain[1].values():
        text = unescape(found.page)
        assert "http" not in text
        assert "url(" not in text
        assert text.count("<style>") == text.count("<script>") == 1
        assert "--page: #fff" in text
        assert "localStorage" in text


def test_persian_keeps_to_one_term_for_a_thing():
    said = [
        text
        for room in (words, data_words, evaluation_words, studio_words)
        for text in room.PERSIAN.values()
    ]
    for term, instead in {
        "رتبه": "نمره",
        "رونوشت": "بازسازی",
        "لایه‌گذاری": "پدینگ",
        "صادر": "خروجی گرفتن",
        "پایانه": "ترمینال",
        "توکن‌ساز": "توکنایزر",
        "بی‌خبر": "ناگهان",
        "·": "a comma: between digits it reads as a zero",
    }.items():
        assert not [text for text in said if term in text], f"{term}: {instead}"
    machine = [english for english, text in evaluation_words.PERSIAN.items() if "دستگاه" in text]
    assert (
        machine == []
    )  # a device is a دستگاه, and an evaluation uses none: the machine is a ماشین
