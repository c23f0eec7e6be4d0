"""A voice in a larger model: it says what it said before, and the new width has room to learn.

New channels begin as copies of others, and what read a channel reads a share of each copy; the
shares differ, so the copies learn different things from the first step. New blocks begin as nothing
(after Chen, Goodfellow and Shlens 2016). Where all channels have as many copies this is exact; else
a normalisation over channels sees some of them more often, which a few steps mend.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from myxtts.config.config import ModelConfig
from myxtts.models.weights import Arrays

_BLOCK = re.compile(r"^(encoder|decoder)/block(\d+)/")
_WIDTHS = ("encoder_dim", "decoder_dim", "voice_dim", "encoder_blocks", "decoder_blocks")
_SHARES = (0.5, 1.5)  # of the copies of a channel, before they are made to add up to one


def is_smaller(old: ModelConfig, new: ModelConfig) -> bool:
    """Whether one model is not as large as the other, which has room for all that it knows."""
    sizes = [(getattr(old, name), getattr(new, name)) for name in _WIDTHS]
    fits = old.decoder_head == new.decoder_head and all(ours <= theirs for ours, theirs in sizes)
    return fits and any(ours < theirs for ours, theirs in sizes)


def grow(weights: Mapping[str, Any], old: ModelConfig, new: ModelConfig, fresh: Arrays) -> Arrays:
    """The weights of a larger model that speaks as the smaller one does.

    `fresh` are its own, just made: they tell the shapes, and symbols that are new stay as they are.
    """
    grown = {}
    for name, array in fresh.items():
        source = weights.get(_name_before(name, old, new))
        if source is not None:
            text = old.encoder_dim if "/project/" in name else 0
            grown[name] = _widen(name, np.asarray(source, np.float32), array, text=text)
        elif _BLOCK.match(name):  # one that the smaller model lacks adds nothing yet
            grown[name] = np.zeros_like(array)
    return grown


def _name_before(name: str, old: ModelConfig, new: ModelConfig) -> str:
    """What a weight is called in the smaller model: new encoder blocks end either half."""
    found = _BLOCK.match(name)
    if found is None or found[1] == "decoder":
        return name
    number, half_old, half_new = int(found[2]), old.encoder_blocks // 2, new.encoder_blocks // 2
    if number >= half_new:
        number += half_old - half_new
    elif number >= half_old:
        return ""
    return f"encoder/block{number}/{name[found.end() :]}"


def _widen(name: str, source: Any, fresh: Any, *, text: int) -> Any:
    """One weight in its new shape: what it writes is copied, what it reads is shared out.

    Of what a projection reads, so many are the text's, and the rest stays behind them as it is.
    """
    layer, kind = name.split("/")[-2:]
    *read, written = range(source.ndim)
    width = fresh.shape[written]
    if layer == "symbols":  # rows are symbols, of which either model may know more
        wide, rows = fresh.copy(), min(len(source), len(fresh))
        wide[:rows] = source[:rows, _copies(source.shape[written], width)[0]]
        return wide
    if layer == "film":  # a scale, and a shift
        copies, _ = _copies(source.shape[written] // 2, width // 2)
        copies = np.concatenate([copies, copies + source.shape[written] // 2])
    else:
        copies, shares = _copies(source.shape[written], width)
    wide = np.take(source, copies, written)
    if layer == "query":  # it meets as many keys, and is divided by the root of a head's width
        wide = wide * shares * np.sqrt(width / source.shape[written])
    for axis in read if kind == "kernel" else ():
        copies, shares = _copies(source.shape[axis], fresh.shape[axis], first=text)
        wide = np.take(wide, copies, axis) * np.expand_dims(
            shares, list(range(1, wide.ndim - axis))
        )
    return wide.astype(np.float32)


@cache
def _copies(old: int, new: int, *, first: int = 0) -> tuple[Any, Any]:
    """Of which channel each of the new ones is a copy, and its share of it.

    Always the same for the same numbers: who writes channels and who reads them must agree.
    """
    if first:
        copies, shares = _copies(first, new - old + first)
        rest = np.arange(first, old)
        return np.concatenate([copies, rest]), np.concatenate([shares, np.ones(len(rest))])
    draw = np.random.default_rng([old, new])
    copies = np.concatenate([draw.permutation(old) for _ in range(-(-new // old))])
    copies = np.concatenate([np.arange(old), copies])[:new]
    shares = draw.uniform(*_SHARES, new)
    return copies, shares / np.bincount(copies, shares, old)[copies]
