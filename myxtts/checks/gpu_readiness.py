"""What a traced function would do on a GPU, asked of TensorFlow's kernel registry without one.

The Linux wheel is built with CUDA, so the registry lists GPU kernels, and which of their arguments
live in host memory, on any machine. Counted are operations without a kernel, operations that the
host computes although they are placed on the GPU, trips between the two memories, and kernel
launches, those in loops as often as the loop goes round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tensorflow.python.framework import kernels, op_def_registry, tensor_util

MANY = 1000  # elements from which the host's slowness shows
# No kernel runs for these: they name, view or pass on what is there.
FREE = frozenset(
    """
    Const Placeholder Identity IdentityN NoOp Reshape ExpandDims Squeeze StopGradient
    PreventGradient Shape ShapeN Size Rank ReadVariableOp VarHandleOp
    StatelessWhile While StatelessIf If PartitionedCall StatefulPartitionedCall
    """.split()  # noqa: SIM905 - a long list of words
)
BODIES = {"body": True, "cond": True, "then_branch": False, "else_branch": False, "f": False}


@dataclass
class Readiness:
    """What was found in one function."""

    launches: int = 0
    missing: list[str] = field(default_factory=list)  # operations without a GPU kernel
    on_host: list[str] = field(default_factory=list)  # many elements, or inside a loop
    to_host: list[str] = field(
        default_factory=list
    )  # tensors that the device made and the host reads
    loops: list[tuple[str, int | None]] = field(default_factory=list)  # and how often they go round

    @property
    def is_ready(self) -> bool:
        """Whether nothing was found that a GPU would wait for."""
        return not (self.missing or self.on_host or self.to_host)


def read_function(function: Any) -> Readiness:
    """Look through a concrete function and all that it calls."""
    found = Readiness()
    _read_graph(function.graph, found, times=1, in_loop=False)
    return found


def _read_graph(graph: Any, found: Readiness, *, times: int, in_loop: bool) -> None:
    places = {
        tensor.name: place
        for operation in graph.get_operations()
        for tensor, place in zip(operation.outputs, _output_places(operation), strict=True)
    }
    for operation in graph.get_operations():
        _judge(operation, places, found, times=times, in_loop=in_loop)
        rounds = _rounds(operation)
        if "body" in operation.node_def.attr:
            found.loops.append((operation.name, rounds))
        for inner, loops in _inner_graphs(operation):
            again = times * (rounds or 1) if loops else times
            _read_graph(inner, found, times=again, in_loop=in_loop or loops)


def _judge(
    operation: Any, places: dict[str, str], found: Readiness, *, times: int, in_loop: bool
) -> None:
    name = f"{operation.type} {operation.name}"
    if operation.type in FREE:
        return
    kernel = gpu_kernel(operation)
    if kernel is None:
        found.missing.append(name)
        return
    host = set(kernel.host_memory_arg)
    for tensor, argument in zip(operation.inputs, _argument_names(operation, "input"), strict=True):
        if argument in host and places.get(tensor.name) == "device":
            found.to_host.append(f"{name} reads {tensor.name} {tensor.shape}")
    computes_on_host = bool(operation.outputs) and all(
        place == "host" for place in _output_places(operation)
    )
    if computes_on_host:
        most = max((_elements(t) for t in (*operation.inputs, *operation.outputs)), default=0)
        if most > MANY or (in_loop and not _counts_rounds(operation)):
            found.on_host.append(f"{name} of {most} elements")
    elif not _is_view(operation):
        found.launches += times


def _is_view(operation: Any) -> bool:
    """Whether a slice is whole rows of its tensor, maybe in another shape: that copies nothing."""
    if operation.type != "StridedSlice":
        return False
    whole, part = (
        [d for d in t.shape if d != 1] for t in (operation.inputs[0], operation.outputs[0])
    )
    inner = [d for d in list(operation.inputs[0].shape)[1:] if d != 1]
    return whole == part or part == inner or part[1:] == inner


def _counts_rounds(operation: Any) -> bool:
    """Whether an operation is a loop's own counting, which TensorFlow keeps on the host."""
    return all(_elements(tensor) <= 1 for tensor in (*operation.inputs, *operation.outputs))


@lru_cache(maxsize=4096)
def _kernels(kind: str) -> tuple[Any, ...]:
    found = kernels.get_registered_kernels_for_op(kind).kernel
    gpu = [kernel for kernel in found if kernel.device_type == "GPU"]
    return (*gpu, *(kernel for kernel in found if kernel.device_type == "DEFAULT"))


def gpu_kernel(operation: Any) -> Any | None:
    """The kernel that would run an operation on a GPU."""
    for kernel in _kernels(operation.type):
        if all(_allows(rule, operation) for rule in kernel.constraint):
            return kernel
    return None


def _allows(rule: Any, operation: Any) -> bool:
    attribute = operation.node_def.attr[rule.name]
    asked = [attribute.type] if attribute.type else list(attribute.list.type)
    return all(kind in rule.allowed_values.list.type for kind in asked)


def _output_places(operation: Any) -> list[str]:
    """In which memory each result lies."""
    kernel = gpu_kernel(operation)
    host = set() if kernel is None else set(kernel.host_memory_arg)
    names = _argument_names(operation, "output")
    return [
        "host" if name in host or _stays_on_host(operation, tensor) else "device"
        for name, tensor in zip(names, operation.outputs, strict=True)
    ]


def _stays_on_host(operation: Any, tensor: Any) -> bool:
    """Arguments, loop variables and constants of 32-bit whole numbers stay on the host."""
    passed_on = operation.type in FREE and operation.type not in ("Reshape", "ReadVariableOp")
    return passed_on and tensor.dtype.name in ("int32", "string", "resource", "variant")


def _argument_names(operation: Any, side: str) -> list[str]:
    """The name of the argument behind each tensor, a list's once for each of its members."""
    definition = op_def_registry.get(operation.type)
    arguments = definition.input_arg if side == "input" else definition.output_arg
    names: list[str] = []
    for argument in arguments:
        count = 1
        if argument.number_attr:
            count = operation.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(operation.get_attr(argument.type_list_attr))
        names += [argument.name] * count
    return names


def _inner_graphs(operation: Any) -> Iterator[tuple[Any, bool]]:
    for attribute, loops in BODIES.items():
        if attribute in operation.node_def.attr:
            name = operation.node_def.attr[attribute].func.name
            if name:
                yield operation.graph._get_function(name).graph, loops


def _rounds(operation: Any) -> int | None:
    """How often a loop goes round at the most, where that is known."""
    if "body" not in operation.node_def.attr or len(operation.inputs) < 2:
        return None
    value = tensor_util.constant_value(operation.inputs[1])
    return None if value is None or value.size != 1 else int(value)


def _elements(tensor: Any) -> int:
    dimensions = tensor.shape.dims
    return 0 if dimensions is None else math.prod(d.value or 1 for d in dimensions)
