"""What a traced function would do on a GPU, asked of TensorFlow's kernel registry without one.

The Linux wheel is built with CUDA, so the registry lists GPU kernels, and which of their arguments
live in host memory, on any machine. Counted are operations without a kernel, operations that the
host computes although they are placed on the GPU, trips between the two memories, and kernel
launches, those in loops as often as the loop goes round. It is about functions whose operations
are launched one by one; what XLA makes of one is asked in `gpu_lowering`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tensorflow.python.framework import kernels, op_def_registry

from myxtts.profiling.graph_walk import LOOPS, Level, inner_graphs, is_view, rounds

MANY = 1000  # elements from which the host's slowness shows
UNKNOWN = 800  # what a size known only at run time is taken for: the frames of a long sentence
# No kernel runs for these: they name, view or pass on what is there.
FREE = frozenset(
    """
    Const Placeholder Identity IdentityN NoOp Reshape ExpandDims Squeeze StopGradient
    PreventGradient Shape ShapeN Size Rank ReadVariableOp VarHandleOp
    StatelessWhile While StatelessIf If PartitionedCall StatefulPartitionedCall
    """.split()  # noqa: SIM905 - a long list of words
)
VIEWS = ("Reshape", "ExpandDims", "Squeeze")
BRANCHES = ("StatelessIf", "If")


@dataclass
class Readiness:
    """What was found in one function."""

    launches: int = 0
    in_loops: int = 0  # of the launches
    missing: list[str] = field(default_factory=list)  # operations without a GPU kernel
    on_host: list[str] = field(default_factory=list)  # many elements, or inside a loop
    to_host: list[str] = field(default_factory=list)  # made by the device and read by the host
    from_host: list[str] = field(default_factory=list)  # the other way, but for the input
    inputs: list[str] = field(default_factory=list)  # the input's own trips to the device
    loops: list[tuple[str, int | None]] = field(default_factory=list)  # and how often they go round

    @property
    def is_ready(self) -> bool:
        """Whether nothing was found that a GPU would wait for."""
        return not (self.missing or self.on_host or self.to_host or self.from_host)


def read_function(function: Any) -> Readiness:
    """Look through a concrete function and all that it calls."""
    found = Readiness()
    _read_graph(function.graph, found, times=1, in_loop=False)
    return found


def _read_graph(graph: Any, found: Readiness, *, times: int, in_loop: bool) -> None:
    folded = Level(graph, times).folded
    places = {
        tensor.name: place
        for operation in graph.get_operations()
        for tensor, place in _output_places(operation, is_constant=operation in folded)
    }
    crossed: set[str] = set()  # a tensor is copied once, however many read it
    for operation in graph.get_operations():
        if operation in folded:
            continue
        for tensor, place in _wanted_places(operation):
            if places.get(tensor.name, place) != place and tensor.name not in crossed:
                crossed.add(tensor.name)
                _note_trip(operation, tensor, place, found, in_loop=in_loop)
        _judge(operation, found, times=times, in_loop=in_loop)
        round_count = rounds(operation)
        if "body" in operation.node_def.attr:
            found.loops.append((operation.name, round_count))
        for inner, loops in inner_graphs(operation):
            again = times * (UNKNOWN if round_count is None else round_count) if loops else times
            _read_graph(inner, found, times=again, in_loop=in_loop or loops)


def _wanted_places(operation: Any) -> Iterator[tuple[Any, str]]:
    """Each tensor that an operation reads, and in which memory it must lie."""
    # Loops and branches hand 32-bit whole numbers round on the host, and decide there.
    if operation.type in LOOPS:
        yield from ((t, "host") for t in operation.inputs if _is_whole(t))
    elif operation.type in BRANCHES:
        decides, *rest = operation.inputs
        yield from ((t, "host") for t in (decides, *filter(_is_whole, rest)))
    if operation.type in FREE and operation.type not in VIEWS:
        return
    kernel = gpu_kernel(operation)
    if kernel is None:
        return
    host = set(kernel.host_memory_arg)
    names = _argument_names(operation, "input")
    for tensor, argument in zip(operation.inputs, names, strict=True):
        if tensor.dtype.name not in ("resource", "variant"):
            yield tensor, "host" if argument in host else "device"


def _note_trip(operation: Any, tensor: Any, place: str, found: Readiness, *, in_loop: bool) -> None:
    where = " in a loop" if in_loop else ""
    line = f"{operation.type} {operation.name} reads {tensor.name} {tensor.shape}{where}"
    if place == "host":
        found.to_host.append(line)
    elif _is_input(tensor) and not in_loop:
        found.inputs.append(line)
    else:
        found.from_host.append(line)


def _is_input(tensor: Any) -> bool:
    """Whether a tensor is one that the function was given, as it is."""
    while tensor.op.type in ("Identity", *VIEWS):
        tensor = tensor.op.inputs[0]
    return bool(tensor.op.type == "Placeholder")


def _judge(operation: Any, found: Readiness, *, times: int, in_loop: bool) -> None:
    name = f"{operation.type} {operation.name}"
    if operation.type in FREE:
        return
    if gpu_kernel(operation) is None:
        found.missing.append(name)
        return
    computes_on_host = bool(operation.outputs) and all(
        place == "host" for _, place in _output_places(operation)
    )
    if computes_on_host:
        most = max((_elements(t) for t in (*operation.inputs, *operation.outputs)), default=0)
        if most > MANY or (in_loop and not _counts_rounds(operation)):
            found.on_host.append(f"{name} of {most} elements")
    elif not is_view(operation):
        found.launches += times
        found.in_loops += times if in_loop else 0


def _counts_rounds(operation: Any) -> bool:
    """Whether an operation is a loop's own counting, which TensorFlow keeps on the host."""
    return all(_elements(tensor) <= 1 for tensor in (*operation.inputs, *operation.outputs))


@lru_cache(maxsize=4096)
def kernels_for(kind: str, *devices: str) -> tuple[Any, ...]:
    """The kernels of an operation for these devices, the first device's first."""
    found = kernels.get_registered_kernels_for_op(kind).kernel
    return tuple(k for device in devices for k in found if k.device_type == device)


def gpu_kernel(operation: Any) -> Any | None:
    """The kernel that would run an operation on a GPU."""
    for kernel in kernels_for(operation.type, "GPU", "DEFAULT"):
        if matches(kernel, operation):
            return kernel
    return None


def matches(kernel: Any, operation: Any) -> bool:
    """Whether a kernel takes the types of an operation."""
    return all(_allows(rule, operation) for rule in kernel.constraint)


def _allows(rule: Any, operation: Any) -> bool:
    attribute = operation.node_def.attr[rule.name]
    asked = [attribute.type] if attribute.type else list(attribute.list.type)
    return all(kind in rule.allowed_values.list.type for kind in asked)


def _output_places(operation: Any, *, is_constant: bool = False) -> Iterator[tuple[Any, str]]:
    """Each result, and in which memory it lies."""
    kernel = gpu_kernel(operation)
    host = set() if kernel is None else set(kernel.host_memory_arg)
    names = _argument_names(operation, "output")
    for name, tensor in zip(names, operation.outputs, strict=True):
        if is_constant:
            hosted = _is_whole(tensor)
        else:
            hosted = name in host or _stays_on_host(operation, tensor)
        yield tensor, "host" if hosted else "device"


def _stays_on_host(operation: Any, tensor: Any) -> bool:
    """Arguments, loop variables and constants of 32-bit whole numbers stay on the host."""
    passed_on = operation.type in FREE and operation.type not in ("Reshape", "ReadVariableOp")
    return passed_on and (
        _is_whole(tensor) or tensor.dtype.name in ("string", "resource", "variant")
    )


def _is_whole(tensor: Any) -> bool:
    return bool(tensor.dtype.name == "int32")


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


def _elements(tensor: Any) -> int:
    dimensions = tensor.shape.dims
    if dimensions is None:
        return UNKNOWN
    return math.prod(UNKNOWN if d.value is None else d.value for d in dimensions)
