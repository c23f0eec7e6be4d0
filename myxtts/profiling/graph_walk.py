"""Goes through the operations of traced functions: those that run, and how often.

Shared by all who count in graphs. What nobody reads is left out, and so is what TensorFlow works
out once, before the first call: constants, and the sizes of fixed shapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tensorflow.python.framework import tensor_util

LOOPS = frozenset({"While", "StatelessWhile"})
CALLS = LOOPS | {"If", "StatelessIf", "Case", "StatelessCase"}
CALLS |= {"PartitionedCall", "StatefulPartitionedCall"}
# No kernel runs for these: they name, view or pass on what is there.
FREE = (
    frozenset(
        """
    Const Placeholder PlaceholderWithDefault Identity IdentityN NoOp Reshape ExpandDims Squeeze
    StopGradient PreventGradient Shape ShapeN Size Rank ReadVariableOp VarHandleOp Assert
    EnsureShape Bitcast TensorListReserve EmptyTensorList TensorListElementShape TensorListLength
    AssignVariableOp CheckNumerics
    """.split()  # noqa: SIM905 - a long list of words
    )
    | CALLS
)
_BODIES = {"body": True, "cond": True, "then_branch": False, "else_branch": False, "f": False}
_SIZES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
_MAKES_ANEW = ("Random", "Stateless", "Placeholder", "Variable", "VarHandle", "TensorList", "Arg")


@dataclass(frozen=True)
class Level:
    """One graph of a function: itself, or the inside of a loop, a branch or a call."""

    graph: Any
    times: int  # how often one call of the function runs it
    name: str = ""  # of the loop it is the inside of

    @cached_property
    def operations(self) -> list[Any]:
        """What really runs, in an order in which it can."""
        needed = self.needed
        return [op for op in self.graph.get_operations() if op in needed and op not in self.folded]

    @cached_property
    def folded(self) -> frozenset[Any]:
        """Operations whose results are known before the first call."""
        known: set[Any] = set()
        for operation in self.graph.get_operations():
            kind = operation.type
            if kind == "Const" or (kind in _SIZES and _are_fixed(operation.inputs)):
                known.add(operation)
            elif kind.startswith(_MAKES_ANEW) or kind in CALLS or not operation.inputs:
                continue
            elif all(tensor.op in known for tensor in operation.inputs):
                known.add(operation)
        return frozenset(known)

    @cached_property
    def needed(self) -> set[Any]:
        """All that a result, or a change of a variable, depends on."""
        waiting = [tensor.op for tensor in self.graph.outputs if tensor.graph is self.graph]
        waiting += [op for op in self.graph.get_operations() if _changes_something(op)]
        found: set[Any] = set()
        while waiting:
            operation = waiting.pop()
            if operation not in found:
                found.add(operation)
                waiting += [tensor.op for tensor in operation.inputs]
        return found


def walk(function: Any) -> Iterator[Level]:
    """A concrete function and all that is inside it; a loop's body as often as it goes round."""
    yield from _levels(function.graph, times=1, name="")


def _levels(graph: Any, *, times: int, name: str) -> Iterator[Level]:
    level = Level(graph, times, name)
    yield level
    for operation in level.operations:
        again = times * (rounds(operation) or 1)
        for inner, loops in inner_graphs(operation):
            inside = operation.name if loops else name
            yield from _levels(inner, times=again if loops else times, name=inside)


def inner_graphs(operation: Any) -> Iterator[tuple[Any, bool]]:
    """The graphs inside an operation, and whether it goes round in them."""
    for attribute, loops in _BODIES.items():
        if operation.type in CALLS and attribute in operation.node_def.attr:
            name = operation.node_def.attr[attribute].func.name
            if name:
                yield operation.graph._get_function(name).graph, loops


def rounds(operation: Any) -> int | None:
    """How often a loop goes round at the most, where that is known."""
    if operation.type not in LOOPS:
        return None
    condition = operation.graph._get_function(operation.node_def.attr["cond"].func.name).graph
    given = dict(zip((t.name for t in condition.inputs), operation.inputs, strict=True))
    limits = []
    for test in condition.get_operations():  # of the number of rounds, the most allowed, or both
        if test.type == "Less":
            value = tensor_util.constant_value(given.get(test.inputs[1].name, test.inputs[1]))
            limits += [] if value is None or int(value) < 0 else [int(value)]
    return min(limits, default=None)


def elements(tensor: Any) -> int:
    """Numbers in a tensor; a length that is not fixed counts as one."""
    dimensions = tensor.shape.dims
    return 0 if dimensions is None else math.prod(d.value or 1 for d in dimensions)


def is_view(operation: Any) -> bool:
    """Whether a slice is whole rows of its tensor, maybe in another shape: that copies nothing."""
    if operation.type != "StridedSlice":
        return False
    source, result = list(operation.inputs[0].shape), list(operation.outputs[0].shape)
    whole, part, inner = ([d for d in shape if d != 1] for shape in (source, result, source[1:]))
    return whole == part or part in (inner, part[:1] + inner)


def _are_fixed(tensors: Any) -> bool:
    return all(tensor.shape.is_fully_defined() for tensor in tensors)


def _changes_something(operation: Any) -> bool:
    kind = operation.type
    return kind.startswith(("Assign", "ResourceApply", "ResourceScatter")) or (
        kind in CALLS and operation.op_def.is_stateful
    )
