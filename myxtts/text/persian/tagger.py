"""The part-of-speech tagger with ezafe that `gruut-lang-fa` brings: a CRF saved by Wapiti as text.

Reading its 69 MB takes seconds, so its numbers are kept in the user's cache folder, as arrays.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from myxtts.errors import DataError
from myxtts.text.persian.crf import LinearChainCrf, Weights
from myxtts.text.persian.lexicon import INSTALL_REMEDY, package_folder
from myxtts.text.persian.wapiti import WapitiText

logger = logging.getLogger(__name__)

_FORMAT = 1  # raised when the arrays are kept in another way


def tag(words: Sequence[str]) -> tuple[list[str], list[float]] | None:
    """The part of speech of each word, and how likely it takes the ezafe; None without a tagger."""
    model = load_tagger()
    if model is None:
        return None
    shares = model.shares(words)
    with_ezafe = [label.endswith("e") for label in model.labels]
    plain = [model.labels[label].removesuffix("e") for label in shares.argmax(axis=1)]
    return plain, shares[:, with_ezafe].sum(axis=1).tolist()


@lru_cache(maxsize=1)
def load_tagger() -> LinearChainCrf | None:
    """The tagger, or None and a warning where its package is not installed."""
    folder = package_folder()
    source = None if folder is None else folder / "pos" / "postagger.model"
    if source is None or not source.is_file():
        logger.warning(
            "gruut-lang-fa is not installed, so the ezafe of Persian is found by rules alone (%s)",
            INSTALL_REMEDY,
        )
        return None
    state = source.stat()
    kept = _cache_folder() / f"persian-{_FORMAT}-{state.st_size}-{state.st_mtime_ns}.npz"
    model = _load(kept)
    if model is None:
        try:
            text = WapitiText(source.read_bytes())
        except (OSError, ValueError, IndexError, OverflowError) as error:
            raise DataError(
                f"{source} is no Wapiti model: {error}.", f"{INSTALL_REMEDY} --force-reinstall"
            ) from error
        model = LinearChainCrf(text.patterns, text.labels, text.weights)
        _save(kept, text)
    return model


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "myxtts"


def _load(path: Path) -> LinearChainCrf | None:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            weights = Weights(*(arrays[name] for name in Weights._fields))
            patterns = [str(pattern).encode() for pattern in arrays["patterns"]]
            model = LinearChainCrf(patterns, [str(label) for label in arrays["labels"]], weights)
            model.shares(["سلام", "دنیا"])  # damaged numbers show here
            return model
    except (OSError, ValueError, KeyError, IndexError, EOFError):
        return None  # not there, or not whole: it is made again


def _save(path: Path, text: WapitiText) -> None:
    """Keep the arrays for the next process; where that cannot be, the next one reads again."""
    arrays = dict(text.weights._asdict())
    arrays["patterns"] = np.array([pattern.decode() for pattern in text.patterns])
    arrays["labels"] = np.array(text.labels)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                np.savez(file, allow_pickle=False, **arrays)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
