"""From data settings to what training needs: the clips, the tokenizer and the plan of batches."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.config.config import DataConfig
from myxtts.data.batching import BatchPlan
from myxtts.data.buckets import choose_buckets
from myxtts.data.clips import check_clips
from myxtts.data.list_lines import DELIMITERS
from myxtts.data.manifests import Manifest, read_manifest
from myxtts.data.table import ClipTable, judge_texts, make_table
from myxtts.data.verdicts import Verdict
from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.text.languages import LANGUAGES, check_language
from myxtts.text.lexicon import Lexicon
from myxtts.text.scripts import check_script
from myxtts.text.tokenizers import Tokenizer, make_tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedData:
    """A data folder, judged and read: every listed clip has a verdict, the kept ones a row."""

    manifest: Manifest
    verdicts: list[Verdict]
    tokens: list[Any]
    tokenizer: Tokenizer

    def table(self) -> ClipTable:
        """The clips that are kept; an error if there is none."""
        return make_table(self.manifest, self.verdicts, self.tokens)


def prepare_data(
    source: str | Path,
    config: DataConfig,
    *,
    tokenizer: Tokenizer | None = None,
    on_list: Callable[[int], None] = lambda clips: None,
    on_clip: Callable[[], None] = lambda: None,
) -> PreparedData:
    """Read a folder's list, listen to every clip, read every text; every drop has its reason."""
    manifest = read_list(source, config)
    if manifest.form:
        log.info("%s is read as %s", source, manifest.form)
    _check_script_of_default(manifest, check_language(config.language))
    verdicts = _listen(manifest, config, on_list, on_clip)
    if tokenizer is None:
        tokenizer = make_tokenizer(
            config.tokenizer,
            texts=_readable_texts(manifest, verdicts),
            lexicon=None if config.lexicon is None else Lexicon.load(config.lexicon),
        )
    judged, tokens = judge_texts(
        manifest, verdicts, tokenizer, max_text_length=config.max_text_length
    )
    return PreparedData(manifest, judged, tokens, tokenizer)


def what_is_recorded(
    config: DataConfig,
    *,
    on_list: Callable[[int], None] = lambda clips: None,
    on_clip: Callable[[], None] = lambda: None,
) -> tuple[float, int]:
    """Minutes of the training clips that can be used, as far as their sound tells, and how many.

    What is found of each clip is kept beside the data, so that training does not look again.
    """
    assert config.train_data is not None
    verdicts = _listen(read_list(config.train_data, config), config, on_list, on_clip)
    kept = [each.frames / each.sample_rate for each in verdicts if each.kept]
    return sum(kept) / 60.0, len(kept)


def read_list(source: str | Path, config: DataConfig) -> Manifest:
    """The clips that a folder, or a list in it, names, read as the settings say."""
    delimiter = None if config.delimiter is None else DELIMITERS[config.delimiter]
    return read_manifest(source, delimiter=delimiter, language=check_language(config.language))


def _listen(
    manifest: Manifest,
    config: DataConfig,
    on_list: Callable[[int], None],
    on_clip: Callable[[], None],
) -> list[Verdict]:
    on_list(len(manifest))
    longest = config.max_mel_frames * HOP / SAMPLE_RATE
    return check_clips(manifest, max_seconds=longest, on_clip=on_clip)


def plan_batches(
    table: ClipTable, config: DataConfig, *, seed: int = 0, steps: int | None = None
) -> BatchPlan:
    """The first epoch's plan; `steps`, if known, weighs compile time against padding."""
    buckets = choose_buckets(
        table.frames,
        table.token_lengths,
        max_buckets=1 if config.static_shapes == "one" else config.max_buckets,
        steps=steps,
        batch_size=None if config.batch_frames else config.batch_size,
        batch_frames=config.batch_frames,
    )
    groups = {"speakers": table.speakers, "languages": table.languages, None: None}
    return BatchPlan(
        table.frames,
        table.token_lengths,
        buckets=buckets,
        batch_size=config.batch_size,
        batch_frames=config.batch_frames,
        seed=seed,
        groups=groups[config.balance],
        balance=config.balance is not None,
    )


def _check_script_of_default(manifest: Manifest, language: str) -> None:
    """Texts read in a language that nobody named are dropped one by one, for reasons that mislead.

    What a list says of its own rows is judged row by row.
    """
    rows = zip(manifest.texts, manifest.languages, strict=True)
    check_script([text for text, own in rows if own == language], language)


def _readable_texts(manifest: Manifest, verdicts: list[Verdict]) -> list[tuple[str, str]]:
    """Kept texts whose language is known: only these may teach a tokenizer its symbols."""
    listed = zip(manifest.texts, manifest.languages, verdicts, strict=True)
    return [(text, tag) for text, tag, verdict in listed if verdict.kept and tag in LANGUAGES]
