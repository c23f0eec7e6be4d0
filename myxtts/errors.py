"""Every error a person can meet: what is wrong, and the way out."""

from __future__ import annotations


class MyXTTSError(Exception):
    """A problem the user can act on; the command line prints it without a traceback."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)  # plain args, so it survives pickling between processes

    @property
    def problem(self) -> str:
        """What is wrong, in a sentence."""
        return str(self.args[0])

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return str(self.args[1])

    def __str__(self) -> str:
        return f"{self.problem}\n  try: {self.remedy}"


class ConfigError(MyXTTSError, ValueError):
    """A setting is unknown, out of range or contradicts another."""


class DataError(MyXTTSError, ValueError):
    """The data cannot be used as it is."""


class DeviceError(MyXTTSError, RuntimeError):
    """The devices asked for cannot be set up."""


class HardwareShortageError(DeviceError):
    """The machine has fewer or other GPUs than asked for; `--fallback single` may take over."""


class MemoryBudgetError(DeviceError):
    """The batches in flight would not fit into a device's memory limit."""


class StageStalledError(MyXTTSError, RuntimeError):
    """A pipeline stage made no progress for longer than allowed."""


class StageLostError(MyXTTSError, RuntimeError):
    """A pipeline stage is gone: its thread died unheard, or it runs in another process."""


class TrainingDivergedError(MyXTTSError, ArithmeticError):
    """The loss or its gradient was not finite for many updates in a row."""


class ReplicaError(MyXTTSError, RuntimeError):
    """The replicas of a run cannot come together, or do not agree on what to train."""


class ReplicaLostError(ReplicaError):
    """A replica is gone or no longer answers; the run can be started again from its checkpoint."""

    exit_code = 75  # "temporary failure", which tells schedulers that another try makes sense
