"""The data device's work: padded 16-bit waveforms to log-mels, in TensorFlow.

Shapes: B batch, S samples, F frames, M mels. Every function takes the true length of each row, and
what stands in the padding never reaches a real frame. On a CPU rows are worked on one by one, for
the caches' sake; on a GPU all at once, in few large kernels and without a trip to the host: there
whole numbers of 32 bits are computed by the host, so places are counted in floats.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.features.audio import FFT, HOP, num_frames
from myxtts.features.filters import LOG_FLOOR, MEL_BINS, hann, mel_matrix

MOST_AT_ONCE = 1 << 24  # samples in frames on a GPU: 128 MB in float64


def log_mel(
    waves: tf.Tensor,
    lengths: tf.Tensor,
    *,
    precise: bool = True,
    by_row: bool = True,
    exact: bool = False,
) -> tf.Tensor:
    """Natural-log mels [B, F, M] of float waves [B, S]; frames past a row's end are at the floor.

    Equal to librosa's `melspectrogram(sr=22050, n_fft=1024, hop_length=256, power=1, n_mels=80,
    fmin=0, fmax=8000, htk=False, norm="slaney")` of each row by itself. Not `precise` takes half
    the time: in float32 the rounding of an FFT shows in bands 100 dB below the loudest, by 0.0016.
    """
    count = num_frames(waves.shape[1])
    dtype = tf.float64 if precise else tf.float32
    if by_row:
        # The frames of a whole batch (four times the audio, in float64) leave every cache: measured
        # on a CPU this halves the time.
        padded = _mirror_ends(waves, lengths, FFT // 2)
        mels = tf.map_fn(lambda row: _mel_amplitudes(row, count, dtype, exact=exact), padded)
    else:
        padded = _mirror_all_ends(waves, lengths, FFT // 2)
        rows = max(1, MOST_AT_ONCE // (count * FFT))
        parts = [padded[i : i + rows] for i in range(0, padded.shape[0], rows)]
        amplitudes = [_mel_amplitudes(part, count, dtype, exact=exact) for part in parts]
        mels = tf.concat(amplitudes, axis=0)
    mels = tf.math.log(tf.maximum(mels, LOG_FLOOR))
    return tf.where(frame_mask(waves, lengths)[..., None], mels, np.float32(np.log(LOG_FLOOR)))


def _mel_amplitudes(padded: tf.Tensor, count: int, dtype: tf.DType, *, exact: bool) -> tf.Tensor:
    """Mel amplitudes [..., F, M] of padded rows."""
    frames = side_by_side(padded, count, size=FFT, hop=HOP)
    spectrum = tf.signal.rfft(tf.cast(frames, dtype) * tf.constant(hann(), dtype))
    spectrum = spectrum[..., :MEL_BINS]
    if padded.shape.rank > 1:  # on a GPU two launches instead of eight; on a CPU slower
        magnitude = tf.cast(tf.abs(spectrum), tf.float32)
    else:
        real = tf.cast(tf.math.real(spectrum), tf.float32)
        imaginary = tf.cast(tf.math.imag(spectrum), tf.float32)
        magnitude = tf.sqrt(tf.square(real) + tf.square(imaginary))
    return product(magnitude, mel_matrix()[:MEL_BINS], exact=exact)


def product(left: tf.Tensor, right: np.ndarray, *, exact: bool) -> tf.Tensor:
    """A product of float32 matrices; `exact` where a GPU would round the factors (TF32)."""
    if not exact:
        return tf.matmul(left, tf.constant(right))
    return tf.cast(tf.matmul(tf.cast(left, tf.float64), right.astype(np.float64)), tf.float32)


def side_by_side(waves: tf.Tensor, count: int, *, size: int, hop: int) -> tf.Tensor:
    """Frames [..., F, size] of waves [..., S], a hop apart: whole hops, laid side by side."""
    per_frame = -(-size // hop)
    *rows, samples = waves.shape
    needed = (count + per_frame - 1) * hop
    if samples < needed:
        waves = tf.pad(waves, [*([0, 0] for _ in rows), [0, needed - samples]])
    hops = tf.reshape(waves[..., :needed], [*rows, count + per_frame - 1, hop])
    joined = tf.concat([hops[..., i : i + count, :] for i in range(per_frame)], axis=-1)
    return joined if size % hop == 0 else joined[..., :size]


def frame_mask(waves: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Which frames [B, F] belong to a row's own audio; a row of no samples has none."""
    samples = tf.cast(lengths, tf.float32)[:, None]
    return (HOP * _counted(num_frames(waves.shape[1])) <= samples) & (samples > 0.0)


def real_frames(lengths: tf.Tensor) -> tf.Tensor:
    """Frames of each row's own audio [B]."""
    return tf.minimum(lengths, 1) * num_frames(lengths)  # by the host, where whole numbers are


def _counted(most: int) -> tf.Tensor:
    """0, 1, 2 and so on, below 2**24 exact."""
    return tf.constant(np.arange(most, dtype=np.float32))


def _mirror_ends(waves: tf.Tensor, lengths: tf.Tensor, margin: int) -> tf.Tensor:
    """Mirror each row at its own two ends, as librosa does with a clip by itself.

    The tails are rolled into place. (A scatter would wait for the devices' thread pool, where a
    compiled training step sits until it is done; a gather of whole rows costs ten times this.)
    """
    rows, samples = waves.shape
    inside = tf.where(tf.range(samples) < lengths[:, None], waves, 0.0)
    head = tf.reverse(waves[:, 1 : margin + 1], axis=[1])
    padded = tf.concat([head, inside, tf.zeros([rows, margin + HOP])], axis=1)
    mirrored = tf.clip_by_value(lengths[:, None] - 2 - tf.range(margin), 0, samples - 1)
    tails = tf.pad(tf.gather(waves, mirrored, batch_dims=1), [[0, 0], [0, samples + margin + HOP]])
    return padded + tf.map_fn(
        lambda row: tf.roll(row[0], margin + row[1], axis=0),
        (tails, lengths),
        fn_output_signature=tf.float32,
    )


def _mirror_all_ends(waves: tf.Tensor, lengths: tf.Tensor, margin: int) -> tf.Tensor:
    """The same by one gather, which a GPU does not mind."""
    samples, ends = waves.shape[1], tf.cast(lengths, tf.float32)[:, None]
    place = _counted(samples + 2 * margin + HOP)[None] - float(margin)
    source = tf.where(place < ends, tf.abs(place), 2.0 * ends - 2.0 - place)
    source = tf.clip_by_value(source, 0.0, samples - 1.0)
    mirrored = tf.gather(waves, tf.cast(source, tf.int64), batch_dims=1)
    return tf.where(place < ends + float(margin), mirrored, 0.0)
