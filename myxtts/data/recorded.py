"""How much was recorded, before anything else is known of the data; loads no TensorFlow."""

from __future__ import annotations

from myxtts.config.config import DataConfig
from myxtts.data.clips import check_clips
from myxtts.data.list_lines import DELIMITERS
from myxtts.data.manifests import read_manifest
from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.text.languages import check_language


def recorded_minutes(config: DataConfig) -> float:
    """Minutes of the training clips that can be used, as far as their sound tells.

    What is found of each clip is kept beside the data, so that training does not look again.
    """
    assert config.train_data is not None
    delimiter = None if config.delimiter is None else DELIMITERS[config.delimiter]
    manifest = read_manifest(
        config.train_data, delimiter=delimiter, language=check_language(config.language)
    )
    longest = config.max_mel_frames * HOP / SAMPLE_RATE
    kept = [v for v in check_clips(manifest, max_seconds=longest) if v.kept]
    return sum(verdict.frames / verdict.sample_rate for verdict in kept) / 60.0
