"""Clips that could be read when a run began and no longer: left out, named once, and counted."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from myxtts.data.batching import MASKED
from myxtts.data.table import ClipTable, Ints
from myxtts.errors import DataError
from myxtts.features.audio import HOP, SAMPLE_RATE

if TYPE_CHECKING:
    from myxtts.data.loader import HostBatch, LoaderState, Plan

log = logging.getLogger(__name__)

LOOK_S = 5.0  # at most, for the others once a clip is lost
LOOK_SHARE = 0.1  # of the time may be spent on looking


def least_samples(table: ClipTable) -> Ints:
    """How much of each clip must be there: all but the odd frame, and a frame for each token.

    An alignment gives every token a frame of its own; resampling may round a length down.
    """
    frames = np.maximum(table.token_lengths, table.frames - 1)
    least: Ints = (frames - 1) * HOP
    return least


def describe_shrunk(samples: int, before: int) -> str:
    """Why a clip that can be read is lost all the same."""
    return (
        f"it holds {samples / SAMPLE_RATE:.2f} s, and held {before / SAMPLE_RATE:.2f} s when it "
        "was checked"
    )


class LostClips:
    """What a run has lost of its data. Only the first `num_counted` clips count as a share.

    `files` is where the clips are read from, empty where they come from a cache.
    """

    def __init__(self, table: ClipTable, *, num_counted: int, files: Sequence[str] = ()) -> None:
        self._table, self._num_counted, self._files = table, num_counted, files
        self._least = least_samples(table)
        self._is_lost = np.zeros(len(table), np.bool_)
        self._last = ""  # the newest in words
        self._news = False
        self._look_again = 0.0
        self._lock = threading.Lock()  # clips are read by many threads
        # In no order, so that even a look cut short tells of all. Converted ones can be made anew.
        native = np.flatnonzero(table.native[:num_counted]) if files else np.zeros(0, np.int64)
        self._watched: Ints = np.random.default_rng(0).permutation(native)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_lost))

    def __contains__(self, clip: int) -> bool:
        return bool(self._is_lost[clip])

    def without(self, clips: Ints) -> Ints:
        """These clips, with the lost ones masked."""
        return np.where(self._is_lost[clips], MASKED, clips)

    def add(self, clip: int, reason: object) -> None:
        """Leave a clip out from now on."""
        with self._lock:
            if self._is_lost[clip]:
                return
            self._last = f"{self._table.paths[clip]}: {reason}"
            self._is_lost[clip] = self._news = True
        log.warning("%s can no longer be read and is left out: %s", self._table.paths[clip], reason)

    def refuse_short(self, clip: int, samples: int) -> None:
        """Raise if a clip has shrunk since it was checked."""
        if samples < self._least[clip]:
            raise ValueError(describe_shrunk(samples, int(self._table.samples[clip])))

    def fall_short(self, *groups: tuple[Ints, Ints, int]) -> bool:
        """Whether any clip gave too few samples; a group is clips, what they gave, and the most."""
        return any(
            bool(((clips >= 0) & (samples < np.minimum(self._least[clips], most))).any())
            for clips, samples, most in groups
        )

    def refuse_too_many(self, max_share: float) -> None:
        """Stop a run that has lost more than this share of its clips, or all of them."""
        if self._news and time.monotonic() >= self._look_again:
            self._look_around(max_share)
        self._refuse(self._num_lost, max_share)

    @property
    def _num_lost(self) -> int:
        return int(np.count_nonzero(self._is_lost[: self._num_counted]))

    def _refuse(self, lost: int, max_share: float) -> None:
        if lost > max_share * self._num_counted or lost == self._num_counted:
            raise self.error(
                f"{lost} of {self._num_counted} training clips "
                f"({100 * lost / self._num_counted:.1f} %) can no longer be read, more than "
                f"data.max_lost_share allows ({100 * max_share:.1f} %)."
            )

    def guard(
        self, batches: Iterator[tuple[LoaderState, HostBatch]], plan: Plan | None, max_share: float
    ) -> Iterator[tuple[LoaderState, HostBatch]]:
        """The batches for as long as there is enough to train on; none is ever empty.

        Without a plan they are a replica's share, of which an empty one is kept: every replica
        takes part in every step.
        """
        with contextlib.closing(batches):  # type: ignore[type-var]
            for state, batch in batches:
                self.refuse_too_many(max_share)
                if plan is not None and not batch["token_lengths"].any():
                    planned = plan.for_epoch(state.epoch)[state.position - 1].mask.sum()
                    if planned == 1:
                        continue  # it goes the way of its clip
                    raise self.error(
                        f"Batch {state.position} of epoch {state.epoch + 1} has none of its "
                        f"{planned} clips left; {len(self)} are lost in all."
                    )
                yield state, batch

    def error(self, problem: str) -> DataError:
        """The end of a run for want of data, with the way back."""
        return DataError(
            f"{problem} The last one was {self._last}",
            f"mount the data again or copy it back to {self._table.folder}, then run the same "
            "command: it goes on from the checkpoint; what is gone for good it leaves out",
        )

    def _look_around(self, max_share: float) -> None:
        """See at once which others have gone with a lost clip: a disk goes away as a whole.

        Met one by one they would cost a batch each, and some batches be trained on before too many
        are known.
        """
        began = time.monotonic()
        self._news = False
        watched = self._watched[~self._is_lost[self._watched]]
        gone, looked = [], 0
        for looked, clip in enumerate(watched.tolist(), start=1):
            if not self._is_there(clip):
                gone.append(clip)
            if looked % 100 == 0 and time.monotonic() - began > LOOK_S:
                break
        self._look_again = time.monotonic() + (time.monotonic() - began) / LOOK_SHARE
        if gone:
            self._refuse(self._num_lost + len(gone) * len(watched) // looked, max_share)
        for clip in gone:
            self.add(clip, "it is no longer there, or has shrunk")
        self._news = False

    def _is_there(self, clip: int) -> bool:
        try:
            return os.stat(self._files[clip]).st_size >= 2 * int(self._least[clip])
        except OSError:
            return False
