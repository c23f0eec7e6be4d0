"""The settings of the network."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import PositiveInt

from myxtts.config.fields import setting
from myxtts.config.presets import MODEL_SIZES
from myxtts.config.settings import PresetSettings

ModelSize = Literal["tiny", "small", "normal", "big"]


class ModelConfig(PresetSettings):
    """The network. `size` sets the widths; a width given explicitly wins."""

    size: ModelSize = setting(
        "normal",
        "Size of the network; sets its widths, and a width given explicitly wins.",
        fa="اندازهٔ شبکه؛ پهناهای آن را تعیین می‌کند و پهنایی که صریح داده شود مقدم است.",
        flag="--model-size",
        group="Model",
    )
    encoder_dim: PositiveInt = setting(
        352,
        "Width of the text encoder.",
        fa="پهنای رمزگذار متن.",
        le=4096,
    )
    encoder_blocks: PositiveInt = setting(
        8,
        "Blocks of the text encoder.",
        fa="تعداد بلوک‌های رمزگذار متن.",
        le=64,
    )
    decoder_dim: PositiveInt = setting(
        480,
        "Width of the decoder.",
        fa="پهنای رمزگشا.",
        le=4096,
    )
    decoder_blocks: PositiveInt = setting(
        8,
        "Blocks of the decoder.",
        fa="تعداد بلوک‌های رمزگشا.",
        le=64,
    )
    voice_dim: PositiveInt = setting(
        192,
        "Numbers that describe the voice heard in the reference audio.",
        fa="تعداد عددهایی که صدای شنیده‌شده در صدای مرجع را توصیف می‌کنند.",
        le=4096,
    )
    decoder_head: Literal["regression", "flow"] = setting(
        "regression",
        "`regression` learns quickly and suits regular voices; `flow` (flow matching) is "
        "meant for natural speech.",
        fa="`regression` زود یاد می‌گیرد و برای صداهای یکنواخت مناسب است؛ `flow` (flow "
        "matching) برای گفتار طبیعی است.",
    )
    vocab_size: PositiveInt = setting(
        249,
        "Symbols the tokenizer knows. A run takes its tokenizer's.",
        fa="تعداد نمادهایی که توکنایزر می‌شناسد. هر اجرا آن را از توکنایزر خودش می‌گیرد.",
        le=100_000,
    )

    @classmethod
    def preset(cls) -> tuple[str, dict[str, dict[str, Any]]]:
        """`size` names the preset."""
        return "size", MODEL_SIZES
