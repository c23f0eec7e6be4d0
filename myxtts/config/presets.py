"""What `--model-size` and `--optimization-level` stand for, in one table each."""

from __future__ import annotations

from typing import Any, Final


def _widths(*, encoder: tuple[int, int], decoder: tuple[int, int], voice: int) -> dict[str, int]:
    return {
        "encoder_dim": encoder[0],
        "encoder_blocks": encoder[1],
        "decoder_dim": decoder[0],
        "decoder_blocks": decoder[1],
        "voice_dim": voice,
    }


MODEL_SIZES: Final[dict[str, dict[str, Any]]] = {
    "tiny": _widths(encoder=(128, 4), decoder=(160, 5), voice=96),
    "small": _widths(encoder=(208, 6), decoder=(304, 6), voice=96),
    "normal": _widths(encoder=(352, 8), decoder=(480, 8), voice=192),
    "big": _widths(encoder=(576, 8), decoder=(800, 10), voice=256),
}

OPTIMIZATION_LEVELS: Final[dict[str, dict[str, Any]]] = {
    "basic": {"xla": False, "mixed_precision": False, "xla_process": "off"},
    "enhanced": {"xla": True, "mixed_precision": True, "xla_process": "auto"},
    "experimental": {"xla": True, "mixed_precision": True, "xla_process": "on"},
}
