"""A real browser for tests of pages: the system's Chromium, or a reason why not."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A microphone that hears a tone, and pages that may use it unasked.
MICROPHONE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")


@contextlib.contextmanager
def start_browser(*arguments: str) -> Iterator[Any]:
    """A browser, skipped with a reason where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", *arguments])
        yield browser
        browser.close()


@contextlib.contextmanager
def page_opener(browser: Any, *, width: int, height: int) -> Iterator[Callable[..., Any]]:
    """Opens pages that may ask nobody but us, and fails if one complains."""
    contexts: list[Any] = []
    complaints: list[str] = []
    usual = width

    def open_one(address: str, *, width: int = usual, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        _listen_for_complaints(page, complaints)
        page.goto(address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


def _listen_for_complaints(page: Any, complaints: list[str]) -> None:
    """Note every error of a page, and whoever it asks that is not us."""
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def look(request: Any) -> None:
        if urlsplit(request.url).hostname not in (None, "", "127.0.0.1"):
            complaints.append(request.url)

    page.on("request", look)


def fits(page: Any) -> bool:
    """Whether nothing stands beyond the sides of the page."""
    return bool(
        page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    )
