"""The data device's work: padded 16-bit waveforms to log-mels and pitch, in TensorFlow.

Shapes: B batch, S samples, F frames, M mels. Every function takes the true length of each row, and
what stands in the padding never reaches a real frame.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import tensorflow as tf

from myxtts.data.audio import FFT, HOP, NUM_MELS, SAMPLE_RATE, num_frames

MEL_FMAX = 8000.0
MEL_BINS = int(MEL_FMAX * FFT / SAMPLE_RATE) + 1  # no mel filter looks at the bins above
LOG_FLOOR = 1e-5

# Pitch is found at half the rate, where the lags of a voice are few.
PITCH_DECIMATION = 2
PITCH_RATE = SAMPLE_RATE // PITCH_DECIMATION
PITCH_HOP = HOP // PITCH_DECIMATION
PITCH_FMIN, PITCH_FMAX = 60.0, 500.0
PITCH_WINDOW = 384  # 35 ms: two periods of the lowest voice
MIN_LAG, MAX_LAG = int(PITCH_RATE / PITCH_FMAX), int(PITCH_RATE / PITCH_FMIN) + 1
PITCH_FFT = 576  # holds window + largest lag
YIN_VOICED = 0.35  # aperiodicity under which a frame counts as voiced


def log_mel(waves: tf.Tensor, lengths: tf.Tensor, *, precise: bool = True) -> tf.Tensor:
    """Natural-log mels [B, F, M] of float waves [B, S]; frames past a row's end are at the floor.

    Equal to librosa's `melspectrogram(sr=22050, n_fft=1024, hop_length=256, power=1, n_mels=80,
    fmin=0, fmax=8000, htk=False, norm="slaney")` of each row by itself. Not `precise` takes half
    the time: in float32 the rounding of an FFT shows in bands 100 dB below the loudest, by 0.0016.
    """
    padded = _mirror_ends(waves, lengths, FFT // 2)
    count = num_frames(waves.shape[1])
    dtype = tf.float64 if precise else tf.float32
    # Row by row, because the frames of a whole batch (four times the audio, in float64) leave every
    # cache: measured on a CPU this halves the time.
    mels = tf.map_fn(lambda row: _mel_amplitudes(row, count, dtype), padded)
    mels = tf.math.log(tf.maximum(mels, LOG_FLOOR))
    return tf.where(frame_mask(waves, lengths)[..., None], mels, np.float32(np.log(LOG_FLOOR)))


def _mel_amplitudes(padded: tf.Tensor, count: int, dtype: tf.DType) -> tf.Tensor:
    """Mel amplitudes [F, M] of one padded row; a frame is four hops side by side."""
    per_frame = FFT // HOP
    hops = tf.reshape(padded[: (count + per_frame - 1) * HOP], [count + per_frame - 1, HOP])
    frames = tf.concat([hops[i : i + count] for i in range(per_frame)], axis=-1)
    spectrum = tf.signal.rfft(tf.cast(frames, dtype) * tf.constant(_hann(), dtype))[:, :MEL_BINS]
    real = tf.cast(tf.math.real(spectrum), tf.float32)
    imaginary = tf.cast(tf.math.imag(spectrum), tf.float32)
    magnitude = tf.sqrt(tf.square(real) + tf.square(imaginary))
    return tf.matmul(magnitude, mel_matrix()[:MEL_BINS])


def frame_mask(waves: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Which frames [B, F] belong to a row's own audio; a row of no samples has none."""
    frames = num_frames(waves.shape[1])
    real = tf.where(lengths > 0, num_frames(lengths), 0)
    return tf.range(frames)[None, :] < real[:, None]


def pitch(waves: tf.Tensor, lengths: tf.Tensor, *, every: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
    """Fundamental frequency [B, F] in Hz (0 where unvoiced) and the voicing [B, F] as booleans.

    Of every frame, or of the first of each `every`, where a voice's statistics are all one needs.

    YIN with the cumulative mean normalised difference, and a path through the lags that does not
    jump by octaves (the octave is what YIN by itself gets wrong).
    """
    span = PITCH_WINDOW + MAX_LAG
    padded = tf.pad(_halve_rate(waves), [[0, 0], [span // 2, span]])
    real = frame_mask(waves, lengths)[:, ::every]
    # Row by row for the caches' sake, as the mels.
    cost = tf.map_fn(lambda row: _aperiodicity(row, real.shape[1], every), padded)  # [B, F, lags]
    aperiodicity, lag = _refine(cost, _smooth_path(cost))
    voiced = (aperiodicity < YIN_VOICED) & real
    return tf.where(voiced, PITCH_RATE / lag, 0.0), voiced


def _aperiodicity(padded: tf.Tensor, count: int, every: int) -> tf.Tensor:
    """YIN's normalised difference in a row's frames for lags 0 to MAX_LAG: near 0 at the period."""
    blocks = tf.signal.frame(padded, PITCH_WINDOW + MAX_LAG, PITCH_HOP * every)[:count]
    heads = tf.signal.rfft(blocks[:, :PITCH_WINDOW], [PITCH_FFT])
    products = tf.signal.rfft(blocks, [PITCH_FFT]) * tf.math.conj(heads)
    correlation = tf.signal.irfft(products, [PITCH_FFT])[:, : MAX_LAG + 1]
    # The energy under the window changes with the lag by what comes in and what goes out.
    squares = tf.square(blocks)
    change = squares[:, PITCH_WINDOW:] - squares[:, :MAX_LAG]
    energy = tf.reduce_sum(squares[:, :PITCH_WINDOW], axis=1, keepdims=True)
    energies = energy + tf.cumsum(tf.pad(change, [[0, 0], [1, 0]]), axis=1)
    difference = tf.maximum(energy + energies - 2.0 * correlation, 0.0)
    lags = np.arange(MAX_LAG + 1, dtype=np.float32)
    running_sum = np.triu(np.ones([len(lags), len(lags)], np.float32))  # cheaper than tf.cumsum
    # The small constant makes silence aperiodic instead of 0 / 0.
    return (difference * lags + 1e-7) / (tf.matmul(difference, running_sum) + 1e-7)


JUMP_COST = 0.6  # price of one octave between two frames
LAG_PREFERENCE = 0.02  # a slight pull to short lags: a period's double is as periodic as itself
CELL = 4  # so many neighbouring lags are one place on the path: far cheaper, hardly coarser
NUM_CELLS = (MAX_LAG - MIN_LAG) // CELL


def _smooth_path(cost: tf.Tensor) -> tf.Tensor:
    """The lag of each frame [B, F] on the cheapest path; a jump costs by its size in octaves."""
    octaves = np.log2(np.arange(NUM_CELLS * CELL, dtype=np.float32) / MIN_LAG + 1.0)
    local = cost[..., MIN_LAG : MIN_LAG + NUM_CELLS * CELL] + LAG_PREFERENCE * octaves
    cells = tf.reshape(local, [*cost.shape[:2], NUM_CELLS, CELL])
    # An aperiodic frame has no opinion: its cost must not drag the path along.
    steps = tf.transpose(tf.minimum(tf.reduce_min(cells, axis=-1), 0.6), [1, 0, 2])
    places = octaves[CELL // 2 :: CELL]
    jumps = tf.constant(JUMP_COST * np.abs(places[:, None] - places))

    def forward(total: tf.Tensor, here: tf.Tensor) -> tf.Tensor:
        return here + tf.reduce_min(total[:, None, :] + jumps, axis=-1)

    def back(cell: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
        return tf.argmin(total + tf.gather(jumps, cell), axis=-1, output_type=tf.int32)

    totals = tf.scan(forward, steps)
    last = tf.argmin(totals[-1], axis=-1, output_type=tf.int32)
    path = tf.scan(back, totals[:-1], last, reverse=True)
    path = tf.transpose(tf.concat([path, last[None]], axis=0))
    inside = tf.argmin(tf.gather(cells, path, batch_dims=2), axis=-1, output_type=tf.int32)
    return MIN_LAG + CELL * path + inside


def _refine(cost: tf.Tensor, lag: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The aperiodicity at each frame's lag, and the lag between samples by a parabola."""
    left, here, right = (tf.gather(cost, lag + offset, batch_dims=2) for offset in (-1, 0, 1))
    bend = left - 2.0 * here + right
    shift = tf.where(bend > 1e-6, 0.5 * (left - right) / tf.maximum(bend, 1e-6), 0.0)
    return here, tf.cast(lag, tf.float32) + tf.clip_by_value(shift, -0.5, 0.5)


STRETCH = 64  # samples whose rate is halved by one product with a matrix


def _halve_rate(waves: tf.Tensor) -> tf.Tensor:
    """Every second sample of the low-passed waves; a product is far cheaper than a convolution."""
    matrix = _half_band()
    margin = (len(matrix) - STRETCH) // 2
    padded = tf.pad(waves, [[0, 0], [margin, margin + -waves.shape[1] % STRETCH]])
    stretches = tf.signal.frame(padded, len(matrix), STRETCH)
    return tf.reshape(tf.matmul(stretches, matrix), [waves.shape[0], -1])


@lru_cache(maxsize=1)
def _half_band() -> np.ndarray:
    """A short low-pass filter per second sample: pitch needs no more than the first kilohertz."""
    n = np.arange(-8, 9, dtype=np.float64)
    taps = np.sinc(n * 0.25) * np.hanning(19)[1:-1]
    matrix = np.zeros([STRETCH + len(n) - 1, STRETCH // PITCH_DECIMATION], np.float32)
    for place, column in enumerate(matrix.T):
        column[place * PITCH_DECIMATION :][: len(n)] = taps / taps.sum()
    return matrix


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


@lru_cache(maxsize=1)
def _hann() -> np.ndarray:
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)


@lru_cache(maxsize=1)
def mel_matrix() -> np.ndarray:
    """Slaney's mel filters [FFT/2 + 1, M], each of unit area, as librosa builds them."""

    def to_hz(mel: np.ndarray) -> np.ndarray:
        linear = mel * (200.0 / 3.0)
        return np.where(mel < 15.0, linear, 1000.0 * np.exp((mel - 15.0) * np.log(6.4) / 27.0))

    top_mel = 15.0 + 27.0 * np.log(MEL_FMAX / 1000.0) / np.log(6.4)
    edges = to_hz(np.linspace(0.0, top_mel, NUM_MELS + 2))
    bins = np.linspace(0.0, SAMPLE_RATE / 2.0, FFT // 2 + 1)[:, None]
    rising = (bins - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - bins) / np.diff(edges)[1:]
    filters = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))
    return np.asarray(filters, np.float32)
