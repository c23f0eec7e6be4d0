"""What a trainer is fed: endless batches from an exact place, and fixed ones for validation."""

from __future__ import annotations

import csv
import hashlib
import itertools
import logging
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import DataConfig
from myxtts.data.batching import MASKED, BatchPlan, PlannedBatch
from myxtts.data.buckets import Bucket, assign_buckets, rows_per_batch
from myxtts.data.fingerprint import fingerprint
from myxtts.data.loader import (
    FIRST,
    BatchIterator,
    HostBatch,
    HostBatches,
    LoaderState,
    Plan,
    batch_spec,
)
from myxtts.data.prepare import PreparedData, plan_batches, prepare_data
from myxtts.data.shares import WHOLE, Share
from myxtts.data.table import ClipTable, Ints
from myxtts.data.verdicts import REMEDIES
from myxtts.documents import replacing
from myxtts.errors import ConfigError, DataError
from myxtts.features.audio import bucket_samples
from myxtts.text.languages import LANGUAGES
from myxtts.text.tokenizers import Tokenizer

log = logging.getLogger(__name__)

HELD_OUT_SHARE = 0.05
MIN_CLIPS_TO_HOLD_OUT = 10
MAX_HELD_OUT = 200
HEARD_IN_TRAINING = 2  # training clips that a run says where none are held out
VALIDATION_SEED = 0  # not the run's, so that runs with different seeds can be compared


class Heard(NamedTuple):
    """What a row of the batch says that a run lets itself be heard with."""

    text: str
    language: str


class DroppedClip(NamedTuple):
    """A listed clip that is not used; `row` counts the clips of its list from 1."""

    data: str  # the folder of the list
    audio_file: str
    row: int
    reason: str
    detail: str
    remedy: str


@dataclass(frozen=True)
class FixedPlan:
    """Batches in one order for ever."""

    batches: tuple[PlannedBatch, ...]
    seed: int = VALIDATION_SEED
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, position: int) -> PlannedBatch:
        return self.batches[position]

    def for_epoch(self, epoch: int) -> FixedPlan:
        """The same, whichever epoch."""
        return self


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The clips of a run and the batches made of them."""

    tokenizer: Tokenizer
    train: ClipTable
    validation: ClipTable | None
    dropped: tuple[DroppedClip, ...]
    listed: int  # clips of all lists, kept and dropped
    plan: BatchPlan  # of the first epoch
    fingerprint: str  # equal: a saved epoch and position mean the same batch
    _source: HostBatches = field(repr=False)
    _validation_source: HostBatches | None = field(repr=False)
    _validation_plan: FixedPlan = field(repr=False)
    _static_shapes: bool = field(repr=False)
    _max_lost_share: float = field(repr=False)
    _played: bool = field(repr=False)  # faster and slower
    _heard_source: HostBatches = field(repr=False)
    heard: tuple[Heard | None, ...] = ()  # of the rows of `heard_batches`; None: masked

    def batches(
        self, start: LoaderState = FIRST, *, epochs: int | None = None, share: Share = WHOLE
    ) -> BatchIterator:
        """All batches from where a run is, to the end of so many epochs, or for ever.

        They end with a `DataError` where too many clips are lost, or a batch has none left.
        """
        self.plan.for_epoch(start.epoch).check_position(start.position)
        return self._source.batches(
            start, epochs=epochs, max_lost_share=self._max_lost_share, share=share
        )

    def validation_batches(self) -> Iterator[HostBatch]:
        """Every validation clip once; the same batches, crops and references each time.

        A batch of which every clip is lost is passed over.
        """
        batches = () if self._validation_source is None else self._validation_source
        return (batch for batch in batches if batch["token_lengths"].any())

    def heard_batches(self) -> Iterator[HostBatch]:
        """That whose clips the run says to be heard: of validation, or else a few it trains on."""
        first = itertools.islice(self._heard_source, 1)  # `heard` tells of its rows
        return (batch for batch in first if batch["token_lengths"].any())

    def largest_batch_spec(self) -> dict[str, Any] | None:
        """The `tf.TensorSpec`s of the largest batch; None where each batch has its own shape."""
        if not self._static_shapes:
            return None
        shapes = {(stats.rows, stats.bucket) for stats in self.plan.bucket_stats()}
        shapes |= {(len(batch.indices), batch.bucket) for batch in self._validation_plan.batches}
        rows, bucket = max(shapes, key=lambda shape: _batch_bytes(*shape))
        return batch_spec(rows, frames=bucket.frames, tokens=bucket.tokens, played=self._played)

    @property
    def num_lost(self) -> int:
        """Clips that could be read at the start and no longer."""
        own = self._validation_source
        shared = own is None or own.lost is self._source.lost
        return len(self._source.lost) + (0 if shared or own is None else len(own.lost))

    def clips_before(self, state: LoaderState, *, batches: int = 1) -> list[str]:
        """The files of the batch, or batches, that led to this state; of its own epoch."""
        plan = self.plan.for_epoch(state.epoch)
        planned = [plan[i] for i in range(max(0, state.position - batches), state.position)]
        clips = [clip for batch in planned for clip in batch.indices[batch.mask]]
        return [str(self.train.folder / self.train.paths[clip]) for clip in clips]

    def write_dropped(self, path: Path) -> None:
        """Every dropped clip of all lists as CSV, whole or not at all; only a header if none."""
        # A row that was no UTF-8 is still listed, with its odd bytes made visible.
        visible: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace"}
        try:
            with replacing(path) as partial, partial.open("w", newline="", **visible) as file:
                table = csv.writer(file)
                table.writerow(DroppedClip._fields)
                table.writerows(self.dropped)
        except OSError as error:
            raise DataError(
                f"The list of dropped clips {path} cannot be written: {error}",
                "name a file in a folder that exists and may be written to",
            ) from error


def prepare_training(
    config: DataConfig,
    *,
    seed: int,
    steps: int | None = None,
    tokenizer: Tokenizer | None = None,
    buckets: Sequence[Bucket] | None = None,
    on_list: Callable[[int], None] = lambda clips: None,
    on_clip: Callable[[], None] = lambda: None,
) -> TrainingData:
    """Read and judge the data that the settings name, and plan the batches.

    `buckets` keeps the shapes of an earlier run, whose places would mean other batches if `steps`
    had changed since and shapes were chosen anew. `on_list` is told the number of clips whenever a
    pass over clips begins (each list, each cache), `on_clip` each clip done.
    """
    if config.train_data is None:
        raise ConfigError(
            "No training data is given.",
            "--train-data DIR, data.train_data in the config file, or try `myxtts demo`",
        )
    prepared = prepare_data(
        config.train_data, config, tokenizer=tokenizer, on_list=on_list, on_clip=on_clip
    )
    lists = [prepared]
    validation: ClipTable | None
    if config.val_data is not None:
        lists.append(
            prepare_data(
                config.val_data,
                config,
                tokenizer=prepared.tokenizer,
                on_list=on_list,
                on_clip=on_clip,
            )
        )
        _check_enough(lists, config)
        train, validation = (each.table() for each in lists)
        whole = train
    else:
        _check_enough(lists, config)
        table = prepared.table()
        kept, held_out = hold_out(table)
        whole = table.take(np.concatenate([kept, held_out]))
        train = table.take(kept)
        validation = table.take(held_out) if len(held_out) else None

    plan = plan_batches(train, config, seed=seed, steps=steps)
    if buckets is not None and _fits(train, buckets).all():  # longer clips may have been added
        plan = replace(plan, buckets=tuple(buckets))
    elif config.static_shapes == "one" and validation is not None:
        plan = replace(plan, buckets=(_around(plan.buckets[0], validation),))
    shared = config.val_data is None  # validation clips lie behind the training clips of one table
    fixed = _plan_validation(validation, plan, first_clip=len(train) if shared else 0)

    def open_source(
        table: ClipTable, plan: Plan, *, num_references: int | None = None
    ) -> HostBatches:
        work = len(table) if config.cache else int(np.count_nonzero(~table.native))
        if work:
            on_list(work)
        return HostBatches(
            table,
            plan,
            cache=config.cache,
            use_tf=config.use_tf_native_loading,
            num_workers=config.num_workers,
            static_shapes=config.static_shapes != "off",
            num_references=num_references,
            augment_speed=config.augment_speed,
            on_clip=on_clip,
        )

    source = open_source(whole, plan, num_references=len(train))
    # A tf.data pipeline takes half a second to start, each time: more than the reading itself.
    validation_source = None
    if validation is not None:
        own = source if shared else open_source(validation, fixed)
        heard_source = validation_source = own.for_plan(fixed, use_tf=False)
        heard = _heard(validation, fixed, lists[-1], first=len(train) if shared else 0)
    else:
        log.info("Nothing is validated, and what is heard on the way are training clips")
        some = _plan_some(train, plan)
        heard_source = source.for_plan(some, use_tf=False)
        heard = _heard(train, some, prepared, first=0)
    return TrainingData(
        tokenizer=prepared.tokenizer,
        train=train,
        validation=validation,
        dropped=tuple(clip for each in lists for clip in _dropped(each)),
        listed=sum(len(each.manifest) for each in lists),
        plan=plan,
        fingerprint=fingerprint(train, plan, config),
        _source=source,
        _validation_source=validation_source,
        _validation_plan=fixed,
        _static_shapes=config.static_shapes != "off",
        _max_lost_share=config.max_lost_share,
        _played=config.augment_speed > 0,
        _heard_source=heard_source,
        heard=heard,
    )


def _check_enough(lists: Sequence[PreparedData], config: DataConfig) -> None:
    """Whoever lost most of the data wants to know before a night of training, not after it."""
    for prepared in lists:
        reasons = Counter(verdict.reason for verdict in prepared.verdicts if not verdict.kept)
        kept = len(prepared.manifest) - reasons.total()
        if config.allow_few or not 0 < 2 * kept < len(prepared.manifest):
            continue
        folder = prepared.manifest.folder
        raise DataError(
            f"Only {kept} of the {len(prepared.manifest)} clips of {folder} can be used: "
            + ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()),
            f"`myxtts data check {shlex.quote(str(folder))}` says what to mend; --allow-few trains "
            "on what is left",
        )


def hold_out(table: ClipTable) -> tuple[Ints, Ints]:
    """Which clips train, and which validate: by a hash of the path, so that few ever move."""
    draws = np.array([_hash_to_unit(path) for path in table.paths])
    left = np.bincount(table.speakers, minlength=len(table.speaker_names))
    held_out: list[int] = []
    if len(table) >= MIN_CLIPS_TO_HOLD_OUT:
        for clip in np.argsort(draws, kind="stable").tolist():
            if len(held_out) == MAX_HELD_OUT or (held_out and draws[clip] >= HELD_OUT_SHARE):
                break
            if left[table.speakers[clip]] > 1:  # a speaker without a training clip is not learnt
                left[table.speakers[clip]] -= 1
                held_out.append(clip)
    if held_out:
        log.info(
            "No validation data is given: %d of %d training clips (%.1f %%) are held out for it",
            len(held_out),
            len(table),
            100 * len(held_out) / len(table),
        )
    else:
        log.info(
            "No validation data is given, and %d clips of %d speakers are too few to hold any out",
            len(table),
            len(table.speaker_names),
        )
    chosen = np.array(sorted(held_out), np.int64)
    return np.setdiff1d(np.arange(len(table)), chosen), chosen


def _hash_to_unit(path: str) -> float:
    digest = hashlib.sha256(path.encode(errors="surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _around(bucket: Bucket, table: ClipTable) -> Bucket:
    """A bucket that also holds these clips, in the same steps of 8 frames and 4 tokens."""
    frames, tokens = int(table.frames.max()), int(table.token_lengths.max())
    return Bucket(max(bucket.frames, -(-frames // 8) * 8), max(bucket.tokens, -(-tokens // 4) * 4))


def _fits(table: ClipTable, buckets: Sequence[Bucket]) -> npt.NDArray[np.bool_]:
    """Which clips fit one of these shapes."""
    fits = np.zeros(len(table), bool)
    for frames, tokens in buckets:
        fits |= (table.frames <= frames) & (table.token_lengths <= tokens)
    return fits


def _plan_validation(table: ClipTable | None, plan: BatchPlan, *, first_clip: int) -> FixedPlan:
    """The training shapes, so that no step compiles anew, and one more if a clip fits none."""
    if table is None:
        return FixedPlan(())
    frames, tokens = table.frames, table.token_lengths
    buckets, fits = plan.buckets, _fits(table, plan.buckets)
    if not fits.all():
        extra = _around(Bucket(1, 1), table.take(np.flatnonzero(~fits)))
        buckets = tuple(sorted({*buckets, extra}))
        log.info(
            "%d validation clips fit no training shape and get their own: %d frames, %d tokens",
            np.count_nonzero(~fits),
            *extra,
        )
    bucket_of = assign_buckets(frames, tokens, buckets=buckets)
    batches = []
    for number, (bucket, rows) in enumerate(zip(buckets, _rows(buckets, plan), strict=True)):
        members = np.flatnonzero(bucket_of == number)
        members = members[np.argsort(frames[members], kind="stable")] + first_clip
        for start in range(0, len(members), rows):
            indices = np.full(rows, MASKED, np.int64)
            some = members[start : start + rows]
            indices[: len(some)] = some
            batches.append(PlannedBatch(indices, bucket))
    return FixedPlan(tuple(batches))


def _plan_some(table: ClipTable, plan: BatchPlan) -> FixedPlan:
    """A few clips of the commonest training shape, as one batch of that shape."""
    bucket_of = assign_buckets(table.frames, table.token_lengths, buckets=plan.buckets)
    common = int(np.bincount(bucket_of).argmax())
    indices = np.full(_rows(plan.buckets, plan)[common], MASKED, np.int64)
    some = np.flatnonzero(bucket_of == common)[: min(HEARD_IN_TRAINING, len(indices))]
    indices[: len(some)] = some
    return FixedPlan((PlannedBatch(indices, plan.buckets[common]),))


def _rows(buckets: Sequence[Bucket], plan: BatchPlan) -> list[int]:
    rows: list[int] = rows_per_batch(
        np.array([bucket.frames for bucket in buckets], np.int64),
        batch_size=plan.batch_size,
        batch_frames=plan.batch_frames,
    ).tolist()
    return rows


def _heard(
    table: ClipTable, plan: FixedPlan, prepared: PreparedData, *, first: int
) -> tuple[Heard | None, ...]:
    """What the rows of the first batch say."""
    rows = [None if clip == MASKED else int(clip) - first for clip in plan[0].indices]
    wanted = {table.paths[row]: "" for row in rows if row is not None}
    for text, verdict in zip(prepared.manifest.texts, prepared.verdicts, strict=True):
        if verdict.kept and verdict.path in wanted:
            wanted[verdict.path] = text
    tags = list(LANGUAGES)
    return tuple(
        None if row is None else Heard(wanted[table.paths[row]], tags[table.languages[row]])
        for row in rows
    )


def _batch_bytes(rows: int, bucket: Bucket) -> int:
    return rows * (2 * bucket_samples(bucket.frames) + 4 * bucket.tokens)


def _dropped(prepared: PreparedData) -> Iterator[DroppedClip]:
    folder = str(prepared.manifest.folder)
    for i, verdict in enumerate(prepared.verdicts):
        if not verdict.kept:
            yield DroppedClip(
                folder,
                prepared.manifest.audio[i],
                i + 1,
                verdict.reason,
                verdict.detail,
                REMEDIES[verdict.reason],
            )
