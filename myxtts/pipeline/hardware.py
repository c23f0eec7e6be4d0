"""The one thin layer over GPU drivers and TensorFlow's device switches; tests use a fake."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from myxtts.errors import DeviceError

log = logging.getLogger(__name__)

MB = 1024 * 1024
_P2P_READ = 0  # the package's own constant is a tuple by mistake
_PCIE_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938}  # by generation


@dataclass(frozen=True)
class Card:
    """One GPU as the user counts them; memory in MB at the moment of reading."""

    index: int
    name: str
    total_mb: int
    free_mb: int
    token: str  # how CUDA_VISIBLE_DEVICES names it: a number, or a UUID the user gave


class Hardware:
    """This machine's GPUs and what TensorFlow may do with them."""

    simulated_cards = 2  # how many the simulated machine has; replicas may ask for more

    def __init__(self) -> None:
        self.configured: tuple[object, object] | None = None  # (request, plan), set once a process
        self.missing_reason = ""  # why `cards()` is empty
        self._users_choice: str | None = None  # CUDA_VISIBLE_DEVICES before `show_only` set it
        self._narrowed = False
        self._told_of_unknown_size = False

    # -- the driver (NVML; never initialises CUDA) --

    def cards(self) -> list[Card]:
        """The GPUs this process may use, in the user's order (CUDA_VISIBLE_DEVICES is honoured)."""
        try:
            import pynvml
        except ImportError:
            self.missing_reason = "the package nvidia-ml-py is not installed"
            return []
        try:
            return self._read_cards(pynvml)
        except pynvml.NVMLError as error:
            self.missing_reason = f"no NVIDIA driver answers (NVML: {error})"
            return []

    def _read_cards(self, pynvml: Any) -> list[Card]:
        cards = []
        for index, (token, handle) in enumerate(self._visible_handles(pynvml)):
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            cards.append(
                Card(
                    index=index,
                    name=_text(pynvml.nvmlDeviceGetName(handle)),
                    total_mb=memory.total // MB,
                    free_mb=memory.free // MB,
                    token=token,
                )
            )
        return cards

    def _visible_handles(self, pynvml: Any) -> list[tuple[str, Any]]:
        """The token and NVML's handle of each card, in the user's order."""
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        uuids = [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        chosen = self._users_choice if self._narrowed else os.environ.get("CUDA_VISIBLE_DEVICES")
        visible = visible_tokens(chosen, uuids)
        if not visible and not handles:
            self.missing_reason = "the driver lists no GPU"
        elif not visible:
            self.missing_reason = (
                "CUDA_VISIBLE_DEVICES hides every GPU"
                if chosen in ("", "-1")
                else f"CUDA_VISIBLE_DEVICES={chosen} names no whole card"  # part of one: MIG
            )
        return [(token, handles[physical]) for token, physical in visible]

    def card_mb(self, index: int) -> int | None:
        """The memory of a card; None, said once, where NVML does not know it (MIG, ROCm)."""
        for card in self.cards():
            if card.index == index:
                return card.total_mb
        if not self._told_of_unknown_size:
            self._told_of_unknown_size = True
            log.warning(
                "The size of GPU %d's memory is unknown: %s. What TensorFlow holds of it is read "
                "from TensorFlow itself.",
                index,
                self.missing_reason or "NVML does not list it",
            )
        return None

    def utilisation(self, index: int) -> float | None:
        """Share of the last moment in which a card computed, from 0 to 1; None if NVML is mute."""
        try:
            import pynvml

            _, handle = self._visible_handles(pynvml)[index]
            return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100.0
        except Exception:  # no such package, driver or card, or one that does not tell
            return None

    def peer_to_peer(self, first: int, second: int) -> bool | None:
        """Whether one card reads the other's memory itself; None if NVML is mute."""
        try:
            import pynvml

            handles = self._visible_handles(pynvml)
            status = pynvml.nvmlDeviceGetP2PStatus(handles[first][1], handles[second][1], _P2P_READ)
            return bool(status == pynvml.NVML_P2P_STATUS_OK)
        except Exception:  # as above
            return None

    def bus_gb_s(self, index: int) -> float | None:
        """What a card's PCIe link carries at the most, one way; None if NVML is mute."""
        try:
            import pynvml

            _, handle = self._visible_handles(pynvml)[index]
            lane = _PCIE_LANE_GB_S[pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)]
            return lane * int(pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle))
        except Exception:  # as above
            return None

    def driver_version(self) -> str | None:
        """The NVIDIA driver's version, or None where no driver answers."""
        try:
            import pynvml

            pynvml.nvmlInit()
            return _text(pynvml.nvmlSystemGetDriverVersion())
        except Exception:  # the package is missing, or one of NVML's many errors
            return None

    def show_only(self, cards: Sequence[Card]) -> None:
        """Let TensorFlow see exactly these cards, in this order.

        `tf.config.set_visible_devices` ignores the order of its list, so the order is made with
        CUDA_VISIBLE_DEVICES, which CUDA reads once, when it starts.
        """
        if _cuda_started():
            raise DeviceError(
                "CUDA is already running in this process, so its GPUs can no longer be ordered.",
                "call configure_devices() before anything else touches a GPU (also before "
                "tf.config.list_physical_devices), or start a new process",
            )
        self._users_choice, self._narrowed = os.environ.get("CUDA_VISIBLE_DEVICES"), True
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order nvidia-smi and NVML use
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(card.token for card in cards)

    # -- TensorFlow's switches --

    def tensorflow_gpus(self) -> int:
        """How many GPUs TensorFlow itself finds."""
        return len(_physical("GPU"))

    def compute_capability(self, device: str) -> tuple[int, int]:
        """What the GPU behind a device can do, as NVIDIA numbers it."""
        gpus = _physical("GPU")
        gpu = gpus[min(int(device.rsplit(":", 1)[1]), len(gpus) - 1)]  # a split card is one GPU
        found = _tf().config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        return int(found[0]), int(found[1])

    def hide_gpus(self) -> None:
        """Keep TensorFlow off every GPU."""
        if not self.tensorflow_gpus():
            return
        with _before_tensorflow_starts():
            _tf().config.set_visible_devices([], "GPU")

    def keep_first_gpu(self) -> None:
        """Keep TensorFlow off every GPU but its first, where NVML cannot name them."""
        gpus = _physical("GPU")
        if len(gpus) > 1:
            with _before_tensorflow_starts():
                _tf().config.set_visible_devices(gpus[:1], "GPU")

    def set_growth(self, gpu: int) -> None:
        """Let a GPU's memory grow with need, instead of taking the whole card."""
        tf = _tf()
        device = _physical("GPU")[gpu]
        if not tf.config.experimental.get_memory_growth(device):
            with _before_tensorflow_starts():
                tf.config.experimental.set_memory_growth(device, True)

    def set_tf32(self, on: bool) -> None:
        """Whether float32 products may be rounded to TF32; TensorFlow itself would say yes."""
        _tf().config.experimental.enable_tensor_float_32_execution(on)

    def set_limits(self, gpu: int, limits_mb: Sequence[int]) -> None:
        """Make one logical device per limit on this GPU, each with its hard limit."""
        _split(_physical("GPU")[gpu], limits_mb)

    def split_cpu(self, parts: int) -> None:
        """Make logical CPU devices that stand in for GPUs."""
        _split(_physical("CPU")[0], [None] * parts)

    def allocated_mb(self, device: str) -> float:
        """What TensorFlow's allocator holds on a GPU now."""
        return float(_tf().config.experimental.get_memory_info(device.strip("/"))["current"]) / MB


HARDWARE = Hardware()


def visible_tokens(setting: str | None, uuids: Sequence[str]) -> list[tuple[str, int]]:
    """Read CUDA_VISIBLE_DEVICES as CUDA does: (token, NVML index) of each visible GPU, in order.

    The list ends at the first entry that names no GPU, as it does for CUDA.
    """
    if setting is None:
        return [(str(i), i) for i in range(len(uuids))]
    visible: list[tuple[str, int]] = []
    for token in (part.strip() for part in setting.split(",")):
        if token.isdigit() and int(token) < len(uuids):
            physical = int(token)
        else:
            matches = [i for i, uuid in enumerate(uuids) if token and uuid.startswith(token)]
            if len(matches) != 1:
                break
            physical = matches[0]
        if physical in (seen for _, seen in visible):
            return []  # CUDA shows no device at all when one is named twice
        visible.append((token, physical))
    return visible


@contextlib.contextmanager
def _before_tensorflow_starts() -> Iterator[None]:
    """Turn TensorFlow's "cannot be modified after being initialized" into what to move."""
    try:
        yield
    except RuntimeError as error:
        raise DeviceError(
            "TensorFlow is already initialised in this process, so its devices can no longer be "
            "configured.",
            "call configure_devices() (or setup_gpu_memory_isolation()) first: move it above the "
            "first tensor, model or tf.config.list_logical_devices(), or start a new process",
        ) from error


def _split(device: Any, limits_mb: Sequence[int | None]) -> None:
    config = _tf().config
    logical = [config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits_mb]
    with _before_tensorflow_starts():
        config.set_logical_device_configuration(device, logical)


def _cuda_started() -> bool:
    """Ask the CUDA driver itself: before cuInit it answers every call with code 3."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    cuda_error_not_initialized = 3
    status: int = driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
    return status != cuda_error_not_initialized


def _physical(kind: str) -> list[Any]:
    devices: list[Any] = _tf().config.list_physical_devices(kind)
    return devices


def _tf() -> Any:
    import tensorflow as tf  # late: the environment must be set before

    return tf


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
