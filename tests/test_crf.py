"""A CRF that Wapiti saved is read, and its labels are those of the best paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from myxtts.text.persian.crf import LinearChainCrf
from myxtts.text.persian.wapiti import WapitiText

LABELS = ("A", "B")
PATTERNS = ("u:w=%x[0,0]", "u:l=%x[-1,0]", '*:s=%m[0,0,".$"]', "*")
# observation -> weights: of each label, then of each pair (before, here)
WEIGHTS = {
    "u:w=x": (1.0, -0.5),
    "u:w=y": (0.0, 0.75),
    "u:l=_x-1": (0.25, 0.0),
    "u:l=x": (-0.5, 0.5),
    "*:s=y": (0.5, 0.0, 0.25, 0.0, -1.0, 0.5),
    "*": (0.0, 0.0, 0.5, -0.25, 0.0, 1.0),
}


def saved() -> bytes:
    def strings(values):
        return "".join(f"{len(value)}:{value},\n" for value in values)

    text = f"#mdl#2#9\n#rdr#{len(PATTERNS)}/0/0\n{strings(PATTERNS)}#qrk#2\n{strings(LABELS)}"
    text += f"#qrk#{len(WEIGHTS)}\n{strings(WEIGHTS)}"
    flat = [weight for row in WEIGHTS.values() for weight in row]
    text += "".join(f"{i}={float(w).hex()}\n" for i, w in enumerate(flat) if w)
    return text.encode()


def score(words, path) -> float:
    total = 0.0
    for place, label in enumerate(path):
        before = words[place - 1] if place else "_x-1"
        for seen in (f"u:w={words[place]}", f"u:l={before}", f"*:s={words[place][-1]}", "*"):
            row = WEIGHTS.get(seen)
            if row is None:
                continue
            total += row[label]
            if place and len(row) > 2:
                total += row[2 + 2 * path[place - 1] + label]
    return total


@pytest.mark.parametrize("words", [["x"], ["x", "y"], ["y", "x", "xy"], ["zy", "x", "y", "q"]])
def test_shares_are_those_of_all_paths(words):
    text = WapitiText(saved())
    model = LinearChainCrf(text.patterns, text.labels, text.weights)
    paths = list(itertools.product(range(2), repeat=len(words)))
    likely = np.exp([score(words, path) for path in paths])
    likely /= likely.sum()
    expected = np.zeros((len(words), 2))
    for path, share in zip(paths, likely, strict=True):
        for place, label in enumerate(path):
            expected[place, label] += share
    np.testing.assert_allclose(model.shares(words), expected, atol=1e-5)


@pytest.mark.parametrize("end", [3, 10, 40, 90, 140, 200])
def test_a_damaged_model_is_refused(end):
    with pytest.raises((ValueError, IndexError)):
        WapitiText(saved()[:end])


def test_weights_that_belong_to_nothing_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        WapitiText(saved() + b"99999=0x1p+0\n")


def test_a_row_of_words_without_end_is_read_in_parts():
    text = WapitiText(saved())
    model = LinearChainCrf(text.patterns, text.labels, text.weights)
    assert model.shares(["x", "y"] * 2000).shape == (4000, 2)
    assert model.shares([]).shape == (0, 2)
