"""The pieces a profile measures: the trainer's own, each callable alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.config.config import XTTSConfig
from myxtts.data.loader import BatchIterator, HostBatches
from myxtts.data.waves import Wave, WaveSource, WavFiles, native_paths
from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import MB
from myxtts.pipeline.telemetry import READ
from myxtts.profiling.measurements import READ_CACHED, READ_COLD, READ_NATIVE

if TYPE_CHECKING:
    from myxtts.training.progress import TrainingProgress
    from myxtts.training.trainer import XTTSTrainer

Batches = BatchIterator | Generator[Any, None, None]  # either can be closed


@dataclass
class Subject:
    """Functions for every stage of one run, and what is known of it."""

    config: XTTSConfig
    plan: DevicePlan
    source: Callable[[], Batches]  # as the run reads
    readers: Mapping[str, Callable[[], Batches]]  # one worker each, by what it reads from
    process: Callable[[Any], Any]
    train: Callable[[Any], Any]  # returns the tensor that is made last
    num_traces: Callable[[], int] = lambda: 0
    shapes: tuple[str, ...] = ()  # planned; none where each batch has its own
    data_name: str = ""
    clips_mb: float = 0.0
    notes: tuple[str, ...] = field(default=())


@contextlib.contextmanager
def open_voice(
    config: XTTSConfig, *, data_name: str = "", progress: TrainingProgress | None = None
) -> Iterator[Subject]:
    """A voice and its data, set up by the trainer in a folder that is thrown away afterwards."""
    from myxtts.training.memory_isolated_trainer import make_trainer

    config = config.model_copy(deep=True)
    with tempfile.TemporaryDirectory(prefix="myxtts-profile-") as folder:
        config.training.checkpoint_dir = Path(folder) / "run"
        config.training.resume = "auto"
        with make_trainer(config, progress=progress) as trainer:
            trainer.stop_after(10_000)
            yield _subject(trainer, data_name)


def _subject(trainer: XTTSTrainer, data_name: str) -> Subject:
    from myxtts.training.step import last_made

    data = trainer.data
    assert data is not None, "the settings must name training data"
    static = trainer.config.data.static_shapes != "off"
    return Subject(
        config=trainer.config,
        plan=trainer.plan,
        source=data.batches,
        readers=_readers(trainer),
        process=trainer._preprocess_on_data_gpu,
        train=lambda batch: last_made(trainer.step(batch)),
        num_traces=lambda: trainer.step.traces,
        shapes=tuple(
            f"{stats.rows} clips x {stats.bucket.frames} frames x {stats.bucket.tokens} tokens"
            for stats in data.plan.bucket_stats()
            if stats.batches
        )
        if static
        else (),
        data_name=data_name or (data.train.folder.name),
        clips_mb=2 * float(data.train.samples.sum()) / MB,
    )


# -- the host stage --


def _readers(trainer: XTTSTrainer) -> dict[str, Callable[[], Batches]]:
    """The host stage by one worker: as it is, from cold files, from a cache, and natively."""
    data, settings = trainer.data, trainer.config.data
    assert data is not None
    table, plan = data.train, data.plan
    static = settings.static_shapes != "off"
    paths = native_paths(table) if settings.cache is None or table.native.all() else None
    cached = _Kept(WavFiles(paths, table)) if paths is not None else None

    def read(**how: Any) -> Batches:
        how = {"use_tf": settings.use_tf_native_loading, "num_workers": 1, **how}
        return HostBatches(table, plan, static_shapes=static, **how).batches()

    def from_cold_files() -> Batches:
        _forget_files(paths or ())
        return read()

    readers: dict[str, Callable[[], Batches]]
    if settings.cache is not None:
        readers = {READ: data.batches, READ_CACHED: data.batches}
    else:
        readers = {READ: read, READ_CACHED: lambda: read(waves=cached)}
    if paths is not None:
        readers[READ_COLD] = from_cold_files
        if not settings.use_tf_native_loading:
            readers[READ_NATIVE] = lambda: read(use_tf=True)
    return readers


class _Kept:
    """Clips that stay in memory once they were read: what a cache would do, for a few batches."""

    def __init__(self, files: WaveSource) -> None:
        self._files = files
        self._kept: dict[int, Wave] = {}

    def read(self, index: int) -> Wave:
        """The clip's samples."""
        if index not in self._kept:
            self._kept[index] = self._files.read(index)
        return self._kept[index]


def _forget_files(paths: Any) -> None:
    """Ask the system to drop these files from its memory, so that they are read from the disk."""
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
