"""Pictures show what they are given, whatever that is, and nothing global is touched."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from myxtts.errors import DataError
from myxtts.inference.pictures import WIDTH_PX, draw_speech

pytest.importorskip("matplotlib")
from matplotlib.image import imread

FLOOR = float(np.log(1e-5))


def mel(frames: int) -> np.ndarray:
    return np.random.default_rng(0).normal(-4.0, 2.0, [frames, 80]).astype(np.float32)


def diagonal(tokens: int, frames: int) -> np.ndarray:
    path = np.arange(frames) * tokens // frames
    return np.eye(tokens, dtype=np.float32)[:, path]


def pixels(png: bytes) -> np.ndarray:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return imread(io.BytesIO(png))[..., :3]


def test_one_panel_for_every_mel_at_a_fixed_width():
    one = pixels(draw_speech({"synthesis": mel(50)}))
    two = pixels(draw_speech({"original": mel(60), "synthesis": mel(50)}, title="Two"))
    assert one.shape[1] == two.shape[1] == WIDTH_PX
    assert two.shape[0] > 1.6 * one.shape[0]


def test_the_alignment_is_seen_where_it_is():
    path = diagonal(10, 50)
    drawn = [
        pixels(draw_speech({"synthesis": mel(50)}, alignment=each, symbols="abcdefghij"))
        for each in (path, np.zeros_like(path), path[::-1])
    ]
    with_path, empty, mirrored = drawn
    rows, columns = np.nonzero(np.abs(with_path - empty).max(axis=-1) > 0.5)
    # Pixel rows count downwards: a path from the first token up goes with falling row numbers.
    assert np.corrcoef(rows, columns)[0, 1] < -0.95
    rows, columns = np.nonzero(np.abs(mirrored - empty).max(axis=-1) > 0.5)
    assert np.corrcoef(rows, columns)[0, 1] > 0.95


def test_the_pitch_is_drawn_only_where_voiced():
    hertz = np.concatenate([np.zeros(40), np.full(40, 200.0)])
    voiced, silent = (
        pixels(draw_speech({"original": mel(80)}, pitch={"original": contour}))
        for contour in (hertz, np.zeros(80))
    )
    columns = np.nonzero(np.abs(voiced - silent).max(axis=(0, 2)) > 0.2)[0]
    assert columns.min() > 0.4 * WIDTH_PX
    assert columns.max() < 0.9 * WIDTH_PX


def test_the_same_input_gives_the_same_bytes_on_any_thread():
    def draw(_: int) -> bytes:
        return draw_speech({"original": mel(30)}, alignment=diagonal(4, 30), symbols="ðɪ ʃ")

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(draw, range(2)))) == 1


@pytest.mark.parametrize(
    "drawing",
    [
        {"mels": {"one frame": mel(1)}, "alignment": diagonal(1, 1), "symbols": ["a"]},
        {"mels": {"silence": np.full([20, 80], FLOOR, np.float32)}},
        {"mels": {"broken": np.full([20, 80], np.nan, np.float32)}},
        {"mels": {"soft": mel(20)}, "alignment": np.full([7, 20], 1 / 7), "symbols": ()},
        {"mels": {"long": mel(90)}, "alignment": diagonal(200, 400), "symbols": ["ɛ"] * 200},
        {"mels": {"$x_$": mel(9)}, "title": "این یک آزمایش است، 中文 \U0001f600 $5 and $7"},
        {"mels": {"long title": mel(9)}, "title": "word " * 100},
    ],
    ids=lambda drawing: next(iter(drawing["mels"])),
)
def test_awkward_input_is_drawn_without_a_warning(drawing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        png = draw_speech(**drawing)
    assert pixels(png).shape[1] == WIDTH_PX


@pytest.mark.parametrize(
    ("drawing", "problem"),
    [
        ({"mels": {}}, "no mel"),
        ({"mels": {"turned": np.zeros([80, 20])}}, r"'turned' has the shape \[80, 20\]"),
        ({"mels": {"empty": np.zeros([0, 80])}}, "'empty'"),
        ({"mels": {"a": mel(5)}, "pitch": {"b": np.zeros(5)}}, "'b' fits no mel"),
        ({"mels": {"a": mel(5)}, "alignment": np.zeros(5)}, "alignment has the shape"),
        ({"mels": {"a": mel(5)}, "alignment": np.eye(5), "symbols": "abc"}, "3 symbols"),
    ],
)
def test_what_cannot_be_drawn_is_refused(drawing, problem):
    with pytest.raises(DataError, match=problem):
        draw_speech(**drawing)


def test_importing_loads_neither_matplotlib_nor_tensorflow_and_drawing_no_pyplot():
    code = (
        "import sys, numpy, myxtts.inference.pictures as p\n"
        "assert not {'matplotlib', 'tensorflow'} & set(sys.modules)\n"
        "p.draw_speech({'a': numpy.zeros([3, 80])})\n"
        "assert not {'matplotlib.pyplot', 'tensorflow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
