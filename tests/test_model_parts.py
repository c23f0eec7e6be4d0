"""The voice model's parts by themselves: its noise, the search for an alignment, its layers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from myxtts.features.audio import NUM_MELS
from myxtts.features.mels import mel_matrix
from myxtts.models.alignment import alignment_from_durations, places_in_tokens, search_alignment
from myxtts.models.harmonics import REFERENCE_PITCH, harmonic_template
from myxtts.models.layers import Conv
from myxtts.models.noise import Dropout, clip_keys, normal, uniform
from myxtts.models.reference import ReferenceEncoder


def test_noise_belongs_to_the_clip_and_is_normal():
    tokens = np.random.default_rng(0).integers(0, 30, [6, 12]).astype(np.int32)
    lengths = np.array([12, 9, 5, 12, 1, 0], np.int32)
    seed = tf.constant([1, 2])
    keys = clip_keys(seed, 5, tf.constant(tokens), tf.constant(lengths))
    assert len(set(keys.numpy())) == 6
    padded = np.pad(tokens, [[0, 0], [0, 3]], constant_values=9)[1:3]
    again = clip_keys(seed, 5, tf.constant(padded), tf.constant(lengths[1:3]))
    assert again.numpy().tolist() == keys.numpy()[1:3].tolist()
    drawn = normal(keys, 20_000, salt=0).numpy()
    # Bit-equal but for the last lanes of a vectorised cosine.
    np.testing.assert_allclose(normal(keys[2:3], 37, salt=0)[0], drawn[2, :37], atol=1e-5)
    assert np.abs(drawn.mean(axis=1)).max() < 0.03
    assert np.abs(drawn.std(axis=1) - 1).max() < 0.03
    assert np.abs(np.corrcoef(drawn) - np.eye(6)).max() < 0.03
    flat = uniform(keys, 20_000, salt=1).numpy()
    assert flat.min() > 0
    assert flat.max() < 1
    assert np.abs(np.histogram(flat, 10, (0, 1))[0] / flat.size - 0.1).max() < 0.005


def test_dropout_leaves_out_a_share_which_belongs_to_the_clip_and_differs_by_layer():
    keys = clip_keys(tf.constant([1, 2]), 5, tf.constant([[1, 2], [3, 4]]), tf.constant([2, 2]))
    x = tf.random.stateless_normal([2, 300, 40], [0, 0]) + 5.0
    drop = Dropout(keys, 0.2)
    first, second = drop(x).numpy(), drop(x).numpy()
    left_out = first == 0.0
    assert left_out.mean() == pytest.approx(0.2, abs=0.01)
    np.testing.assert_allclose(first[~left_out], x.numpy()[~left_out] / 0.8, rtol=1e-5)
    assert np.mean(left_out & (second == 0.0)) == pytest.approx(0.04, abs=0.01)
    assert np.mean(left_out[0] & left_out[1]) == pytest.approx(0.04, abs=0.01)
    alone = Dropout(keys[1:], 0.2)(x[1:, :100]).numpy()  # another batch, padded otherwise
    np.testing.assert_array_equal(alone[0], first[1, :100])


def best_path(likelihood):
    """The best way to share the frames among the tokens, by trying all of them."""
    tokens, frames = likelihood.shape
    sums = np.concatenate([np.zeros([tokens, 1]), np.cumsum(likelihood, axis=1)], axis=1)

    def score(ends):
        rows = zip(sums, (0, *ends), ends, strict=False)
        return sum(row[end] - row[start] for row, start, end in rows)

    ways = itertools.combinations(range(1, frames), tokens - 1)
    ends = max(((*way, frames) for way in ways), key=score)
    return np.diff((0, *ends))


def test_the_search_finds_the_best_of_all_paths_for_every_length():
    random = np.random.default_rng(0)
    lengths = [(t, f) for t in range(1, 5) for f in range(t, 10)]
    likelihood = random.normal(size=[len(lengths), 5, 11]).astype(np.float32) * 3
    token_lengths, mel_lengths = np.array(lengths, np.int32).T
    found = search_alignment(
        tf.constant(likelihood), tf.constant(token_lengths), tf.constant(mel_lengths)
    ).numpy()
    for row, (tokens, frames) in enumerate(lengths):
        durations = best_path(likelihood[row, :tokens, :frames])
        path = found[row]
        assert path[:tokens].sum(axis=1).tolist() == durations.tolist(), (tokens, frames)
        assert path.sum() == frames
        assert not path[tokens:].any()
        assert not path[:, frames:].any()


def test_places_run_from_the_start_to_the_end_of_each_token():
    alignment = alignment_from_durations(tf.constant([[2, 4, 0]]), 8)
    place, square, bow, length = places_in_tokens(alignment)[0].numpy().T
    wanted = [0.25, 0.75, 0.125, 0.375, 0.625, 0.875, 0, 0]
    np.testing.assert_allclose(place, wanted, atol=1e-6)
    np.testing.assert_allclose(square, np.square(wanted), atol=1e-6)
    np.testing.assert_allclose(bow, np.sin(np.pi * place), atol=1e-6)
    np.testing.assert_allclose(length, np.log1p([2, 2, 4, 4, 4, 4, 0, 0]) / 4, atol=1e-6)


@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 7, 12, 13])
def test_a_convolution_and_its_gradient_are_the_plain_dilated_ones(dilation, length):
    random = np.random.default_rng(length)
    x = tf.constant(random.normal(size=[2, length, 3]).astype(np.float32))
    conv = Conv(4, dilation=dilation)
    conv.build(x.shape)
    conv.bias.assign(random.normal(size=4))
    upstream = random.normal(size=[2, length, 4]).astype(np.float32)
    weights = [conv.kernel.value, conv.bias.value]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = conv(x)
    dx, dkernel, dbias = tape.gradient(y, [x, *weights], output_gradients=tf.constant(upstream))

    kernel = conv.kernel.numpy()
    expected = np.zeros([2, length, 4]) + conv.bias.numpy()
    expected_dx, expected_dkernel = np.zeros(x.shape), np.zeros(kernel.shape)
    for at, tap in itertools.product(range(length), range(5)):
        seen = at + (tap - 2) * dilation
        if 0 <= seen < length:
            expected[:, at] += x[:, seen].numpy() @ kernel[tap]
            expected_dx[:, seen] += upstream[:, at] @ kernel[tap].T
            expected_dkernel[tap] += x[:, seen].numpy().T @ upstream[:, at]
    np.testing.assert_allclose(y, expected, atol=1e-5)
    np.testing.assert_allclose(dx, expected_dx, atol=1e-5)
    np.testing.assert_allclose(dkernel, expected_dkernel, atol=1e-5)
    np.testing.assert_allclose(dbias, upstream.sum((0, 1)), atol=1e-5)


def test_a_pitchs_template_has_its_harmonics_in_their_mel_bands_and_silence_none():
    pitches = [100.0, 200.0, 400.0, 0.0]
    templates = harmonic_template(tf.constant([pitches]))[0].numpy()
    centres = mel_matrix().T @ np.arange(len(mel_matrix())) * 22050 / 1024
    centres /= mel_matrix().sum(axis=0)
    for pitch, template in zip(pitches[:3], templates, strict=False):
        low = centres < 1500  # above, bands are wider than the distance of low harmonics
        peaks = [
            i
            for i in range(1, low.sum())
            if template[i] > template[i - 1] and template[i] >= template[i + 1]
        ]
        spacing = np.diff(centres[:40]).max()
        assert centres[peaks[0]] == pytest.approx(pitch, abs=spacing)
        harmonics = centres[peaks] / pitch
        if pitch >= 200:
            assert len(peaks) == pytest.approx(1500 // pitch, abs=1)
            assert np.abs(harmonics - np.round(harmonics)).max() * pitch < spacing
    assert not templates[3].any()
    assert np.isfinite(harmonic_template(tf.constant([[1.0, 5000.0]]))).all()


def test_a_references_pitch_is_the_median_of_its_voiced_frames():
    reference = ReferenceEncoder(8)
    pitch = np.zeros([4, 9], np.float32)
    pitch[0, [1, 4, 5]] = [100, 400, 150]
    pitch[1] = 120
    pitch[2, :4] = [90, 90, 200, 210]  # the lower of two middles
    pitch[1, 6:] = 900  # padding
    lengths = tf.constant([9, 6, 9, 9])
    voices = reference(tf.zeros([4, 9, NUM_MELS]), lengths, tf.constant(pitch), None)
    np.testing.assert_allclose(np.exp(voices.log_pitch), [150, 120, 90, REFERENCE_PITCH], rtol=1e-5)
    assert np.isfinite(voices.vector).all()
