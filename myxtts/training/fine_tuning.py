"""Starts a run from another's weights: what matches is taken, what is new is said."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.errors import ConfigError
from myxtts.inference.voice_files import VoiceFiles
from myxtts.models.growth import grow, is_smaller
from myxtts.models.weights import is_for_training, named_weights
from myxtts.text.languages import LANGUAGES
from myxtts.text.tokenizers import CharacterTokenizer, Tokenizer

log = logging.getLogger(__name__)

SYMBOLS = "encoder/symbols/embeddings"
MOST_NAMES = 8
LEAST_MATCH = 0.5  # of the weights; less is another model, and most likely a mistake


@dataclass(frozen=True)
class Match:
    """What of a model came from the other one, by name."""

    taken: list[str]
    extended: list[str]
    new: list[str]
    share: float  # of the numbers
    grown: bool = False  # from a smaller model


def load_matching_weights(model: Any, source: VoiceFiles, *, same_symbols: bool = True) -> Match:
    """Give the model the source's weights wherever name and shape agree; symbols may be added.

    A smaller model is grown to this one's size first. Where texts are read otherwise, a symbol's
    number means another one: those stay new.
    """
    taken, extended, new, found = [], [], [], 0
    variables, weights = named_weights(model), source.weights
    if grown := is_smaller(source.model, model.config):
        fresh = {name: variable.numpy() for name, variable in variables.items()}
        weights = grow(weights, source.model, model.config, fresh)
    assignments = []
    for name, variable in variables.items():
        array, shape = weights.get(name), tuple(variable.shape)
        if name.endswith(SYMBOLS) and not same_symbols:
            array = None
        if array is not None and array.shape == shape:
            taken.append(name)
            assignments.append((variable, array))
        elif array is not None and name.endswith(SYMBOLS) and array.shape[1:] == shape[1:]:
            longer = variable.numpy().copy()
            rows = min(len(longer), len(array))  # ids of old symbols stay, new ones come behind
            longer[:rows] = array[:rows]
            extended.append(name)
            assignments.append((variable, longer))
        else:
            new.append(name)
            continue
        found += int(np.prod(shape))
    share = found / max(1, model.count_params())
    if share < LEAST_MATCH:
        raise ConfigError(
            f"Only {share:.0%} of the weights in {source.folder} fit this model.",
            f"a voice grows, but does not shrink: --model-size {source.model.size} or a larger "
            f"one, with its decoder_head ({source.model.decoder_head})",
        )
    for variable, array in assignments:
        variable.assign(array)
    return Match(taken, extended, new, share, grown)


def describe_match(
    match: Match,
    source: VoiceFiles,
    tokenizer: Tokenizer | None,
    *,
    speakers: Sequence[str],
    languages: Sequence[str],
) -> list[str]:
    """What came along and what is new, in sentences."""
    lines = [
        f"Starting from {source.folder} (step {source.step}): {len(match.taken)} weights taken "
        f"({match.share:.0%} of the numbers), {len(match.extended)} extended, {len(match.new)} new"
    ]
    if match.grown:
        lines.append(f"  grown from the size {source.model.size}: it says nearly what that one did")
    lines += [f"  new: {name}" for name in match.new if not is_for_training(name)]
    if any(map(is_for_training, match.new)):
        lines.append("  new: the critic, which only training needs")
    if tokenizer is not None and tokenizer.kind != source.tokenizer.kind:
        lines.append(f"Symbols: all new, for that one reads {source.tokenizer.kind}")
    elif tokenizer is not None:
        old = set(source.tokenizer.symbols)
        symbols = [symbol for symbol in tokenizer.symbols if symbol not in old]
        shown = " ".join(symbols) if symbols else "none"
        lines.append(f"Symbols: {len(old)} known, new: {shown}")
    if source.languages:  # voices made long ago do not say
        new = [LANGUAGES[tag] for tag in languages if tag not in source.languages]
        lines.append(f"Languages: {len(source.languages)} known, new: {', '.join(new) or 'none'}")
    known = [name for name in speakers if name in source.speakers]
    added = [name for name in speakers if name not in source.speakers]
    lines.append(f"Speakers: known {_listed(known)}; new {_listed(added)}")
    return lines


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    shown = ", ".join(names[:MOST_NAMES]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def joined_tokenizer(source: Tokenizer, fresh: Tokenizer) -> Tokenizer:
    """The source's tokenizer with the new data's symbols behind its own."""
    if isinstance(source, CharacterTokenizer) and isinstance(fresh, CharacterTokenizer):
        return source.extended(fresh.symbols[4:])
    return source
