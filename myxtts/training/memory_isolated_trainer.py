"""The trainer with one memory limit per role, watched while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras

from myxtts.config.config import XTTSConfig
from myxtts.pipeline.devices import ROLES, DevicePlan, RoleName, configure_devices
from myxtts.pipeline.memory import read_role
from myxtts.replicas.cluster import Cluster
from myxtts.training.progress import TrainingProgress
from myxtts.training.step import Losses
from myxtts.training.trainer import XTTSTrainer
from myxtts.utils.gpu_memory import log_memory_stats, setup_gpu_memory_isolation

BASELINE_STEP = 10  # buffers are full and the step is compiled by then


def make_trainer(config: XTTSConfig, **arguments: Any) -> XTTSTrainer:
    """The trainer for the mode that the settings ask for."""
    plan = configure_devices(**asdict(config.data.device_request()))
    if not plan.isolated or plan.data_gpu is None or plan.model_gpu is None:
        return XTTSTrainer(config, **arguments)
    return MemoryIsolatedDualGPUTrainer(
        config,
        plan.data_gpu,
        plan.model_gpu,
        plan.data_limit_mb,
        plan.model_limit_mb,
        simulate=plan.simulated,
        **arguments,
    )


class MemoryIsolatedDualGPUTrainer(XTTSTrainer):
    """Prepares data on one GPU and trains on another, each inside its own memory limit.

    A limit of None is chosen for the card. `simulate=True` uses two logical CPU devices.
    """

    def __init__(
        self,
        config: XTTSConfig,
        data_gpu_id: int,
        model_gpu_id: int,
        data_gpu_memory_limit: int | None = 8192,
        model_gpu_memory_limit: int | None = 16384,
        enable_monitoring: bool = True,
        *,
        model: keras.Model | Callable[[], keras.Model] | None = None,
        resume_checkpoint: str | Path | None = None,
        simulate: bool = False,
        progress: TrainingProgress | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.data_gpu_id = data_gpu_id
        self.model_gpu_id = model_gpu_id
        self.enable_monitoring = enable_monitoring
        self._limits = (data_gpu_memory_limit, model_gpu_memory_limit)
        self._simulate = simulate
        self._baselines: dict[RoleName, float] = {}
        super().__init__(config, model, resume_checkpoint, progress=progress, cluster=cluster)

    def get_memory_stats(self) -> dict[str, Any]:
        """Memory of both roles now, against limit and baseline, with the source of each reading."""
        stats: dict[str, Any] = {}
        for role in ROLES:
            reading = read_role(self.plan, role)
            baseline = self._baselines.get(role)
            stats[f"{role}_gpu"] = {
                "gpu_id": self.plan.gpu(role),
                "used_mb": reading.used_mb,
                "limit_mb": reading.total_mb,
                "percent": reading.percent,
                "source": reading.source,
                "baseline_mb": baseline,
                "growth_mb": None if baseline is None else reading.used_mb - baseline,
            }
        return stats

    def _train_step_impl(
        self,
        text_sequences: Any,
        mel_spectrograms: Any = None,
        text_lengths: Any = None,
        mel_lengths: Any = None,
    ) -> Losses:
        """Update the model with one batch from the pipeline, or with the four parts of features."""
        if mel_spectrograms is None:
            return super()._train_step_impl(text_sequences)
        parts = (text_sequences, mel_spectrograms, text_lengths, mel_lengths)
        return super()._train_step_impl(self._prepare(parts))

    def _configure_devices(self) -> DevicePlan:
        return setup_gpu_memory_isolation(
            self.data_gpu_id, self.model_gpu_id, *self._limits, simulate=self._simulate
        )

    def _after_step(self) -> None:
        if not self.enable_monitoring:
            return
        super()._after_step()
        if self.steps_done == self._first_step + BASELINE_STEP:
            self._setup_memory_baselines()
        if self.steps_done % self.config.training.memory_check_steps == 0:
            log_memory_stats(self.data_gpu_id, self.model_gpu_id, step=self.steps_done)
            self.log.event("memory", step=self.steps_done, **self.get_memory_stats())
            self._check_memory_health()

    def _setup_memory_baselines(self) -> None:
        """Take what both roles hold after warm-up as the measure of later growth."""
        for role in ROLES:
            self._baselines[role] = read_role(self.plan, role).used_mb

    def _check_memory_health(self) -> bool:
        """Whether both roles stayed within their threshold above the baseline; warns if not."""
        training = self.config.training
        thresholds = (training.data_leak_threshold_mb, training.model_leak_threshold_mb)
        grown = [
            read_role(self.plan, role).has_grown(
                f"{role.capitalize()} GPU {self.plan.gpu(role)}",
                baseline_mb=baseline,
                threshold_mb=threshold,
            )
            for (role, baseline), threshold in zip(
                self._baselines.items(), thresholds, strict=False
            )
        ]
        return not any(grown)
