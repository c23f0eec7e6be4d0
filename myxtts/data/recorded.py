"""How much was recorded, before anything else is known of the data; loads no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable

from myxtts.config.config import DataConfig
from myxtts.data.clips import check_clips
from myxtts.data.list_lines import DELIMITERS
from myxtts.data.manifests import read_manifest
from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.text.languages import check_language


def recorded_minutes(
    config: DataConfig,
    *,
    on_list: Callable[[int], None] = lambda clips: None,
    on_clip: Callable[[], None] = lambda: None,
) -> float:
    """Minutes of the training clips that can be used, as far as their sound tells.

    What is found of each clip is kept beside the data, so that training does not look again.
    """
    assert config.train_data is not None
    delimiter = None if config.delimiter is None else DELIMITERS[config.delimiter]
    manifest = read_manifest(
        config.train_data, delimiter=delimiter, language=check_language(config.language)
    )
    longest = config.max_mel_frames * HOP / SAMPLE_RATE
    on_list(len(manifest))
    verdicts = check_clips(manifest, max_seconds=longest, on_clip=on_clip)
    return sum(each.frames / each.sample_rate for each in verdicts if each.kept) / 60.0
