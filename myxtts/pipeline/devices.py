"""Decides once which device prepares data and which trains, and sets TensorFlow up for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from myxtts.errors import DeviceError, HardwareShortageError
from myxtts.pipeline.hardware import HARDWARE, Card, Hardware
from myxtts.pipeline.limits import check_limits, plan_limits
from myxtts.pipeline.request import DeviceRequest, check_request

log = logging.getLogger(__name__)

RoleName = Literal["data", "model"]
ROLES: tuple[RoleName, ...] = ("data", "model")
SIMULATED_CARD_MB = 24 * 1024  # a simulated GPU poses as a 24 GB card


class Mode(str, Enum):
    """How the two roles are laid out."""

    SINGLE = "Single-GPU Buffered Mode"
    MULTI = "Multi-GPU Mode"


@dataclass(frozen=True)
class DevicePlan:
    """Where each role runs. Made by `configure_devices`, then only handed around."""

    mode: Mode
    data_device: str  # as TensorFlow names it: "/GPU:0", or "/CPU:0" when simulated
    model_device: str
    data_gpu: int | None = None  # the user's index; None on the CPU
    model_gpu: int | None = None
    data_limit_mb: int | None = None  # None: no limit, memory grows with need
    model_limit_mb: int | None = None
    simulated: bool = False

    @property
    def isolated(self) -> bool:
        """Whether each role has a memory limit of its own."""
        return self.data_limit_mb is not None

    def device(self, role: RoleName) -> str:
        """TensorFlow's name for a role's device."""
        return self.data_device if role == "data" else self.model_device

    def gpu(self, role: RoleName) -> int | None:
        """The user's index of a role's GPU."""
        return self.data_gpu if role == "data" else self.model_gpu

    def limit_mb(self, role: RoleName) -> int | None:
        """A role's memory limit."""
        return self.data_limit_mb if role == "data" else self.model_limit_mb

    def logical_name(self, role: RoleName) -> str:
        """The device as messages print it: "/GPU:1", also where a CPU device stands in for it."""
        if self.simulated:
            return "/GPU:0" if role == "data" else "/GPU:1"
        return self.device(role)

    @property
    def note(self) -> str:
        """What every message about a simulated device adds, or nothing."""
        return " (simulated)" if self.simulated else ""

    def role_note(self, role: RoleName) -> str:
        """The same with what stands in for a role's GPU; the log says it once for each."""
        if not self.simulated:
            return ""
        return f" (simulated GPU {self.gpu(role)} = {self.device(role)[1:]})"


def configure_devices(
    data_gpu: int | None = None,
    model_gpu: int | None = None,
    *,
    isolate: bool = False,
    data_limit_mb: int | None = None,
    model_limit_mb: int | None = None,
    simulate: bool = False,
    fallback: Literal["single"] | None = None,
    hardware: Hardware = HARDWARE,
) -> DevicePlan:
    """Check what is asked against the machine, set TensorFlow up, and return the plan.

    Call it before TensorFlow makes its first tensor. Without indices everything runs on the first
    GPU, or on the CPU. With both, `data_gpu` becomes /GPU:0 and `model_gpu` /GPU:1. `isolate` gives
    each a hard memory limit (chosen for the cards when not given). `simulate` uses two logical CPU
    devices instead of GPUs. `fallback="single"` allows one GPU where two cannot be had.
    """
    request = DeviceRequest(
        data_gpu, model_gpu, isolate, data_limit_mb, model_limit_mb, simulate, fallback
    )
    if hardware.configured is not None:
        return _configured_before(request, hardware)
    check_request(request)
    plan = _set_up(request, hardware)
    hardware.configured = (request, plan)
    return plan


def check_machine(request: DeviceRequest, hardware: Hardware = HARDWARE) -> None:
    """Refuse GPUs that the driver does not offer, before anything is loaded that takes seconds."""
    if request.data_gpu is not None and not request.fallback:
        choose_cards(request, hardware)


def machine_cards(*, simulate: bool = False, hardware: Hardware = HARDWARE) -> list[Card]:
    """The GPUs to choose from; the simulated machine has two, or as many as replicas need."""
    if not simulate:
        return hardware.cards()
    return [
        Card(i, "simulated GPU", SIMULATED_CARD_MB, SIMULATED_CARD_MB, token=f"CPU:{i}")
        for i in range(hardware.simulated_cards)
    ]


def configured_plan(hardware: Hardware = HARDWARE) -> DevicePlan | None:
    """The plan this process runs under, or None before `configure_devices`."""
    if hardware.configured is None:
        return None
    plan = hardware.configured[1]
    assert isinstance(plan, DevicePlan)
    return plan


def _configured_before(request: DeviceRequest, hardware: Hardware) -> DevicePlan:
    plan = configured_plan(hardware)
    assert plan is not None
    assert hardware.configured is not None
    before = hardware.configured[0]
    assert isinstance(before, DeviceRequest)
    # A limit that was planned may be repeated as a given one, and the other way round; a fallback
    # that was not needed makes no difference.
    ignored: dict[str, Any] = {"data_limit_mb": None, "model_limit_mb": None}
    if plan.mode is Mode.MULTI:
        ignored["fallback"] = None
    if (
        replace(request, **ignored) == replace(before, **ignored)
        and request.data_limit_mb in (None, plan.data_limit_mb)
        and request.model_limit_mb in (None, plan.model_limit_mb)
    ):
        return plan
    raise DeviceError(
        "Devices were already configured in this process, with other settings: "
        f"{_describe(before)}; now asked for: {_describe(request)}.",
        "use one set of device settings per process, or start a new process for the other",
    )


def _describe(request: DeviceRequest) -> str:
    if request.data_gpu is None:
        return "single GPU"
    words = [f"data GPU {request.data_gpu}, model GPU {request.model_gpu}"]
    if request.isolate:
        limits = (request.data_limit_mb, request.model_limit_mb)
        words.append(
            "isolated ({} and {} MB)".format(*("planned" if x is None else x for x in limits))
        )
    if request.simulate:
        words.append("simulated")
    return ", ".join(words)


def _set_up(request: DeviceRequest, hardware: Hardware) -> DevicePlan:
    if request.data_gpu is None:
        return _set_up_single(hardware)
    try:
        return _set_up_multi(request, hardware)
    except HardwareShortageError as shortage:
        if request.fallback != "single":
            raise
        log.warning(
            "%s Falling back to %s, as asked%s.",
            shortage.problem,
            Mode.SINGLE.value,
            ", without memory limits" if request.isolate else "",
        )
        return _set_up_single(hardware)


def _set_up_single(hardware: Hardware) -> DevicePlan:
    cards = hardware.cards()
    if cards:
        hardware.show_only(cards[:1])
        _check_tensorflow_sees(1, hardware)
    elif hardware.tensorflow_gpus():
        # Only visible GPUs must agree on memory growth, and only one gets it.
        hardware.keep_first_gpu()
    else:
        log.warning("No GPU: %s. Everything runs on the CPU.", hardware.missing_reason)
        return DevicePlan(Mode.SINGLE, "/CPU:0", "/CPU:0")
    hardware.set_growth(0)
    log.info("Configured memory growth for GPU 0, which prepares data and trains")
    return DevicePlan(Mode.SINGLE, "/GPU:0", "/GPU:0", data_gpu=0, model_gpu=0)


def _set_up_multi(request: DeviceRequest, hardware: Hardware) -> DevicePlan:
    data_card, model_card = choose_cards(request, hardware)
    limits: tuple[int, int] | None = None
    if request.isolate:
        limits = plan_limits(
            data_card,
            model_card,
            data_mb=request.data_limit_mb,
            model_mb=request.model_limit_mb,
        )
        check_limits(data_card, model_card, data_mb=limits[0], model_mb=limits[1])
    plan = DevicePlan(
        mode=Mode.MULTI,
        data_device="/CPU:0" if request.simulate else "/GPU:0",
        model_device="/CPU:1" if request.simulate else "/GPU:1",
        data_gpu=data_card.index,
        model_gpu=model_card.index,
        data_limit_mb=limits[0] if limits else None,
        model_limit_mb=limits[1] if limits else None,
        simulated=request.simulate,
    )
    log.info("Configuring Multi-GPU Mode...%s", plan.note)
    log.info("Data Processing GPU: %d%s", plan.data_gpu, plan.role_note("data"))
    log.info("Model Training GPU: %d%s", plan.model_gpu, plan.role_note("model"))
    if request.simulate:
        _apply_simulated(plan, hardware)
    else:
        _apply_to_gpus(plan, data_card, model_card, hardware)
    log.info("Multi-GPU configuration completed successfully%s", plan.note)
    return plan


def choose_cards(request: DeviceRequest, hardware: Hardware) -> tuple[Card, Card]:
    """The two roles' cards, or the reason why not, in the published order of checks."""
    cards = machine_cards(simulate=request.simulate, hardware=hardware)
    data_gpu, model_gpu = request.data_gpu, request.model_gpu
    assert data_gpu is not None, "both are given, or neither"
    assert model_gpu is not None, "both are given, or neither"
    same_card = data_gpu == model_gpu
    names = ", ".join(f"{card.index}: {card.name}" for card in cards) or "none"
    if len(cards) < 2 and not (same_card and request.isolate):
        reason = f" ({hardware.missing_reason})" if not cards else ""
        raise HardwareShortageError(
            f"Multi-GPU requires at least 2 GPUs; found {len(cards)}{reason}.",
            "leave out --data-gpu and --model-gpu to run on one device, or split one card with "
            "--data-gpu 0 --model-gpu 0 --enable-memory-isolation, or add --simulate to use two "
            "CPU devices",
        )
    if not (0 <= data_gpu < len(cards) and 0 <= model_gpu < len(cards)):
        raise HardwareShortageError(
            f"Insufficient GPUs for Multi-GPU Mode: asked for data GPU {data_gpu} and model GPU "
            f"{model_gpu}; available: {names}.",
            f"use indices from 0 to {len(cards) - 1}"
            if cards
            else "install the NVIDIA driver and check with nvidia-smi, or add --simulate",
        )
    if same_card and not request.isolate:
        raise DeviceError(
            f"Data and model were both given GPU {data_gpu}.",
            "give two indices, or split this card with --enable-memory-isolation",
        )
    return cards[data_gpu], cards[model_gpu]


def _apply_simulated(plan: DevicePlan, hardware: Hardware) -> None:
    hardware.hide_gpus()
    hardware.split_cpu(2)
    log.info("Set visible devices: GPU %d and GPU %d%s", plan.data_gpu, plan.model_gpu, plan.note)
    if plan.isolated:
        log.info(
            "Memory limits: data %d MB, model %d MB, counted for every batch but not enforced by "
            "TensorFlow, because CPU devices take no limit",
            plan.data_limit_mb,
            plan.model_limit_mb,
        )


def _apply_to_gpus(plan: DevicePlan, data_card: Card, model_card: Card, hardware: Hardware) -> None:
    split = data_card == model_card
    hardware.show_only([data_card] if split else [data_card, model_card])
    _check_tensorflow_sees(1 if split else 2, hardware)
    log.info("Set visible devices: GPU %d and GPU %d", plan.data_gpu, plan.model_gpu)
    if plan.data_limit_mb is None or plan.model_limit_mb is None:
        hardware.set_growth(0)
        log.info("Configured memory growth for data GPU")
        hardware.set_growth(1)
        log.info("Configured memory growth for model GPU")
        return
    if split:
        hardware.set_limits(0, [plan.data_limit_mb, plan.model_limit_mb])
    else:
        hardware.set_limits(0, [plan.data_limit_mb])
        hardware.set_limits(1, [plan.model_limit_mb])
    log.info("Configured memory limit for data GPU: %d MB", plan.data_limit_mb)
    log.info("Configured memory limit for model GPU: %d MB", plan.model_limit_mb)


def _check_tensorflow_sees(expected: int, hardware: Hardware) -> None:
    """The driver's count is not TensorFlow's: a CPU build sees no GPU, and says nothing."""
    seen = hardware.tensorflow_gpus()
    if seen != expected:
        raise DeviceError(
            f"The driver offers {expected} of the GPUs asked for, but TensorFlow sees {seen}.",
            "install TensorFlow's CUDA libraries with: pip install 'tensorflow[and-cuda]' "
            "(and see that the driver is new enough for them)",
        )
