"""About how long a compiled step takes on an RTX 3090, and what share of it its loops are.

An estimate, not a measurement: every kernel takes as long as its launch, its arithmetic or its
memory traffic, whichever is longest. XLA fuses what lies between the large kernels, so each of
those (products, convolutions, sorts, gathers) is taken to be followed by one fused kernel that
reads and writes as much as it wrote; a reduction counts as such a kernel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from myxtts.checks.gpu_readiness import inner_graphs, rounds_of

# Published by NVIDIA for the RTX 3090 (GA102): dense; half precision with sums in float32.
FLOAT32_FLOPS, HALF_FLOPS = 35.6e12, 71.0e12
BYTES_PER_S = 936e9
# Assumed, of the usual order; to be measured by the first GPU that is met.
REACHED = 0.5  # of the published arithmetic, by convolutions of a few hundred channels
LAUNCH_S = 5e-6  # of one kernel
ROUND_S = 20e-6  # of one round of a compiled loop: its launches, and moving its counter

PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")
CONVOLUTIONS = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
MOVES = ("GatherV2", "ResourceGather", "ScatterNd", "UnsortedSegmentSum", "TopKV2", "Transpose")
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "Cumsum", "Any", "All")
HALF = ("float16", "bfloat16")


@dataclass(frozen=True)
class Estimate:
    """Seconds of a step, and those of its loops."""

    kernels_s: float
    loops_s: float
    kernels: int
    rounds: int
    flops: float

    @property
    def step_s(self) -> float:
        """All of it."""
        return self.kernels_s + self.loops_s

    @property
    def loop_share(self) -> float:
        """What part of the step its loops take."""
        return self.loops_s / self.step_s


def estimate_step(concrete: Any) -> Estimate:
    """Add up the kernels and the loops of a compiled function."""
    kernels, rounds = list(_kernels(concrete.graph)), sum(_rounds(concrete.graph))
    return Estimate(
        kernels_s=sum(seconds for seconds, _ in kernels),
        loops_s=rounds * ROUND_S,
        kernels=len(kernels),
        rounds=rounds,
        flops=sum(flops for _, flops in kernels),
    )


def _kernels(graph: Any) -> Iterator[tuple[float, float]]:
    """Seconds and arithmetic of each kernel outside loops."""
    for operation in graph.get_operations():
        if operation.type in (*PRODUCTS, *CONVOLUTIONS, *MOVES):
            flops = _flops(operation)
            peak = HALF_FLOPS if operation.outputs[0].dtype.name in HALF else FLOAT32_FLOPS
            written = sum(map(_bytes, operation.outputs))
            traffic = sum(map(_bytes, operation.inputs)) + written
            yield max(LAUNCH_S, flops / (peak * REACHED), traffic / BYTES_PER_S), flops
            yield max(LAUNCH_S, 2 * written / BYTES_PER_S), 0.0
        elif operation.type in REDUCTIONS:
            yield max(LAUNCH_S, _bytes(operation.inputs[0]) / BYTES_PER_S), 0.0
        for inner, loops in inner_graphs(operation):
            if not loops:
                yield from _kernels(inner)


def _rounds(graph: Any) -> Iterator[int]:
    for operation in graph.get_operations():
        if "body" in operation.node_def.attr:
            rounds = rounds_of(operation)
            assert rounds is not None, f"{operation.name} does not say how often it goes round"
            yield rounds
        for inner, loops in inner_graphs(operation):
            if not loops:
                yield from _rounds(inner)


def _flops(operation: Any) -> float:
    if operation.type in MOVES:
        return 0.0
    if operation.type in CONVOLUTIONS:
        # Of the three, the kernel and what it slides over are always there.
        kernel, image = _convolved(operation)
        return 2.0 * math.prod(kernel) * math.prod(image[:3])
    first = list(operation.inputs[0].shape)
    if operation.type == "Einsum":
        return 2.0 * _einsum_size(operation)
    transposed = any(
        name in operation.node_def.attr and operation.get_attr(name)
        for name in ("transpose_a", "adj_x")
    )
    inner = first[-2] if transposed else first[-1]
    return float(2 * math.prod(operation.outputs[0].shape) * inner)


def _convolved(operation: Any) -> tuple[list[int], list[int]]:
    """The kernel's shape, and that of the convolution's output."""
    if operation.type == "Conv2D":
        kernel, image = operation.inputs[1], operation.outputs[0]
    elif operation.type == "Conv2DBackpropInput":
        kernel, image = operation.inputs[1], operation.inputs[2]
    else:
        kernel, image = operation.outputs[0], operation.inputs[2]
    return list(kernel.shape), list(image.shape)


def _einsum_size(operation: Any) -> int:
    """The product of all its axes."""
    names = operation.get_attr("equation").decode().split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for axes, tensor in zip(names, operation.inputs, strict=True):
        sizes.update(zip(axes, tensor.shape, strict=True))
    return math.prod(sizes.values())


def _bytes(tensor: Any) -> int:
    return int(math.prod(d or 1 for d in tensor.shape.as_list()) * tensor.dtype.size)
