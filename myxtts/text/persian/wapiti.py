"""Reads a CRF that Wapiti saved as text. Nothing in the file is run; a damaged one is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from myxtts.text.persian.crf import Weights, hash_of


class WapitiText:
    """Patterns, labels and weights of a model, walked through once."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0
        if not self._line().startswith(b"#mdl#"):
            raise ValueError("it does not begin with #mdl#")
        head = self._line()
        if not head.startswith(b"#rdr#"):
            raise ValueError("its patterns are missing")
        self.patterns = list(self._strings(int(head[5:].split(b"/")[0])))
        self.labels = [label.decode() for label in self._quarks()]
        observations = self._quarks()
        self.weights = self._weights(observations)

    def _weights(self, observations: list[bytes]) -> Weights:
        numbers, _, rest = self._data[self._place :].replace(b"=", b"\n").partition(b"\x00")
        fields = numbers.split()
        if rest or len(fields) % 2:
            raise ValueError("its weights are cut off")
        index = np.array(fields[0::2], dtype=np.int64)
        values = np.array([float.fromhex(field.decode()) for field in fields[1::2]], np.float32)
        starts, sizes = self._layout(observations)
        if len(index) and (np.any(np.diff(index) <= 0) or index[-1] >= starts[-1] + sizes[-1]):
            raise ValueError("its weights do not fit its observations")
        first = np.searchsorted(index, starts)
        counts = np.searchsorted(index, starts + sizes) - first
        places = (index - np.repeat(starts, counts)).astype(np.int32)
        pair_only = np.array([o[:1] in b"bB" for o in observations], dtype=np.int32)
        places += np.repeat(pair_only * len(self.labels), counts).astype(np.int32)
        kept = np.flatnonzero(counts)
        keys = np.array([hash_of(observations[i]) for i in kept], dtype=np.uint64)
        order = np.argsort(keys)
        return _in_order(keys[order], first[kept][order], counts[kept][order], places, values)

    def _layout(self, observations: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Where each observation's weights begin, and how many it may have."""
        labels = len(self.labels)
        each = {b"u": labels, b"U": labels, b"b": labels**2, b"B": labels**2}
        sizes = np.array([each.get(o[:1], labels + labels**2) for o in observations], np.int64)
        return np.cumsum(sizes) - sizes, sizes

    def _line(self) -> bytes:
        end = self._data.index(b"\n", self._place)
        line = self._data[self._place : end]
        self._place = end + 1
        return line

    def _strings(self, count: int) -> Iterator[bytes]:
        for _ in range(count):
            colon = self._data.index(b":", self._place, self._place + 20)
            end = colon + 1 + int(self._data[self._place : colon])
            if self._data[end : end + 2] != b",\n":
                raise ValueError("a string does not end where it says")
            yield self._data[colon + 1 : end]
            self._place = end + 2

    def _quarks(self) -> list[bytes]:
        head = self._line()
        if not head.startswith(b"#qrk#"):
            raise ValueError("a list of strings is missing")
        return list(self._strings(int(head[5:])))


def _in_order(
    keys: np.ndarray, first: np.ndarray, counts: np.ndarray, places: np.ndarray, values: np.ndarray
) -> Weights:
    """The weights again, in the order of their keys."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    source = np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
    return Weights(keys, starts, places[source], values[source])
