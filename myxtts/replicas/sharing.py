"""What each replica gets of a machine: its own cards, and its share of those it has in common."""

from __future__ import annotations

import logging
import os

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.errors import ConfigError, HardwareShortageError
from myxtts.pipeline.devices import machine_cards
from myxtts.pipeline.hardware import HARDWARE, Card, Hardware
from myxtts.pipeline.limits import CUDA_CONTEXT_MB, SMALLEST_LIMIT_MB, recommended_settings
from myxtts.replicas.cluster import Cluster

log = logging.getLogger(__name__)


def replicas_asked(config: XTTSConfig) -> int:
    """How many replicas the settings ask for on this machine."""
    cards = config.data.model_gpu
    several = len(cards) if isinstance(cards, tuple) else None
    asked = config.training.replicas
    if several is not None and asked not in (None, several):
        raise ConfigError(
            f"--replicas is {asked}, and --model-gpu names {several} cards.",
            "leave out --replicas, or name a model card for each of them",
        )
    return several or asked or 1


def check_machine_for(config: XTTSConfig, replicas: int, hardware: Hardware = HARDWARE) -> None:
    """Refuse replicas that this machine has no cards for, before any is started."""
    data = config.data
    if isinstance(data.model_gpu, int) and not data.simulate:
        raise ConfigError(
            f"--replicas {replicas} was given with one model GPU, {data.model_gpu}.",
            f"name a model card for each: --data-gpu 0 --model-gpu "
            f"{','.join(str(n + 1) for n in range(replicas))}; or leave out both flags, and the "
            f"first {replicas} cards are used",
        )
    if isinstance(data.model_gpu, tuple):
        _check_roles(data, data.model_gpu)
        cards = _cards(data, data.model_gpu, hardware)
        unknown = [n for n in (data.data_gpu, *data.model_gpu) if n is None or n >= len(cards)]
        if unknown:
            raise HardwareShortageError(
                f"Insufficient GPUs: asked for data GPU {data.data_gpu} and model GPUs "
                f"{', '.join(map(str, data.model_gpu))}; {len(cards)} are available"
                f"{f' ({hardware.missing_reason})' if not cards else ''}.",
                "use indices that `myxtts env` lists, or add --simulate to try it on the CPU",
            )
        return
    cards = [] if data.simulate else hardware.cards()
    if cards and len(cards) < replicas:
        raise HardwareShortageError(
            f"{replicas} replicas need a GPU each, and there are {len(cards)}.",
            f"--replicas {len(cards)}, or more machines: see docs/en/scaling.md",
        )


def own_share(config: XTTSConfig, cluster: Cluster, hardware: Hardware = HARDWARE) -> XTTSConfig:
    """The settings of this replica: those of all, with devices and limits of its own."""
    asked, world = config.training.replicas, cluster.world
    if asked not in (None, world, len(cluster.neighbours)):
        raise ConfigError(
            f"--replicas is {asked}, and {cluster.source} lists {world} replicas.",
            f"leave out --replicas: {cluster.source} has an entry for each of them",
        )
    own = config.model_copy(deep=True)
    cards, number = own.data.model_gpu, cluster.local_rank
    if isinstance(cards, tuple):
        if len(cards) != len(cluster.neighbours):
            raise ConfigError(
                f"--model-gpu names {len(cards)} cards, and {len(cluster.neighbours)} replicas are "
                "on this machine.",
                "name one model card for each of them",
            )
        _check_roles(own.data, cards)
        found = _cards(own.data, cards, hardware)
        own.data.data_gpu_memory = _share_of_limit(own.data, cards, found)
        own.data.model_gpu = cards[number]
    return own


def _check_roles(data: DataConfig, cards: tuple[int, ...]) -> None:
    if data.data_gpu is None:
        raise ConfigError(
            f"--model-gpu {','.join(map(str, cards))} was given without --data-gpu.",
            f"add --data-gpu, the card that prepares batches for all of them, or give --replicas "
            f"{len(cards)} alone: then each card does both",
        )
    if len(set(cards)) < len(cards):
        raise ConfigError(
            f"--model-gpu {','.join(map(str, cards))} names a card twice.",
            "give each replica a card of its own",
        )
    if len(cards) > 1 and data.data_gpu in cards:
        raise ConfigError(
            f"GPU {data.data_gpu} would prepare batches for {len(cards)} replicas and train one "
            "of them.",
            "give another --data-gpu, or --replicas alone: then each card does both",
        )
    if len(cards) > 1 and not data.enable_memory_isolation:
        raise ConfigError(
            f"{len(cards)} replicas would share data GPU {data.data_gpu} without a limit for any.",
            "add --enable-memory-isolation, which gives each its share of the card",
        )


def _cards(data: DataConfig, cards: tuple[int, ...], hardware: Hardware) -> list[Card]:
    """Those of this machine; a simulated one has as many as are named."""
    hardware.simulated_cards = max(*cards, data.data_gpu or 0, 1) + 1
    return machine_cards(simulate=data.simulate, hardware=hardware)


def _share_of_limit(data: DataConfig, cards: tuple[int, ...], found: list[Card]) -> int | None:
    """The data card's limit for one of those that share it.

    Not by what is free: that changes while the others start.
    """
    if not data.enable_memory_isolation or len(cards) == 1:
        return data.data_gpu_memory
    whole = data.data_gpu_memory
    if whole is None:
        if data.data_gpu is None or data.data_gpu >= len(found):
            return None  # the plan of devices refuses it, with the reason
        total = found[data.data_gpu].total_mb
        room = total - CUDA_CONTEXT_MB * len(cards)
        whole = min(room, recommended_settings(total).data_limit_mb * len(cards))
    share = whole // len(cards) // 64 * 64
    if share < SMALLEST_LIMIT_MB:
        raise ConfigError(
            f"{whole} MB of data GPU {data.data_gpu} are {share} MB for each of {len(cards)} "
            f"replicas, and {SMALLEST_LIMIT_MB} are the least that works.",
            "a larger --data-gpu-memory, or fewer replicas",
        )
    log.info("Data GPU %d is shared: %d MB for this replica", data.data_gpu or 0, share)
    return share


def show_own_card(config: XTTSConfig, cluster: Cluster, hardware: Hardware = HARDWARE) -> None:
    """Where each replica works on one card alone, let this process see only its own."""
    if config.data.model_gpu is not None or config.data.simulate:
        return
    number, replicas, cards = cluster.local_rank, len(cluster.neighbours), hardware.cards()
    if len(cards) <= 1:  # none, or a scheduler has given this process its own
        return
    if len(cards) < replicas:
        raise HardwareShortageError(
            f"{replicas} replicas are on this machine, and it has {len(cards)} GPUs.",
            f"start {len(cards)} here at most, a GPU for each",
        )
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as `cards` counts them
    os.environ["CUDA_VISIBLE_DEVICES"] = cards[number].token
