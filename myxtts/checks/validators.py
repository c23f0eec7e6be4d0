"""The validators: prove that this machine can train in two-device mode, one check after another."""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from myxtts.config import commands
from myxtts.config.config import DataConfig, ModelConfig, XTTSConfig
from myxtts.errors import DeviceError, MyXTTSError
from myxtts.pipeline.devices import DevicePlan, choose_cards, configure_devices
from myxtts.pipeline.hardware import HARDWARE, Card, Hardware
from myxtts.pipeline.limits import check_limits, plan_limits, recommended_settings
from myxtts.profiling.what_if import with_settings
from myxtts.training.batch_fit import BatchFit, Room, fit_batch, room_of

log = logging.getLogger(__name__)

TRAINING_STEPS = 8
LIMITS = ("data_gpu_memory", "model_gpu_memory")
OF_DEVICES = {"data_gpu", "model_gpu", "enable_memory_isolation", *LIMITS, "simulate"}


@dataclass(frozen=True)
class Target:
    """What is to be validated: the devices that settings name, and nothing else of them."""

    settings: DataConfig
    hardware: Hardware = HARDWARE

    @classmethod
    def of(cls, settings: DataConfig) -> Target:
        """Without the data and the batches that a config file may name."""
        return cls(DataConfig(**settings.model_dump(include=OF_DEVICES)))

    @property
    def simulate(self) -> bool:
        """Whether CPU devices stand in for the GPUs."""
        return self.settings.simulate

    def configure(self) -> DevicePlan:
        """Set the devices up for real (once; then it is a no-op)."""
        return configure_devices(**asdict(self.settings.device_request()), hardware=self.hardware)

    def cards(self) -> tuple[Card, Card]:
        """The data card and the model card."""
        return choose_cards(self.settings.device_request(), self.hardware)


@dataclass(frozen=True)
class Result:
    """The outcome of one check; `passed` is None where an earlier failure kept it from running."""

    name: str
    passed: bool | None
    detail: str
    remedy: str = ""


Check = tuple[str, Callable[[Target], str]]


def run_checks(checks: tuple[Check, ...], target: Target) -> Iterator[Result]:
    """Run checks in order, each result as it comes; after a failure the rest cannot tell."""
    failed = ""
    for name, check in checks:
        if failed:
            yield Result(name, None, f"not run, because '{failed}' failed")
            continue
        try:
            yield Result(name, True, check(target))
        except MyXTTSError as error:
            failed = name
            yield Result(name, False, error.problem, error.remedy)
        except Exception as error:  # TensorFlow and drivers fail in many ways: each is a ❌
            failed = name
            log.debug("Check '%s' failed", name, exc_info=True)
            reason = (str(error).strip().splitlines() or ["no message"])[0]
            yield Result(name, False, f"{type(error).__name__}: {reason}", "run again with --debug")


def recommended_batch(target: Target) -> BatchFit | None:
    """The batch size for what was validated; None where the driver does not tell a card's size."""
    room = room_of(target.configure(), hardware=target.hardware)
    return None if room is None else fit_batch(_validated_settings(target, room), room)


def training_command(target: Target) -> str:
    """The command to train with what was validated."""
    fit = recommended_batch(target)
    if fit is None:
        return commands.training_command(_validated_settings(target, None))
    return commands.training_command(with_settings(fit.config, fit.settings))


def _validated_settings(target: Target, room: Room | None) -> XTTSConfig:
    plan = target.configure()
    found = {"data_gpu_memory": plan.data_limit_mb, "model_gpu_memory": plan.model_limit_mb}
    if room is not None:
        found["prefetch_buffer_size"] = recommended_settings(room.card_mb).prefetch_buffer_size
    return XTTSConfig(data=target.settings.model_copy(update=found))


def check_prerequisites(target: Target) -> str:
    """Python, TensorFlow and, for real GPUs, the driver and NVML."""
    found = [f"Python {sys.version_info.major}.{sys.version_info.minor}"]
    missing, remedies = [], []
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        missing.append(f"{found[0]} is not supported")
        remedies.append("use Python 3.10 to 3.13")
    packages = ["tensorflow"] if target.simulate else ["tensorflow", "nvidia-ml-py"]
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"the package {package} is not installed")
            remedies.append(f"pip install {package}")
    try:
        importlib.import_module("tensorflow")
    except Exception as error:
        missing.append(f"TensorFlow cannot be imported ({error})")
        remedies.append("reinstall it: pip install --force-reinstall tensorflow")
    if target.simulate:
        found.append("no driver needed: devices are simulated")
    elif (driver := target.hardware.driver_version()) is not None:
        found.append(f"NVIDIA driver {driver}")
    else:
        target.hardware.cards()  # says why
        missing.append(target.hardware.missing_reason or "no NVIDIA driver answers")
        remedies.append("install the NVIDIA driver (nvidia-smi must work), or add --simulate")
    if missing:
        raise DeviceError(f"Missing: {'; '.join(missing)}.", "; ".join(remedies))
    return ", ".join(found)


def check_indices(target: Target) -> str:
    """Both GPUs exist."""
    data, model = target.cards()
    return f"data GPU {data.index} ({data.name}), model GPU {model.index} ({model.name})"


def check_free_memory(target: Target) -> str:
    """The limits fit into what is free."""
    data_card, model_card = target.cards()
    given = target.settings.data_gpu_memory, target.settings.model_gpu_memory
    data_mb, model_mb = plan_limits(data_card, model_card, data_mb=given[0], model_mb=given[1])
    check_limits(data_card, model_card, data_mb=data_mb, model_mb=model_mb)
    return (
        f"data limit {data_mb} of {data_card.free_mb} MB free, "
        f"model limit {model_mb} of {model_card.free_mb} MB free"
    )


def check_isolation(target: Target) -> str:
    """Isolation is set up for real, and both devices work."""
    plan = target.configure()
    touch_devices(plan)
    enforced = "not enforced on simulated devices" if plan.simulated else "enforced by TensorFlow"
    return f"limits {plan.data_limit_mb} and {plan.model_limit_mb} MB set, {enforced}"


def check_trainer(target: Target) -> str:
    """The trainer can be imported."""
    from myxtts.training.memory_isolated_trainer import MemoryIsolatedDualGPUTrainer

    return f"{MemoryIsolatedDualGPUTrainer.__module__}.{MemoryIsolatedDualGPUTrainer.__name__}"


def check_placement_of_tensors(target: Target) -> str:
    """A tensor and a variable land on each device."""
    plan = target.configure()
    touch_devices(plan)
    return f"data on {plan.logical_name('data')}, model on {plan.logical_name('model')}{plan.note}"


def check_model(target: Target) -> str:
    """The voice model (the smallest) and its optimiser are created on the model device."""
    plan = target.configure()
    import tensorflow as tf

    from myxtts.models.xtts import XTTS
    from myxtts.training.step import TrainStep

    with tf.device(plan.model_device):
        model = XTTS(ModelConfig(size="tiny"))
        step = TrainStep(model, device=plan.model_device, learning_rate=1e-3)
    step.build()  # refuses a stray variable
    count = len(model.variables) + len(step.optimizer.variables)
    return (
        f"{count} variables of voice model and optimiser, {model.count_params() / 1e6:.1f} million "
        f"parameters, on {plan.logical_name('model')}{plan.role_note('model')}"
    )


def check_transfer(target: Target) -> str:
    """What crosses arrives on the model device, byte for byte."""
    plan = target.configure()
    import numpy as np
    import tensorflow as tf

    from myxtts.pipeline.transfer import copy_to_model_device

    random = np.random.default_rng(0)
    sent: list[Any] = [
        random.normal(size=(16, 256, 80)).astype(np.float32),
        random.integers(-32768, 32767, size=(16, 22_050), dtype=np.int16),
        np.arange(16, dtype=np.int32),
    ]
    with tf.device(plan.data_device):
        on_data_device = [tf.identity(tf.convert_to_tensor(array)) for array in sent]
    arrived = copy_to_model_device(on_data_device, plan)
    for before, after in zip(sent, arrived, strict=True):
        _expect_device(after, plan.model_device, "a transferred tensor")
        if after.numpy().tobytes() != before.tobytes():
            raise DeviceError(
                f"A {before.dtype} tensor changed on its way to the model device.",
                "check the cards and the PCIe link (nvidia-smi -q, dmesg); do not train on this",
            )
    return f"{sum(array.nbytes for array in sent):,} bytes crossed and are equal"


def check_training(target: Target) -> str:
    """A few real training steps run through the pipeline."""
    target.configure()
    from myxtts.checks.probe import ProbeModel, log_mels, synthetic_waveforms
    from myxtts.config.config import TrainingConfig
    from myxtts.training.trainer import XTTSTrainer

    class ProbeTrainer(XTTSTrainer):
        def _preprocess_on_data_gpu(self, batch: Any) -> Any:
            return log_mels(batch)

    config = XTTSConfig(data=target.settings, training=TrainingConfig(optimization_level="basic"))
    losses: list[float] = []
    with tempfile.TemporaryDirectory(prefix="myxtts-check-") as folder:
        config.training.checkpoint_dir = Path(folder) / "run"
        with ProbeTrainer(config, model=ProbeModel) as trainer:
            trainer.train(
                synthetic_waveforms(TRAINING_STEPS, batch_size=8),
                epochs=1,
                on_step=lambda step, values: losses.append(float(values["loss"])),
            )
    if len(losses) != TRAINING_STEPS or not all(map(math.isfinite, losses)):
        raise DeviceError(
            f"{len(losses)} of {TRAINING_STEPS} training steps came through, with losses {losses}.",
            "run again with --debug and report what it prints",
        )
    if losses[-1] >= losses[0]:
        raise DeviceError(
            f"The loss did not fall in {TRAINING_STEPS} steps: {losses}.",
            "run again; if it stays, the model device computes wrongly: check the card",
        )
    return f"{TRAINING_STEPS} steps, loss {losses[0]:.3f} → {losses[-1]:.3f}"


def touch_devices(plan: DevicePlan) -> None:
    """Make a tensor and a variable on each device, and see that they landed there."""
    import tensorflow as tf

    for device in (plan.data_device, plan.model_device):
        with tf.device(device):
            tensor = tf.add(tf.ones([4]), 1.0)
            variable = tf.Variable(tensor)
        _expect_device(tensor, device, "a tensor")
        _expect_device(variable, device, "a variable")


def _expect_device(value: Any, device: str, what: str) -> None:
    from myxtts.pipeline.transfer import is_on

    if not is_on(value, device):
        raise DeviceError(
            f"{what.capitalize()} meant for {device} landed on {value.device or 'no device'}.",
            "run again with --debug; TensorFlow's own messages say why it moved",
        )


def without_isolation(target: Target) -> Target:
    """The same devices with memory growth instead of limits."""
    grows = {"enable_memory_isolation": False, **dict.fromkeys(LIMITS)}
    return replace(target, settings=target.settings.model_copy(update=grows))


ISOLATION_CHECKS: tuple[Check, ...] = (
    ("Prerequisites", check_prerequisites),
    ("GPU indices", check_indices),
    ("Free memory", check_free_memory),
    ("Memory isolation", check_isolation),
    ("Trainer", check_trainer),
)
PIPELINE_CHECKS: tuple[Check, ...] = (
    ("Prerequisites", check_prerequisites),
    ("Device placement", check_placement_of_tensors),
    ("Model creation", check_model),
    ("Transfer between devices", check_transfer),
    ("Training through the pipeline", check_training),
)
