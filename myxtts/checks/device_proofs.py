"""Proofs that go beyond the validators' checks: the link's speed, and limits that really hold."""

from __future__ import annotations

from functools import partial
from typing import Any

from myxtts.checks.validators import Target, touch_devices
from myxtts.errors import DeviceError
from myxtts.pipeline.devices import DevicePlan, RoleName
from myxtts.pipeline.hardware import MB
from myxtts.pipeline.memory import read_role

SENT_MB = 64
PAST_LIMIT_MB = 512
LEAST_OF_BUS = 0.2  # twice through the host leaves less than half of it
NOTICED_MB = 1.0  # what the other device's memory may change by


def prove_bandwidth(target: Target) -> str:
    """How fast the way between the devices is, and whether it leads through the host."""
    plan = target.configure()
    import tensorflow as tf

    from myxtts.pipeline.transfer import copy_to_model_device
    from myxtts.training.quickest import seconds_of

    with tf.device(plan.data_device):
        block = tf.random.uniform([SENT_MB * MB // 4])
    send = partial(copy_to_model_device, {"block": block}, plan)
    rate = SENT_MB / 1024 / seconds_of(send, plan.model_device)
    told = f"{rate:.1f} GB/s, {_way(plan, target)}"
    cards = () if plan.simulated else target.cards()
    buses = [target.hardware.bus_gb_s(card.index) for card in cards]
    slowest = min((bus for bus in buses if bus is not None), default=None)
    if slowest is None:
        return told
    told += f"; the bus carries {slowest:.1f}"
    if rate < LEAST_OF_BUS * slowest:
        raise DeviceError(
            f"The crossing is far below the bus: {told}, and {LEAST_OF_BUS:.0%} are expected.",
            "check both cards' slots (nvidia-smi -q, Link Width) and what else uses the bus",
        )
    return told


def _way(plan: DevicePlan, target: Target) -> str:
    if plan.simulated:
        return "a copy in memory (simulated devices)"
    data, model = target.cards()
    direct = target.hardware.peer_to_peer(data.index, model.index)
    if direct is None:
        return "way unknown"
    return "peer to peer" if direct else "through the host"


def prove_limits(target: Target) -> str:
    """An allocation past a device's limit fails, and the other device does not notice."""
    plan = target.configure()
    roles: tuple[tuple[RoleName, RoleName], ...] = (("data", "model"), ("model", "data"))
    for role, other in roles:
        before = read_role(plan, other, target.hardware).used_mb
        if _can_allocate(plan, role):
            raise DeviceError(
                f"The {role} device gave {PAST_LIMIT_MB} MB more than its limit of "
                f"{plan.limit_mb(role)} MB.",
                "check that nothing set up this process's GPUs before MyXTTS did",
            )
        grown = read_role(plan, other, target.hardware).used_mb - before
        if abs(grown) > NOTICED_MB:
            raise DeviceError(
                f"The {other} device's memory changed by {grown:.0f} MB when the {role} device "
                "ran out of its own.",
                "run again with --debug and report what it prints",
            )
    touch_devices(plan)  # both still work
    return f"{plan.data_limit_mb} and {plan.model_limit_mb} MB hold, each by itself"


def _can_allocate(plan: DevicePlan, role: RoleName) -> bool:
    import tensorflow as tf

    limit_mb = plan.limit_mb(role)
    assert limit_mb is not None, "limits are proved on isolated devices"
    try:
        with tf.device(plan.device(role)):
            block: Any = tf.zeros([(limit_mb + PAST_LIMIT_MB) * MB // 4])
        return float(block[-1]) == 0.0  # waits until it is really there
    except tf.errors.ResourceExhaustedError:
        return False
