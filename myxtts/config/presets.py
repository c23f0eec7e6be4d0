"""What `--model-size` and `--optimization-level` stand for, in one table each."""

from __future__ import annotations

from typing import Any, Final

MODEL_SIZES: Final[dict[str, dict[str, Any]]] = {
    "tiny": {"encoder_dim": 128, "encoder_blocks": 4, "decoder_dim": 160, "decoder_blocks": 5},
    "small": {"encoder_dim": 224, "encoder_blocks": 6, "decoder_dim": 320, "decoder_blocks": 6},
    "normal": {"encoder_dim": 384, "encoder_blocks": 8, "decoder_dim": 512, "decoder_blocks": 8},
    "big": {"encoder_dim": 640, "encoder_blocks": 8, "decoder_dim": 864, "decoder_blocks": 10},
}

OPTIMIZATION_LEVELS: Final[dict[str, dict[str, Any]]] = {
    "basic": {"xla": False, "mixed_precision": False, "xla_process": False},
    "enhanced": {"xla": True, "mixed_precision": True, "xla_process": False},
    "experimental": {"xla": True, "mixed_precision": True, "xla_process": True},
}
