"""Reads WAV files inside a TensorFlow graph, many at once and without Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from myxtts.features.audio import REFERENCE_SAMPLES, SAMPLE_RATE

# TensorFlow's own decoder goes through floats: looking for the samples ourselves and taking them
# as they are is twice as fast, and reads the headers of more programs.
NO_SAMPLES = (
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x22\x56\0\0\x44\xac\0\0\2\0\x10\0data\0\0\0\0"
)
MAX_CHUNKS = 64  # before the samples; a file of zeros has one every 8 bytes
READ_AHEAD = 4  # batches; the pipeline's host buffer, which is counted, comes behind


def read_batches(
    requests: Callable[[], Iterator[tuple[list[str], list[str], Any, int]]], *, num_workers: int
) -> Iterator[Any]:
    """What `_load` makes of each request, in order; at most `num_workers` files are read at once.

    A request that fails raises when its turn comes, and the next one follows all the same.
    """
    specs = (
        tf.TensorSpec([None], tf.string),
        tf.TensorSpec([None], tf.string),
        tf.TensorSpec([None], tf.float64),
        tf.TensorSpec([], tf.int32),
    )
    dataset = tf.data.Dataset.from_generator(requests, output_signature=specs)
    # A fixed number, each with ten files at once: AUTOTUNE may take a minute to end its iterator
    # (see `pipeline.iterators`), and it reads no faster.
    at_once = max(READ_AHEAD, num_workers // 10)
    dataset = dataset.map(_load, num_parallel_calls=at_once, deterministic=True)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = num_workers
    return iter(dataset.with_options(options).prefetch(READ_AHEAD))


def _load(paths: Any, refs: Any, crops: Any, samples: Any) -> tuple[Any, Any, Any, Any]:
    """Waves and their lengths, then crops of the references and theirs."""
    files = tf.map_fn(_read_file, tf.concat([paths, refs], axis=0))
    starts, counts = _find_samples(files)
    rows = tf.shape(paths)[0]
    lengths = tf.minimum(counts[:rows], samples)
    waves = _cut_samples(files[:rows], starts[:rows], lengths, samples)
    cut_lengths = tf.minimum(counts[rows:], REFERENCE_SAMPLES)
    room = counts[rows:] - cut_lengths
    begins = tf.cast(crops * tf.cast(room + 1, tf.float64), tf.int32)
    cut = _cut_samples(files[rows:], starts[rows:] + 2 * begins, cut_lengths, REFERENCE_SAMPLES)
    return waves, lengths, cut, cut_lengths


def _read_file(path: Any) -> Any:
    """The bytes of a WAV; one without samples for the empty path of a masked row."""
    return tf.cond(path == "", lambda: tf.constant(NO_SAMPLES), lambda: tf.io.read_file(path))


def _find_samples(files: Any) -> tuple[Any, Any]:
    """Where in each WAV the samples begin, and how many there are; an error if it is not ours."""

    def part(at: Any, size: int) -> Any:
        return tf.strings.substr(files, at, tf.fill(tf.shape(at), tf.cast(size, at.dtype)))

    def halves(at: Any, count: int) -> Any:
        return tf.io.decode_raw(part(at, 2 * count), tf.uint16, fixed_length=2 * count)

    def size_of(chunk: Any) -> Any:
        low_and_high = tf.cast(halves(chunk + 4, 2), tf.int64)
        return low_and_high[:, 0] + 65536 * low_and_high[:, 1]

    def find_chunk(name: str) -> Any:
        def is_other(at: Any) -> Any:
            return part(at, 4) != name

        def go_on(at: Any) -> Any:
            size = size_of(at)
            return tf.where(is_other(at), at + 8 + size + size % 2, at)

        first = tf.fill(tf.shape(files), tf.constant(12, tf.int64))
        (found,) = tf.while_loop(
            lambda at: tf.reduce_any(is_other(at)), go_on, [first], maximum_iterations=MAX_CHUNKS
        )
        with tf.control_dependencies([tf.Assert(~tf.reduce_any(is_other(found)), ["no", name])]):
            return tf.identity(found)

    beginning = tf.zeros(tf.shape(files), tf.int64)
    shape = halves(find_chunk("fmt ") + 8, 8)
    data = find_chunk("data")
    ours = [
        tf.reduce_all(part(beginning, 4) == "RIFF"),
        tf.reduce_all(shape[:, 1] == 1),  # channel
        tf.reduce_all(shape[:, 2] == SAMPLE_RATE),
        tf.reduce_all(shape[:, 3] == 0),  # the upper half of the rate
        tf.reduce_all(shape[:, 7] == 16),  # bits
    ]
    with tf.control_dependencies([tf.Assert(tf.reduce_all(ours), ["not 16-bit mono WAV"])]):
        promised = size_of(data)
    present = tf.cast(tf.strings.length(files), tf.int64) - data - 8
    # A recorder that writes to a pipe leaves a length that is more than there is.
    length = tf.minimum(promised, present)
    return tf.cast(data + 8, tf.int32), tf.cast(length // 2, tf.int32)


def _cut_samples(files: Any, starts: Any, lengths: Any, samples: Any) -> Any:
    """So many samples of each file from its start on, padded with zeros."""
    bytes_ = tf.strings.substr(files, starts, 2 * lengths)
    return tf.io.decode_raw(bytes_, tf.int16, fixed_length=2 * samples)
