"""What tells whether a place in the data still means the same batch."""

from __future__ import annotations

import hashlib
import json

from myxtts.config.config import DataConfig
from myxtts.data.batching import BatchPlan
from myxtts.data.table import ClipTable
from myxtts.features.audio import REFERENCE_SECONDS

FINGERPRINT_VERSION = 1  # raised when the same settings would give other batches


def fingerprint(table: ClipTable, plan: BatchPlan, config: DataConfig) -> str:
    """Of everything that decides what a place in training holds, and of nothing else."""
    settings = {
        "version": FINGERPRINT_VERSION,
        "seed": plan.seed,
        "buckets": plan.buckets,
        "batch_size": None if plan.batch_frames else plan.batch_size,
        "batch_frames": plan.batch_frames,
        "balance": config.balance,
        "own_lengths": config.static_shapes == "off",
        "reference_seconds": REFERENCE_SECONDS,
        "speakers": table.speaker_names,
        "paths": table.paths,
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for column in (table.samples, table.token_lengths, table.speakers, table.languages):
        digest.update(column.tobytes())
    for ids in table.tokens:
        digest.update(ids.tobytes())
    return digest.hexdigest()
