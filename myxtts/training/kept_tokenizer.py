"""A run that goes on reads texts as it did before: what its model learned are its symbols."""

from __future__ import annotations

import logging
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError
from myxtts.runs.checkpoints import Checkpoint
from myxtts.text.lexicon import Lexicon
from myxtts.text.tokenizers import Tokenizer, tokenizer_from_dict

log = logging.getLogger(__name__)

_ANEW = "or start anew with --reset-training (the old run is kept)"


def kept_tokenizer(saved: Checkpoint, config: XTTSConfig) -> Tokenizer | None:
    """The tokenizer of the run so far; settings that ask for another are refused."""
    kept: dict[str, Any] | None = saved.state["tokenizer"]
    if kept is None:
        return None
    asked = config.data.tokenizer
    if config.training.reads_like_source:
        config.data.tokenizer = kept["kind"]  # as when it began: its source decided
    elif asked not in ("auto", kept["kind"]):
        raise ConfigError(
            f"This run reads texts as {kept['kind']}, and data.tokenizer now says {asked}.",
            f"set data.tokenizer: {kept['kind']} (or auto), {_ANEW}",
        )
    _check_lexicon(saved, config, kept.get("lexicon") or {})
    return tokenizer_from_dict(kept)


def _check_lexicon(saved: Checkpoint, config: XTTSConfig, entries: dict[str, str]) -> None:
    then, now = saved.state["config"]["data"].get("lexicon"), config.data.lexicon
    if now is None and then is None:
        return
    if now is None:
        raise ConfigError(
            f"This run reads texts with the lexicon {then}, and data.lexicon is now empty.",
            f"set data.lexicon: {then}, {_ANEW}",
        )
    if not now.exists():
        log.warning("The lexicon %s is gone: the run goes on with what it read of it", now)
    elif not config.training.reads_like_source and Lexicon.load(now).entries != entries:
        raise ConfigError(
            f"The lexicon {now} says other things than the one this run began with.",
            f"give data.lexicon the file as it was, {_ANEW}",
        )
