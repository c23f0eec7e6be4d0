"""Whether XLA takes a traced function for a GPU, asked of XLA itself without one.

XLA lowers for a platform it does not find as long as a function needs no variable's memory. One
that only reads variables is therefore given their values as arguments. One that writes them is
lowered for the CPU, by the same code, and each of its operations is looked up in the registry of
what XLA has for a GPU.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import compiler_ir

from myxtts.checks.gpu_readiness import kernels_for, matches
from myxtts.profiling.graph_walk import CALLS, inner_graphs

# What XLA gives no kernel, since it never runs: it is followed, or stands for a value.
STRUCTURE = CALLS | {"Placeholder"}


@dataclass(frozen=True)
class Lowering:
    """What XLA makes of a function."""

    platform: str  # what it was lowered for: GPU, or CPU where it writes variables
    instructions: int = 0
    loops: int = 0
    branches: int = 0  # each is decided on the host
    missing: tuple[str, ...] = ()  # operations that XLA cannot compile for a GPU
    problem: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether a GPU can run it as one compiled function."""
        return not (self.missing or self.problem)


def lower(concrete: Any) -> Lowering:
    """Lower a concrete function for a GPU."""
    reads = [op for op in concrete.graph.get_operations() if op.type == "ReadVariableOp"]
    captured = {tensor.name for tensor in concrete.graph.internal_captures}
    uses = [
        op.type
        for op in concrete.graph.get_operations()
        if any(tensor.name in captured for tensor in op.inputs)
    ]
    pure = all(kind == "ReadVariableOp" for kind in uses)
    platform = "GPU" if pure else "CPU"
    try:
        text = _lower_pure(concrete, reads) if pure else _lower_for_cpu(concrete)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        return Lowering(platform, problem=str(error).splitlines()[0])
    missing = tuple(sorted(set(_without_kernel(concrete.graph))))  # registered by the first use
    return Lowering(
        platform,
        instructions=text.count(" = "),
        loops=len(re.findall(r" while\(", text)),
        branches=len(re.findall(r" conditional\(", text)),
        missing=missing,
    )


def _lower_pure(concrete: Any, reads: list[Any]) -> str:
    """The function with the values of its variables as arguments."""
    given = [*_arguments(concrete), *(read.outputs[0] for read in reads)]
    wanted = [tensor.name for tensor in concrete.outputs]
    definition = concrete.graph.as_graph_def()
    # What is given is cut out: XLA takes no function with an argument inside.
    gone = {op.name for op in concrete.graph.get_operations() if op.type == "Placeholder"}
    gone |= {read.name for read in reads}
    kept = [node for node in definition.node if node.name not in gone]
    for node in kept:
        inputs = [name for name in node.input if name.removeprefix("^") not in gone or name in gone]
        del node.input[:]
        node.input.extend(inputs)
        node.attr.pop("_class", None)  # it names what is gone
    used = {name for node in kept for name in node.input}
    kept = list(map(copy.deepcopy, kept))
    del definition.node[:]
    definition.node.extend(kept)

    def called(*values: tf.Tensor) -> list[tf.Tensor]:
        named = {
            tensor.name: value
            for tensor, value in zip(given, values, strict=True)
            if {tensor.name, tensor.op.name} & used
        }
        found: list[tf.Tensor] = tf.graph_util.import_graph_def(
            definition, input_map=named, return_elements=wanted
        )
        return found

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in given]
    function = tf.function(called, jit_compile=True, autograph=False)
    return str(function.experimental_get_compiler_ir(*specs)(stage="hlo", platform_name="GPU"))


def _lower_for_cpu(concrete: Any) -> str:
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in _arguments(concrete)]
    lowered = compiler_ir.from_concrete_function(concrete, specs)
    with warnings.catch_warnings():  # it would rather have a platform
        warnings.simplefilter("ignore")
        return str(lowered(stage="hlo", device_name="/job:localhost/replica:0/task:0/device:CPU:0"))


def _arguments(concrete: Any) -> list[Any]:
    captures = len(concrete.graph.internal_captures)
    return list(concrete.inputs[: len(concrete.inputs) - captures])


def _without_kernel(graph: Any) -> Iterator[str]:
    for operation in graph.get_operations():
        if operation.type not in STRUCTURE and not _compiles(operation):
            yield f"{operation.type} {operation.name}"
        for inner, _ in inner_graphs(operation):
            yield from _without_kernel(inner)


def _compiles(operation: Any) -> bool:
    return any(matches(kernel, operation) for kernel in kernels_for(operation.type, "XLA_GPU_JIT"))
