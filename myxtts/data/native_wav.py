"""Takes the samples out of WAV files inside a TensorFlow graph, many files at once."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from myxtts.data.audio import SAMPLE_RATE

# TensorFlow's own decoder goes through floats: looking for the samples ourselves and taking them
# as they are is twice as fast, and reads the headers of more programs.
NO_SAMPLES = (
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x22\x56\0\0\x44\xac\0\0\2\0\x10\0data\0\0\0\0"
)


def read_file(path: Any) -> Any:
    """The bytes of a WAV; one without samples for the empty path of a masked row."""
    return tf.cond(path == "", lambda: tf.constant(NO_SAMPLES), lambda: tf.io.read_file(path))


def find_samples(files: Any) -> tuple[Any, Any]:
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
        return tf.while_loop(lambda at: tf.reduce_any(is_other(at)), go_on, [first])[0]

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


def cut_samples(files: Any, starts: Any, lengths: Any, samples: Any) -> Any:
    """So many samples of each file from its start on, padded with zeros."""
    bytes_ = tf.strings.substr(files, starts, 2 * lengths)
    return tf.io.decode_raw(bytes_, tf.int16, fixed_length=2 * samples)
