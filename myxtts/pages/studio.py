"""The studio's page: its words, its scripts, and how it is put together from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from myxtts.messages import Message
from myxtts.pages import data_words, studio_words, words
from myxtts.pages.page import Language, Page
from myxtts.pages.render import render

SCRIPTS = ("page.js", "studio.js", "clips.js", "microphone.js", "recorder.js")
# What scripts say, by the name they know it by.
SPOKEN_BY_SCRIPTS = {
    "lost": "The connection is lost; trying again",
    "uploading": "Uploading {}",
    "uploaded": "{} is here",
    "record": "Record",
    "stop": "Stop",
    "again": "Record again",
    "noMicrophone": "The microphone cannot be used. Allow it for this page, and try again.",
    "sentenceOf": "Sentence {} of {}, {} read",
    "speaking": "It is being made",
    "sure": "Once more to do it",
    "tooQuiet": "That was very quiet: come closer to the microphone.",
    "tooLoud": "That was too loud: go back from the microphone a little.",
    "saved": "Saved",
}


def studio_page(language: Language) -> Page:
    """The page in one language."""
    return Page(language, {**words.PERSIAN, **data_words.PERSIAN, **studio_words.PERSIAN})


def plain(page: Page, message: Message) -> str:
    """A message for a script, which shows it as text and never as HTML."""
    return page.tell(message).unescape()


@cache
def read_script(name: str) -> str:
    """One of the page's scripts."""
    assert name in SCRIPTS
    return (files("myxtts.pages") / "templates" / name).read_text(encoding="utf-8")


def whole_page(page: Page, parts: Mapping[str, str], **values: Any) -> str:
    """The page with its parts in their places."""
    said = {name: plain(page, Message(text)) for name, text in SPOKEN_BY_SCRIPTS.items()}
    ready = {name: Markup(html) for name, html in parts.items()}  # noqa: S704 - our templates
    return render(page, "studio.html", parts=ready, said=said, **values)


def part(page: Page, name: str, **values: Any) -> str:
    """One part of the page."""
    return render(page, f"studio_{name}.html", **values)
