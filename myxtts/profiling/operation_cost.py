"""What one operation of a traced graph takes: floating-point operations, and bytes moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from myxtts.profiling.graph_walk import elements

Kind = Literal["matmul", "conv", "fft", "vector"]  # which unit, or which library, works on it
Number = Literal["half", "single", "double"]

TRANSCENDENTAL_FLOPS = 16  # an exponential or a sine is a polynomial of about this length
DIVISION_FLOPS = 4
_TRANSCENDENTAL = frozenset(
    """
    Exp Expm1 Log Log1p Tanh Sigmoid Softplus Elu Erf Sin Cos Pow Softmax LogSoftmax
    """.split()  # noqa: SIM905
)
_DIVISIONS = frozenset({"RealDiv", "Div", "DivNoNan", "Reciprocal", "Sqrt", "Rsqrt", "FloorMod"})
_MATMULS = frozenset({"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"})
_CONVS = frozenset({"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"})
_FFTS = {"FFT": 5.0, "IFFT": 5.0, "RFFT": 2.5, "IRFFT": 2.5}  # times n log2 n, as FFTW counts
REDUCTIONS = frozenset(
    """
    Sum Mean Max Min Prod All Any ArgMax ArgMin Cumsum MaxPool L2Loss BiasAddGrad EuclideanNorm
    UnsortedSegmentSum Softmax LogSoftmax
    """.split()  # noqa: SIM905
)
# Of a larger tensor only as much is read as comes out.
SLICES = frozenset(
    """
    StridedSlice Slice Gather GatherV2 GatherNd Split SplitV Unpack TensorListGetItem ResourceGather
    """.split()  # noqa: SIM905
)
_ORDERS = frozenset({"TopKV2", "Sort"})


@dataclass(frozen=True)
class Cost:
    """Of one run of an operation, or of a kernel that does several."""

    kind: Kind
    number: Number
    flops: float
    bytes: float


def cost_of(operation: Any) -> Cost:
    """An operation by itself: every input is read from memory, every result written to it."""
    read = sum(bytes_read(operation, tensor) for tensor in operation.inputs)
    written = sum(map(size_bytes, operation.outputs))
    return Cost(kind_of(operation), number_of(operation), flops_of(operation), read + written)


def kind_of(operation: Any) -> Kind:
    """What works on it."""
    if operation.type in _MATMULS:
        return "matmul"
    if operation.type in _CONVS:
        return "conv"
    return "fft" if operation.type in _FFTS else "vector"


def number_of(operation: Any) -> Number:
    """The numbers it computes with."""
    names = {tensor.dtype.name for tensor in (*operation.inputs, *operation.outputs)}
    if names & {"float64", "complex128"}:
        return "double"
    return "half" if names & {"bfloat16", "float16"} and "float32" not in names else "single"


def flops_of(operation: Any) -> float:
    """Floating-point operations, a multiply and an add counted as two."""
    kind, results = operation.type, elements(operation.outputs[0]) if operation.outputs else 0
    if kind == "Einsum":
        return 2.0 * math.prod(_labels(operation).values())
    if kind in _MATMULS:
        turned = operation.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
        return 2.0 * results * (operation.inputs[0].shape[-2 if turned else -1] or 1)
    if kind in _CONVS:
        return _conv_flops(operation)
    if kind in _FFTS:
        wide, narrow = operation.inputs[0], operation.outputs[0]
        length = max(wide.shape[-1] or 1, narrow.shape[-1] or 1)
        rows = elements(narrow) // (narrow.shape[-1] or 1)
        return _FFTS[kind] * rows * length * math.log2(max(2, length))
    if kind == "MaxPool":
        return float(results * math.prod(operation.get_attr("ksize")))
    most = max([results, *map(elements, operation.inputs)], default=0)
    if kind in _ORDERS:
        return most * math.log2(max(2, most))
    if kind in SLICES:
        return 0.0
    if kind in _TRANSCENDENTAL:
        return float(most * TRANSCENDENTAL_FLOPS)
    return float(most * (DIVISION_FLOPS if kind in _DIVISIONS else 1))


def is_expensive(operation: Any) -> bool:
    """Whether to compute it twice costs more than to read its result again."""
    return operation.type in _TRANSCENDENTAL


def bytes_read(operation: Any, tensor: Any) -> int:
    """What an operation reads of one of its inputs."""
    whole = size_bytes(tensor)
    if operation.type in SLICES:
        return min(whole, sum(map(size_bytes, operation.outputs)))
    return whole


def size_bytes(tensor: Any) -> int:
    """A tensor in memory; a variable's handle or a list is nothing by itself."""
    if tensor.dtype.name in ("resource", "variant", "string"):
        return 0
    return elements(tensor) * int(tensor.dtype.size)


def _conv_flops(operation: Any) -> float:
    if operation.type == "Conv2D":
        places, kernel = operation.outputs[0], operation.inputs[1]
    elif operation.type == "Conv2DBackpropInput":
        places, kernel = operation.inputs[2], operation.inputs[1]
    else:
        places, kernel = operation.inputs[2], operation.outputs[0]
    height, width, channels = (size or 1 for size in kernel.shape[:3])
    return 2.0 * elements(places) * height * width * channels


def _labels(operation: Any) -> dict[str, int]:
    """The length behind each letter of an Einsum; what the dots stand for counts too."""
    sizes: dict[str, int] = {}
    letters = operation.get_attr("equation").decode().split("->")[0].split(",")
    for tensor, word in zip(operation.inputs, letters, strict=True):
        shape = [size or 1 for size in tensor.shape]
        head, dots, tail = word.partition("...")
        if dots:
            inner = shape[len(head) : len(shape) - len(tail)]
            sizes["..."] = max(sizes.get("...", 1), math.prod(inner))
        sizes |= dict(zip(head, shape, strict=False))
        sizes |= dict(zip(reversed(tail), reversed(shape), strict=False))
    return sizes
