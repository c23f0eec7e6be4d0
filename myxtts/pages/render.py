"""Turns templates into pages: single files that open offline, written whole or not at all."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from myxtts.documents import replacing
from myxtts.errors import MyXTTSError
from myxtts.pages.charts import ROLE_COLOR, share_bar
from myxtts.pages.page import Page, harmless

if TYPE_CHECKING:
    from jinja2 import Environment


@functools.cache
def environment() -> Environment:
    """The templates. Strings they show are escaped and made harmless; only `Markup` is trusted."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # late: few commands need it

    found = Environment(
        loader=PackageLoader("myxtts.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assert found.loader is not None
    read = functools.partial(found.loader.get_source, found)
    # Styles and scripts are no templates: what they hold in braces is their own.
    found.globals["inline"] = lambda name: Markup(read(name)[0])  # noqa: S704
    found.globals["role_color"] = ROLE_COLOR
    return found


def _shown(value: object) -> object:
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(page: Page, template: str, **values: Any) -> str:
    """Fill a template in the page's language."""
    return (
        environment()
        .get_template(template)
        .render(
            page=page,
            say=page.say,
            tell=page.tell,
            number=page.number,
            percent=page.percent,
            share_bar=functools.partial(share_bar, page),
            **values,
        )
    )


def write_page(path: Path, page: str) -> None:
    """Write a page whole or not at all; one already there is replaced."""
    try:
        with replacing(path) as draft:
            draft.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        problem = f"The report {path} cannot be written: {error.strerror}"
        remedy = "name a file in a folder that exists and may be written to"
        raise MyXTTSError(problem, remedy) from error
