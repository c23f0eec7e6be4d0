"""The search for an alignment in blocks of frames: the path of the search frame by frame."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from myxtts.checks.gpu_readiness import read_function
from myxtts.models.alignment import search_alignment
from myxtts.models.alignment_blocks import BLOCK, is_compiled

IMPOSSIBLE = np.float32(-1e9)


def plain_path(likelihood, tokens, frames):
    """One row of the search in plain numpy, one frame after another: [T, F]."""
    total = np.full(len(likelihood), IMPOSSIBLE)
    total[0] = likelihood[0, 0]
    moved = [np.zeros(len(likelihood), bool)]
    for frame in range(1, frames):
        move = np.concatenate([[IMPOSSIBLE], total[:-1]])
        moved.append(move > total)
        total = np.maximum(total, move) + likelihood[:, frame]
        assert total.dtype == np.float32
    path, token = np.zeros(likelihood.shape, np.float32), tokens - 1
    for frame in reversed(range(frames)):
        path[token, frame] = 1.0
        token -= moved[frame][token]
    return path


def make_case(frames, *, tokens=7, seed=0, scale=3.0):
    """Rows of every kind: full, ragged, as short as can be, too short, and masked."""
    random = np.random.default_rng(seed)
    sizes = [(tokens, frames), (1, frames), (tokens, min(tokens, frames)), (3, frames // 2 + 1)]
    sizes += [(tokens, max(1, min(frames, tokens - 2))), (0, 0), (2, 1), (0, frames)]
    likelihood = random.normal(size=[len(sizes), tokens, frames], scale=scale).astype(np.float32)
    token_lengths, mel_lengths = np.array(sizes, np.int32).T
    return tf.constant(likelihood), tf.constant(token_lengths), tf.constant(mel_lengths)


def search(case, *, in_blocks, **options):
    function = tf.function(lambda *c: search_alignment(*c, in_blocks=in_blocks), **options)
    return function(*case).numpy()


@pytest.mark.parametrize("frames", [1, 2, BLOCK, BLOCK + 1, BLOCK + 2, 2 * BLOCK + 5])
def test_every_form_finds_the_same_path(frames):
    case = make_case(frames, seed=frames)
    by_frame = search(case, in_blocks=False)
    np.testing.assert_array_equal(search(case, in_blocks=True), by_frame)
    if frames == 2:  # compiling takes seconds; a longer one is compiled below
        np.testing.assert_array_equal(search(case, in_blocks=True, jit_compile=True), by_frame)
    for row, (tokens, real) in enumerate(zip(*(c.numpy() for c in case[1:]), strict=True)):
        if 0 < tokens <= real:
            plain = plain_path(case[0][row].numpy(), tokens, real)
            np.testing.assert_array_equal(by_frame[row], plain)


@pytest.mark.parametrize("scale", [1e-3, 300.0])
def test_sums_are_rounded_as_they_are_frame_by_frame(scale):
    # Nearly equal ways, and sums so large that each addition rounds: any other order would show.
    likelihood, *lengths = make_case(2 * BLOCK + 5, tokens=40, seed=5, scale=scale)
    case = (likelihood - 2000.0, *lengths)
    wanted = search(case, in_blocks=False)
    assert not np.array_equal(wanted, search((likelihood, *lengths), in_blocks=False))
    for options in ({}, {"jit_compile": True}) if scale > 1 else ({},):
        np.testing.assert_array_equal(search(case, in_blocks=True, **options), wanted)


def test_a_size_known_only_when_it_runs_is_searched_frame_by_frame():
    case = make_case(20)
    spec = [tf.TensorSpec([None, None, None], tf.float32), *[tf.TensorSpec([None], tf.int32)] * 2]
    found = search(case, in_blocks=True, input_signature=spec)
    np.testing.assert_array_equal(found, search(case, in_blocks=False))


def test_it_goes_round_once_a_block_and_needs_no_host():
    spec = [tf.TensorSpec([16, 120, 800], tf.float32), *[tf.TensorSpec([16], tf.int32)] * 2]
    function = tf.function(lambda *c: search_alignment(*c, in_blocks=True))
    found = read_function(function.get_concrete_function(*spec))
    assert [rounds for _, rounds in found.loops] == [-(-799 // BLOCK)]
    assert found.is_ready, found
    assert found.launches < 2.5 * 800  # frame by frame it is many times that


def test_whether_xla_compiles_is_known_while_tracing():
    seen = []

    def traced(x):
        seen.append(is_compiled())
        return tf.scan(lambda a, b: (seen.append(is_compiled()), a + b)[1], x)

    for compiled in (True, False):
        tf.function(traced, jit_compile=compiled, autograph=False)(tf.constant([1.0, 2.0]))
        assert set(seen) == {compiled}
        seen.clear()
