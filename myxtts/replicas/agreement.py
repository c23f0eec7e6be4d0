"""Replicas that would not train the same are refused at the start, and what differs is named."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from myxtts import __version__
from myxtts.config.commands import settings
from myxtts.config.config import XTTSConfig
from myxtts.errors import ReplicaError, ReplicaLostError
from myxtts.replicas.transport import Transport

# What each machine may have as it likes: where things are, how they are read, and what only
# replica 0 does.
OWN_MATTERS = frozenset(
    f"data.{name}"
    for name in (
        *("train_data", "val_data", "lexicon", "num_workers", "use_tf_native_loading", "cache"),
        *("allow_few", "data_gpu", "model_gpu", "enable_memory_isolation", "data_gpu_memory"),
        *("model_gpu_memory", "simulate", "fallback", "pipeline_buffer_size"),
        *("prefetch_buffer_size", "pipeline_depth", "model_start_delay", "stall_timeout"),
    )
) | frozenset(
    f"training.{name}"
    for name in (
        *("checkpoint_dir", "resume", "keep_checkpoints", "init_from", "auto_batch", "log_steps"),
        *("sample_steps", "tensorboard_log_dir", "wandb", "memory_check_steps"),
        *("data_leak_threshold_mb", "model_leak_threshold_mb", "join_timeout", "max_restarts"),
    )
)


def program_facts() -> dict[str, str]:
    """Which programs this replica runs."""
    import keras
    import tensorflow as tf

    return {"MyXTTS": __version__, "TensorFlow": tf.__version__, "Keras": keras.__version__}


def settings_facts(config: XTTSConfig) -> dict[str, str]:
    """Every setting that decides what is trained."""
    return {
        name: json.dumps(known.read(config), default=str)
        for name, known in settings().items()
        if name not in OWN_MATTERS
    }


def check_agreement(transport: Transport, facts: Mapping[str, str], *, remedy: str) -> None:
    """Refuse to go on where a replica knows something else than replica 0."""
    names = sorted(facts)
    # First whether they speak of the same at all: another version may know other settings.
    mine = np.array([_number(json.dumps(names)), len(names)], np.int64)
    known = transport.gather(mine)
    if len({tuple(row) for row in known.tolist()}) > 1:
        others = [r for r, row in enumerate(known) if (row != known[0]).any()]
        _let_all_know(transport)
        raise ReplicaError(
            f"{transport.cluster.names(others)} knows other settings than replica 0.",
            "install the same version of MyXTTS on every machine",
        )
    told = transport.gather(np.array([_number(facts[name]) for name in names], np.int64))
    problems = list(_differences(transport, names, told, facts))
    if problems:
        _let_all_know(transport)
        raise ReplicaError(" ".join(problems), remedy)


def _let_all_know(transport: Transport) -> None:
    """Wait until all have the answer: one that leaves at once breaks the sum of those still at it.

    They would say that it is gone, instead of why.
    """
    with contextlib.suppress(ReplicaLostError):  # now it may leave
        transport.sum(np.zeros([1], np.int64))


def _differences(
    transport: Transport, names: list[str], told: Any, facts: Mapping[str, str]
) -> Iterator[str]:
    for rank, row in enumerate(told):
        differ = [name for name, same in zip(names, row == told[0], strict=True) if not same]
        if differ:
            here = ", ".join(f"{name} is {facts[name][:80]}" for name in differ[:5])
            yield (
                f"{transport.cluster.name(rank)} has another {', '.join(differ)} than replica 0 "
                f"(here, on replica {transport.cluster.rank}, {here})."
            )


def _number(text: str) -> int:
    """A fact in 63 bits."""
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> 1
