"""What is counted in traced graphs: arithmetic, bytes and launches, op by op and as XLA joins."""

from __future__ import annotations

import pytest
import tensorflow as tf

from myxtts.profiling.graph_walk import walk
from myxtts.profiling.kernels import kernels_of
from myxtts.profiling.operation_cost import cost_of

FLOAT = 4


def trace(function, *shapes, dtype=tf.float32):
    specs = [tf.TensorSpec(shape, dtype) for shape in shapes]
    return tf.function(function).get_concrete_function(*specs)


def kernels(function, *shapes, compiled=False):
    return kernels_of(trace(function, *shapes), compiled=compiled)


def total(found, what):
    return sum(kernel.times * getattr(kernel.cost, what) for kernel in found)


@pytest.mark.parametrize(
    ("function", "shapes", "kind", "flops"),
    [
        (tf.matmul, ([3, 5], [5, 7]), "matmul", 2 * 3 * 5 * 7),
        (lambda a, b: tf.matmul(a, b, transpose_a=True), ([5, 3], [5, 7]), "matmul", 2 * 3 * 5 * 7),
        (tf.matmul, ([2, 3, 5], [2, 5, 7]), "matmul", 2 * 2 * 3 * 5 * 7),
        (
            lambda a, b: tf.matmul(a, b, transpose_a=True),
            ([2, 5, 3], [2, 5, 7]),
            "matmul",
            2 * 2 * 3 * 5 * 7,
        ),
        (lambda a, b: tf.einsum("bth,hno->btno", a, b), ([2, 3, 5], [5, 7, 4]), "matmul", 1680),
        (
            lambda a, b: tf.raw_ops.Einsum(inputs=[a, b], equation="...ab,...bc->...ac"),
            ([2, 6, 3, 5], [2, 6, 5, 7]),
            "matmul",
            2 * 12 * 3 * 5 * 7,
        ),
        (
            lambda x, k: tf.nn.conv1d(x, k, stride=1, padding="SAME"),
            ([2, 11, 3], [5, 3, 4]),
            "conv",
            2 * (2 * 11 * 4) * 5 * 3,
        ),
        (tf.signal.rfft, ([6, 16],), "fft", 2.5 * 6 * 16 * 4),
        (lambda x: tf.nn.max_pool1d(x, 3, 1, "SAME"), ([2, 8, 1],), "vector", 3 * 16),
        (lambda x: tf.reduce_sum(x, axis=1), ([4, 50],), "vector", 200),
        (lambda a, b: a + b, ([4, 50], [50]), "vector", 200),
    ],
)
def test_the_arithmetic_of_an_operation_is_counted(function, shapes, kind, flops):
    found = [k for k in kernels(function, *shapes) if k.cost.flops]
    assert [(k.cost.kind, k.cost.flops, k.times) for k in found] == [(kind, flops, 1)]


def test_the_gradients_of_a_convolution_cost_twice_the_convolution():
    def gradients(x, kernel):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            y = tf.nn.conv1d(x, kernel, stride=1, padding="SAME")
        return y, tape.gradient(y, [x, kernel])

    found = kernels(gradients, [2, 11, 3], [5, 3, 4])
    convolutions = [k.cost.flops for k in found if k.cost.kind == "conv"]
    assert len(convolutions) == 3
    assert len(set(convolutions)) == 1


def test_bytes_are_what_is_read_and_written_and_of_a_slice_only_what_comes_out():
    (adding,) = kernels(lambda a, b: a + b, [4, 50], [50])
    assert adding.cost.bytes == FLOAT * (200 + 50 + 200)
    (slicing,) = kernels(lambda a: a[:, 10:20], [4, 50])
    where = 3 * 2 * 4  # begin, end and stride
    assert slicing.cost.bytes == FLOAT * (40 + 40) + where


def test_what_runs_in_a_loop_counts_as_often_as_the_loop_goes_round():
    def loop(x):
        return tf.scan(lambda carry, row: tf.tanh(carry + row), x)

    found = kernels(loop, [30, 8])
    inside = {k.name: k for k in found if k.loop}
    assert inside["Tanh"].times == 29 or inside["Tanh"].times == 30
    assert all(k.times == 1 for k in found if not k.loop)


def test_what_nobody_reads_or_what_is_known_before_is_not_counted():
    def wasteful(x):
        tf.exp(x)  # nobody reads it
        return x * tf.cast(tf.shape(x)[0] * 3, tf.float32)

    assert [k.name for k in kernels(wasteful, [4, 5])] == ["Mul"]


def chain(x, weights):
    y = tf.tanh(x * 2.0 + 1.0)
    return tf.reduce_sum(tf.nn.relu(tf.matmul(y, weights) - 3.0), axis=1)


def test_op_by_op_every_operation_is_a_launch():
    names = [k.name for k in kernels(chain, [8, 16], [16, 32])]
    assert names == ["Mul", "AddV2", "Tanh", "MatMul", "Sub", "Relu", "Sum"]


def test_compiled_only_what_goes_to_memory_is_a_launch():
    found = kernels(chain, [8, 16], [16, 32], compiled=True)
    assert [k.name for k in found] == ["Tanh", "MatMul", "Sum"]
    tanh, product, summing = (k.cost for k in found)
    constants = 2 * FLOAT
    assert tanh.bytes == FLOAT * (128 + 128) + constants
    assert product.bytes == FLOAT * (128 + 512 + 256)
    assert summing.bytes == FLOAT * (256 + 8 + 1 + 1)  # with the constant, and the axis
    plain = kernels(chain, [8, 16], [16, 32])
    assert total(found, "flops") == total(plain, "flops")
    assert total(found, "bytes") < total(plain, "bytes")


def test_compiled_an_expensive_result_that_several_read_goes_to_memory():
    def twice(x):
        y = tf.exp(x)
        return tf.reduce_sum(y, axis=0), tf.reduce_max(y * x, axis=1)

    assert [k.name for k in kernels(twice, [8, 8], compiled=True)] == ["Exp", "Sum", "Max"]

    def cheap(x):
        y = x + 1.0
        return tf.reduce_sum(y, axis=0), tf.reduce_max(y * x, axis=1)

    assert [k.name for k in kernels(cheap, [8, 8], compiled=True)] == ["Sum", "Max"]


def test_half_and_double_numbers_are_told_apart():
    def number(dtype):
        function = trace(tf.matmul, [3, 5], [5, 7], dtype=dtype)
        (level,) = walk(function)
        (operation,) = [op for op in level.operations if op.type == "MatMul"]
        return cost_of(operation).number

    assert [number(d) for d in (tf.bfloat16, tf.float16, tf.float32, tf.float64)] == [
        "half",
        "half",
        "single",
        "double",
    ]
