"""What a trainer does differently when it is one of several: open, agree, sum, stop, end."""

from __future__ import annotations

import contextlib
import logging
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.shares import Share
from myxtts.data.training_data import TrainingData
from myxtts.errors import ConfigError, ReplicaLostError
from myxtts.pipeline.devices import DevicePlan
from myxtts.replicas.agreement import check_agreement, program_facts, settings_facts
from myxtts.replicas.cluster import Cluster
from myxtts.replicas.exchange import DONE, Exchange, StoppedTogetherError
from myxtts.replicas.parcels import pack, unpack
from myxtts.replicas.transport import Transport
from myxtts.runs.checkpoints import Checkpoint
from myxtts.runs.events import RunLog
from myxtts.runs.folder import RunFolder
from myxtts.training import setup
from myxtts.training.snapshot import restore_snapshot, take_snapshot
from myxtts.training.step import TrainStep
from myxtts.training.stopping import StopRequest

log = logging.getLogger(__name__)


class Alone:
    """A trainer on its own: there is nobody to wait for."""

    rank, world, is_first = 0, 1, True
    strategy: Any = None  # what distributes

    def open_run(
        self, training: TrainingConfig, resume_checkpoint: str | Path | None
    ) -> tuple[RunFolder, Checkpoint | None]:
        """The run folder, and the checkpoint to go on from."""
        return setup.open_run(training, resume_checkpoint)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Within, what is best done once on a machine before others do it."""
        yield

    def check_data(self, data: TrainingData | None) -> None:
        """Refuse data that is not that of the others."""

    def attach(self, step: TrainStep, *, compiled: bool) -> None:
        """Let a step that is built go on from replica 0's weights, and add up gradients."""

    @property
    def share(self) -> Share:
        """Which batches are ours."""
        return Share(self.rank, self.world)

    def hear_all(self, *, at_update: bool) -> bool:
        """Whether the losses of a batch are those that this process reports."""
        return True

    def tell_pace(self, step: int, events: RunLog) -> None:
        """Write how the replicas keep step."""

    def leave(self, stop: StopRequest) -> None:
        """The loop is over here: the others end theirs at the same update."""

    def heard(self, together: StoppedTogetherError, stop: StopRequest) -> None:
        """Another's loop is over, and so is ours."""

    def close(self) -> None:
        """Let go of everything; waits until replica 0 has written what it has to write."""


class Together(Alone):
    """One of the replicas of a cluster. Made right after the devices, before the first tensor."""

    def __init__(self, cluster: Cluster, plan: DevicePlan, config: XTTSConfig) -> None:
        self.cluster = cluster
        self.rank, self.world, self.is_first = cluster.rank, cluster.world, cluster.is_first
        self._transport = Transport(
            cluster,
            model_device=plan.model_device,
            join_timeout_s=config.training.join_timeout,
        )
        self.strategy = self._transport.strategy
        self._exchange: Exchange | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._left = False
        check_agreement(
            self._transport,
            program_facts(),
            remedy="install the same versions on every machine: pip install -c constraints.txt",
        )
        check_agreement(
            self._transport,
            settings_facts(config),
            remedy="give every replica the same --config file and flags",
        )

    def open_run(
        self, training: TrainingConfig, resume_checkpoint: str | Path | None
    ) -> tuple[RunFolder, Checkpoint | None]:
        """Replica 0 opens the run folder; the others get its checkpoint, and a folder to lose."""
        if self.is_first:
            run, saved = setup.open_run(training, resume_checkpoint)
            state = None if saved is None else replace(saved, tensors={})
            self._transport.broadcast(pack(state))
            return run, saved
        saved = unpack(self._transport.broadcast(None))  # its tensors come when they have a place
        self._folder = tempfile.TemporaryDirectory(prefix="myxtts-replica-")
        run = RunFolder(Path(self._folder.name) / "run")
        run.__enter__()
        return run, saved

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """The first replica of a machine prepares the data; the rest find it in the caches."""
        if self.cluster.local_rank > 0:
            self._transport.sum([0])
        yield
        if self.cluster.local_rank == 0:
            self._transport.sum([0])

    def check_data(self, data: TrainingData | None) -> None:
        """Refuse to train on other recordings than replica 0."""
        if data is None:
            raise ConfigError(
                "There is no data that replicas could share out.", "give data.train_data"
            )
        facts = {
            "number of clips": str(len(data.train)),
            "speakers": str(data.train.speaker_names),
            "symbols": str(data.tokenizer.symbols),
            "clips, their lengths or texts": data.fingerprint,
        }
        check_agreement(
            self._transport,
            facts,
            remedy="give every machine the same recordings and clip list; `myxtts data check` "
            "prints what it finds",
        )

    def attach(self, step: TrainStep, *, compiled: bool) -> None:
        """Give it all that replica 0's step holds, and let its updates be those of all."""
        mine = Checkpoint(Path(), 0, take_snapshot(step), {}) if self.is_first else None
        theirs = unpack(self._transport.broadcast(pack(mine)))
        if theirs is not None and not self.is_first:
            restore_snapshot(step, theirs.tensors)
        self._exchange = Exchange(self._transport, lambda: step.weights, compiled=compiled)
        step.exchange = self._exchange

    def hear_all(self, *, at_update: bool) -> bool:
        """Only the first reports; at an update the losses are the means over all."""
        return self.is_first and at_update

    def tell_pace(self, step: int, events: RunLog) -> None:
        """Write how the replicas keep step."""
        if self._exchange is not None:
            events.event("replicas", step=step, **self._exchange.take_pace().as_dict())

    def leave(self, stop: StopRequest) -> None:
        """Take part in one more sum, with the wish to stop."""
        if self._exchange is not None:
            self.heard(self._exchange.leave(wish=stop.signal_number or DONE), stop)

    def heard(self, together: StoppedTogetherError, stop: StopRequest) -> None:
        """Remember who wished to stop, and why."""
        self._left = True
        if together.signal is not None and not stop:
            rank, number = together.signal
            stop.signal_number = number
            name = signal.Signals(number).name
            log.info("%s got %s: all replicas stop", self.cluster.name(rank), name)

    def close(self) -> None:
        """Wait until all are through, as replica 0 may still be writing."""
        if self._left:
            self._left = False
            with contextlib.suppress(ReplicaLostError):  # it had nothing to do any more
                self._transport.sum([0])
        if self._folder is not None:
            self._folder.cleanup()


def join(cluster: Cluster | None, plan: DevicePlan, config: XTTSConfig) -> Alone:
    """This trainer among those it trains with."""
    return Alone() if cluster is None else Together(cluster, plan, config)
