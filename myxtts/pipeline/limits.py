"""How much memory each role may take: recommended settings by card, and checks of limits."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.errors import DeviceError
from myxtts.pipeline.hardware import Card

CUDA_CONTEXT_MB = 512  # the driver's own share of a card, about 500 MB, outside every limit
SMALLEST_LIMIT_MB = 256  # below this not even the kernels' workspaces fit


@dataclass(frozen=True)
class CardSettings:
    """What to start from on cards of one size."""

    card_gb: int
    batch_size: int
    data_limit_mb: int
    model_limit_mb: int
    prefetch_buffer_size: int
    pipeline_buffer_size: int


RECOMMENDED = (
    CardSettings(12, 8, 4096, 8192, 6, 50),
    CardSettings(16, 12, 6144, 10240, 4, 50),
    CardSettings(24, 16, 8192, 16384, 4, 100),
)


def recommended_settings(card_mb: int) -> CardSettings:
    """The row for a card of this size; smaller and larger cards scale the nearest row.

    A "16 GB" card reports as little as 15 GB, so a row is reached a little before its name.
    """
    reached = [row for row in RECOMMENDED if card_mb >= row.card_gb * 1024 * 0.92]
    row = reached[-1] if reached else RECOMMENDED[0]
    share = card_mb / (row.card_gb * 1024)
    if reached and share < 1.5:
        return row
    return CardSettings(
        card_gb=round(card_mb / 1024),
        batch_size=max(1, int(row.batch_size * share)),
        data_limit_mb=_round_down(row.data_limit_mb * share),
        model_limit_mb=_round_down(row.model_limit_mb * share),
        prefetch_buffer_size=row.prefetch_buffer_size if reached else 2,
        pipeline_buffer_size=row.pipeline_buffer_size if reached else 25,
    )


def plan_limits(
    data_card: Card,
    model_card: Card,
    *,
    data_mb: int | None = None,
    model_mb: int | None = None,
) -> tuple[int, int]:
    """Limits (data, model) in MB for these cards as they are now; a limit given is kept.

    On a split card both roles share what is there, or the one takes what the other leaves.
    """
    data = recommended_settings(data_card.total_mb).data_limit_mb
    model = recommended_settings(model_card.total_mb).model_limit_mb
    data_room, model_room = _usable_mb(data_card), _usable_mb(model_card)
    if data_card.index == model_card.index:
        share = data_room / (data + model)
        data_room = int(data * share) if model_mb is None else data_room - model_mb
        model_room = int(model * share) if data_mb is None else model_room - data_mb
    return (
        _round_down(min(data, data_room)) if data_mb is None else data_mb,
        _round_down(min(model, model_room)) if model_mb is None else model_mb,
    )


def check_limits(data_card: Card, model_card: Card, *, data_mb: int, model_mb: int) -> None:
    """Refuse limits that the cards cannot hold, before anything is allocated."""
    planned = plan_limits(data_card, model_card)
    if min(planned) < SMALLEST_LIMIT_MB:
        raise DeviceError(
            f"Too little memory is free: {data_card.free_mb} MB on GPU {data_card.index}, "
            f"{model_card.free_mb} MB on GPU {model_card.index}.",
            "end other programs on the cards (nvidia-smi lists them), or use other cards",
        )
    fitting = "data {} MB, model {} MB".format(*planned)
    for role, limit in (("data", data_mb), ("model", model_mb)):
        if limit < SMALLEST_LIMIT_MB:
            raise DeviceError(
                f"The {role} GPU's memory limit is {limit} MB; it must be a whole number of MB, "
                f"{SMALLEST_LIMIT_MB} or more.",
                f"give a larger --{role}-gpu-memory, or leave both out to get what fits: {fitting}",
            )
    if data_card.index == model_card.index:
        wanted = {data_card: data_mb + model_mb}
    else:
        wanted = {data_card: data_mb, model_card: model_mb}
    for card, limit in wanted.items():
        needed = f"{limit} MB asked for and {CUDA_CONTEXT_MB} MB for the CUDA context"
        if limit + CUDA_CONTEXT_MB > card.total_mb:
            raise DeviceError(
                f"The memory limits do not fit GPU {card.index} ({card.name}): it has "
                f"{card.total_mb} MB, needed are {needed}.",
                f"lower the limits; what fits here: {fitting}",
            )
        if limit + CUDA_CONTEXT_MB > card.free_mb:
            raise DeviceError(
                f"GPU {card.index} ({card.name}) has only {card.free_mb} of its {card.total_mb} MB "
                f"free; needed are {needed}.",
                f"end other programs on it (nvidia-smi lists them), or use what fits: {fitting}",
            )


def _usable_mb(card: Card) -> int:
    return min(card.total_mb, card.free_mb) - CUDA_CONTEXT_MB


def _round_down(megabytes: float) -> int:
    return max(0, int(megabytes) // 64 * 64)
