"""What is known of a voice beside its weights, whichever back end speaks with it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from myxtts.errors import DataError
from myxtts.text.languages import LANGUAGES, check_language
from myxtts.text.tokenizers import Tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class VoiceFacts:
    """A voice model on disk: how it reads text, and what it heard in training."""

    folder: Path
    step: int
    tokenizer: Tokenizer
    speakers: tuple[str, ...]
    language: str
    languages: tuple[str, ...] = ()  # it was trained on; not known of those made long ago
    max_text_length: int = 256  # tokens; what is longer it never heard
    is_base: bool = False  # the voice that comes with us, or one exported like it

    @property
    def kind(self) -> Literal["characters", "phonemes"]:
        """How it reads text."""
        return "characters" if self.tokenizer.kind == "characters" else "phonemes"

    @property
    def size(self) -> str:
        """The name of the model's size."""
        raise NotImplementedError

    def language_for(self, asked: str | None, *, force: bool = False) -> str:
        """The language to speak; one that the voice never heard is refused unless forced."""
        if asked is None:
            own = self.language in self.languages or not self.languages
            return self.language if own else self.languages[0]
        language = check_language(asked)
        if language in self.languages or force:
            return language
        name = f"{LANGUAGES[language]} ({language})"
        if not self.languages:
            log.warning("Nothing says whether this voice was trained on %s.", name)
            return language
        heard = " and ".join(f"{LANGUAGES[tag]} ({tag})" for tag in self.languages)
        raise DataError(
            f"This voice never heard {name}: it was trained on {heard}.",
            f"--language {self.languages[0]}, or --force-language to hear what becomes of it",
        )


def config_checksum(config: Mapping[str, Any]) -> str:
    """Of all that the settings of an export say, however they are written down."""
    facts = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
