"""The kernels of a traced function: one for each operation, or as XLA joins them.

How XLA joins is a model of it, not its own word: what works number by number is computed inside the
kernel that needs it, and its result stays out of memory unless a matrix product, a convolution, a
loop or the caller reads it, or several kernels do and it is expensive.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from myxtts.profiling.graph_walk import CALLS, FREE, Level, elements, is_view, walk
from myxtts.profiling.operation_cost import (
    REDUCTIONS,
    SLICES,
    Cost,
    cost_of,
    flops_of,
    is_expensive,
    kind_of,
    number_of,
    size_bytes,
)

# Neither computed inside another kernel nor joined with what comes before them.
_ALONE = frozenset(
    {"TopKV2", "Sort", "TensorListSetItem", "TensorListStack", "ScatterNd", "TensorScatterUpdate"}
)
_VIEWS = FREE - CALLS - {"Placeholder", "ReadVariableOp"}
_SAME_BUFFER = frozenset({"TensorListStack", "TensorListFromTensor"})  # to XLA a list is a tensor


@dataclass(frozen=True)
class Kernel:
    """Something that is started once for every time it runs."""

    name: str  # the operation whose result it writes
    cost: Cost
    times: int
    loop: str = ""  # which it is inside of


def kernels_of(function: Any, *, compiled: bool) -> list[Kernel]:
    """All that one call of a concrete function starts."""
    found: list[Kernel] = []
    for level in walk(function):
        found += _joined(level) if compiled else _one_by_one(level)
    return found


def _one_by_one(level: Level) -> Iterator[Kernel]:
    for operation in level.operations:
        if operation.type not in FREE and not _only_counts(operation) and not is_view(operation):
            yield Kernel(operation.type, cost_of(operation), level.times, level.name)


def _joined(level: Level) -> Iterator[Kernel]:
    operations = [op for op in level.operations if not _only_counts(op)]
    written = _written(level, operations)
    for operation in operations:
        if operation in written and operation.type not in FREE | _SAME_BUFFER:
            cost = _joined_cost(operation, written, level.folded)
            yield Kernel(operation.type, cost, level.times, level.name)


def _written(level: Level, operations: list[Any]) -> set[Any]:
    """Operations whose results go to memory."""
    readers: dict[Any, set[Any]] = defaultdict(set)  # what really reads it, behind all views
    outside = {tensor.op for tensor in level.graph.outputs if tensor.graph is level.graph}
    written: set[Any] = set()
    for operation in reversed(operations):
        if operation in outside:
            readers[operation].add(None)
        passes_on = operation.type in FREE - CALLS and operation.type != "AssignVariableOp"
        for tensor in operation.inputs:
            readers[tensor.op] |= readers[operation] if passes_on else {operation}
        if _is_whole(operation) or operation.type in REDUCTIONS or operation.type in FREE:
            written.add(operation)
            continue
        seen = readers[operation]
        if any(reader is None or _is_whole(reader) for reader in seen) or (
            len(seen) > 1 and is_expensive(operation)
        ):
            written.add(operation)
    return written


def _is_whole(operation: Any) -> bool:
    """Whether it reads from memory and writes to it, whatever is around it."""
    kind = operation.type
    return kind_of(operation) != "vector" or kind in CALLS or kind in _ALONE or "Assign" in kind


def _joined_cost(root: Any, written: set[Any], folded: frozenset[Any]) -> Cost:
    """The cost of a kernel that computes `root` and all before it that is not in memory."""
    if _is_whole(root):
        return cost_of(root)
    flops, reads, inside = 0.0, dict[str, float](), {root}
    waiting = [(root, math.inf)]  # with the most that is wanted of it
    while waiting:
        operation, wanted = waiting.pop()
        flops += 0.0 if operation.type in FREE else flops_of(operation)
        if operation.type in SLICES:
            wanted = min(wanted, sum(map(size_bytes, operation.outputs)))
        for tensor in operation.inputs:
            source = tensor.op
            if source.type == "Const" or (source in written and source.type not in _VIEWS):
                read = min(wanted, size_bytes(tensor))
                reads[tensor.name] = max(reads.get(tensor.name, 0), read)
            elif source not in inside and source not in folded:
                inside.add(source)
                waiting.append((source, wanted))
    result = sum(map(size_bytes, root.outputs))
    return Cost("vector", number_of(root), flops, sum(reads.values()) + result)


def _only_counts(operation: Any) -> bool:
    """Whether it is a loop's own counting, which the host does beside the device's work."""
    tensors = (*operation.inputs, *operation.outputs)
    whole = all(t.dtype.name in ("int32", "int64", "bool", "resource") for t in tensors)
    return whole and bool(tensors) and all(elements(tensor) <= 1 for tensor in tensors)
