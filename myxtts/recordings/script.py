"""What to record: sentences that together hold every sound of a language, the rare ones too."""

from __future__ import annotations

from collections.abc import Sequence


def recording_script(
    language: str, minutes: float, *, texts: Sequence[str] | None = None
) -> list[str]:
    """Sentences to read aloud, phonetically balanced, that take about so many minutes.

    From `texts` where given, else from the built-in lists, which hold a few minutes for most
    languages: what comes back may be shorter than asked for, and is never repeated.
    """
    raise NotImplementedError
