"""What makers publish of common cards, and what a device does in a second at the most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from myxtts.profiling.operation_cost import Cost, Kind, Number

TERA, GIGA = 1e12, 1e9
# Nobody publishes it: about what TensorFlow and the driver take to start one kernel.
LAUNCH_S = 5e-6


@dataclass(frozen=True)
class Device:
    """Upper bounds of one device."""

    name: str
    flops: Mapping[tuple[Kind, Number], float]  # a second
    bandwidth: float  # bytes a second, of its own memory
    launch_s: float  # at the least from the start of one kernel to that of the next
    bus: float | None = None  # bytes a second to the host and to other cards; None: no bus

    def compute_s(self, cost: Cost) -> float:
        """The least time its arithmetic takes."""
        return cost.flops / self.flops[cost.kind, cost.number]

    def memory_s(self, cost: Cost) -> float:
        """The least time its bytes take."""
        return cost.bytes / self.bandwidth


@dataclass(frozen=True)
class PublishedCard:
    """A card's data sheet. TFLOPS are dense (without sparsity), tensor cores add up in float32."""

    name: str
    memory_gb: int
    single_tflops: float  # float32
    tf32_tflops: float | None  # float32 products rounded to TF32 on tensor cores; None: has none
    half_tflops: float  # float16 or bfloat16 on tensor cores
    double_tflops: float
    gb_per_s: float
    bus_gb_per_s: float  # PCIe x16, one direction: 15.75 of generation 3, 31.5 of generation 4

    def device(self, *, tf32: bool = False) -> Device:
        """The same as bounds; float32 products are rounded to TF32 only where that is asked for."""
        single, double = self.single_tflops * TERA, self.double_tflops * TERA
        products = max(single, (self.tf32_tflops or 0.0) * TERA) if tf32 else single
        flops: dict[tuple[Kind, Number], float] = {}
        for kind in ("matmul", "conv", "fft", "vector"):
            tensor_cores = kind in ("matmul", "conv")
            flops[kind, "half"] = self.half_tflops * TERA if tensor_cores else single
            flops[kind, "single"] = products if tensor_cores else single
            flops[kind, "double"] = double
        return Device(
            name=self.name,
            flops=flops,
            bandwidth=self.gb_per_s * GIGA,
            launch_s=LAUNCH_S,
            bus=self.bus_gb_per_s * GIGA,
        )


CARDS = (
    PublishedCard("RTX 3060 12 GB", 12, 12.7, 12.7, 25.5, 0.199, 360, 31.5),
    PublishedCard("RTX 4070", 12, 29.1, 29.1, 58.3, 0.455, 504, 31.5),
    PublishedCard("RTX 3090", 24, 35.6, 35.6, 71.2, 0.556, 936, 31.5),
    PublishedCard("RTX 4090", 24, 82.6, 82.6, 165.2, 1.29, 1008, 31.5),
    PublishedCard("T4", 16, 8.1, None, 65.1, 0.254, 320, 15.75),
    PublishedCard("A100 40 GB", 40, 19.5, 156.0, 312.0, 9.7, 1555, 31.5),
)
