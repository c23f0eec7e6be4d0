"""Which recordings judge a voice: clips it was not trained on, and references beside them.

Needs no TensorFlow, unless a run held its validation clips out by itself.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.config.config import DataConfig, XTTSConfig, load_config
from myxtts.corpora.demo import (
    NEW_SENTENCES_MANIFEST,
    NEW_WORDS_MANIFEST,
    UNSEEN_REFERENCES_MANIFEST,
    UNSEEN_TESTS_MANIFEST,
)
from myxtts.data.prepare import PreparedData, prepare_data
from myxtts.errors import ConfigError, DataError
from myxtts.inference.references import LEAST_SECONDS
from myxtts.inference.script import write_utterance
from myxtts.inference.voice_files import VoiceFiles

NUM_REFERENCES = 3  # recordings of each speaker, or more if they are short
MARGIN = 1.25  # of the seconds a reference needs: silence in it does not count
MAX_VOICES = 100  # to compare with
DEMO_LISTS = {
    NEW_SENTENCES_MANIFEST: "new sentences",
    NEW_WORDS_MANIFEST: "new words",
    UNSEEN_TESTS_MANIFEST: "unseen voices",
}
GIVEN = "the clips of {}"
VALIDATION = "the run's validation clips, {}"
HELD_OUT_LISTS = "what the corpus {} holds out"
HELD_OUT_SHARE = "the clips of {} that the run held out"
NOTHING_TO_SAY = "nothing to say"
NO_REFERENCE = "no other recording of the speaker"


@dataclass(frozen=True)
class SpokenClip:
    """A recording and what is said in it."""

    path: Path
    text: str
    speaker: str
    language: str
    seconds: float
    source: str = ""  # the list it stands in


class Source(NamedTuple):
    """Where clips come from: words with a place for the folder, and the folder."""

    words: str
    folder: Path

    def __str__(self) -> str:
        return self.words.format(self.folder)


@dataclass(frozen=True)
class HeldOut:
    """Clips to speak, and recordings of every voice that are not among them."""

    clips: tuple[SpokenClip, ...]
    references: Mapping[str, tuple[Path, ...]]
    source: Source
    num_listed: int  # held-out clips, of which some were chosen
    skipped: Counter[str] = field(default_factory=Counter)  # by reason


@dataclass(frozen=True)
class _Lists:
    """Everything known about a voice's recordings, before clips are chosen."""

    source: Source
    held_out: list[SpokenClip]
    trained: list[SpokenClip] = field(default_factory=list)
    references: list[SpokenClip] = field(default_factory=list)  # held out, made for nothing else


@dataclass(frozen=True)
class _Reader:
    """Reads lists as this voice does, and counts what of the held-out ones it cannot use."""

    voice: VoiceFiles
    config: DataConfig
    on_list: Callable[[int], None]
    on_clip: Callable[[], None]
    skipped: Counter[str] = field(default_factory=Counter)

    def prepare(self, source: Path) -> PreparedData:
        return prepare_data(
            source,
            self.config,
            tokenizer=self.voice.tokenizer,
            on_list=self.on_list,
            on_clip=self.on_clip,
        )

    def held_out(self, source: Path, name: str = "") -> list[SpokenClip]:
        return self.usable(self.prepare(source), name=name or source.stem, skipped=self.skipped)

    def usable(
        self, prepared: PreparedData, *, name: str = "", skipped: Counter[str] | None = None
    ) -> list[SpokenClip]:
        """The clips that have something to say."""
        skipped = Counter() if skipped is None else skipped
        clips = []
        for row, verdict in zip(prepared.manifest, prepared.verdicts, strict=True):
            if not verdict.kept:
                skipped[verdict.reason] += 1
                continue
            try:
                write_utterance(
                    row.text,
                    tokenizer=self.voice.tokenizer,
                    language=row.language,
                    max_text_length=self.voice.max_text_length,
                )
            except DataError:
                skipped[NOTHING_TO_SAY] += 1
                continue
            path = prepared.manifest.folder / verdict.path
            clips.append(
                SpokenClip(path, row.text, row.speaker, row.language, verdict.seconds, name)
            )
        return clips


def find_held_out(
    model: Path,
    voice: VoiceFiles,
    *,
    data: Path | None = None,
    num_clips: int = 40,
    seed: int = 0,
    on_list: Callable[[int], None] = lambda clips: None,
    on_clip: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Choose clips of `data`, or of what the run itself held out.

    Voices and lists are taken in turn, so that few clips still hold all of them.
    """
    if data is not None:
        config = DataConfig(language=voice.language, max_text_length=voice.max_text_length)
        reader = _Reader(voice, config, on_list, on_clip)
        lists = _Lists(Source(GIVEN, data), reader.held_out(data))
    else:
        run = _run_of(model)
        settings = load_config(run / "config.yaml", {})
        reader = _Reader(voice, settings.data, on_list, on_clip)
        lists = _lists_of_run(run, settings, reader)
    rng = random.Random(seed)  # noqa: S311 - a choice, not a secret
    return _choose(lists, reader.skipped, num_clips=num_clips, rng=rng)


def _run_of(model: Path) -> Path:
    """The run folder that a model is, or whose checkpoint it is."""
    folder = model.expanduser().resolve()
    for candidate in (folder, folder.parent.parent):
        if (candidate / "config.yaml").is_file():
            return candidate
    raise ConfigError(
        f"{model} does not say which recordings it was trained on.",
        "--data DIR with recordings that it was not trained on, or the run folder itself",
    )


def _lists_of_run(run: Path, config: XTTSConfig, reader: _Reader) -> _Lists:
    if config.data.train_data is None:
        raise DataError(
            f"The run {run} does not say which recordings it was trained on.", "--data DIR"
        )
    train = _find_data(run, config, config.data.train_data)
    prepared = reader.prepare(train)
    trained = reader.usable(prepared)
    if config.data.val_data is not None:
        folder = _find_data(run, config, config.data.val_data)
        return _Lists(Source(VALIDATION, folder), reader.held_out(folder), trained)
    demo_lists = {name: train / path for path, name in DEMO_LISTS.items()}
    if any(path.is_file() for path in demo_lists.values()):
        held_out = [
            clip
            for name, path in demo_lists.items()
            if path.is_file()
            for clip in reader.held_out(path, name)
        ]
        made_for_it = train / UNSEEN_REFERENCES_MANIFEST
        references = reader.held_out(made_for_it) if made_for_it.is_file() else []
        return _Lists(Source(HELD_OUT_LISTS, train), held_out, trained, references)
    from myxtts.data.training_data import hold_out  # TensorFlow starts on this line

    table = prepared.table()
    chosen = {(table.folder / table.paths[row]).resolve() for row in hold_out(table)[1].tolist()}
    return _Lists(
        Source(HELD_OUT_SHARE, train),
        [clip for clip in trained if clip.path.resolve() in chosen],
        [clip for clip in trained if clip.path.resolve() not in chosen],
    )


def _find_data(run: Path, config: XTTSConfig, folder: Path) -> Path:
    """A folder that the settings name from where the run was started, which may be elsewhere."""
    folder = folder.expanduser()
    started_in = run
    for part in reversed(config.training.checkpoint_dir.parts):
        started_in = started_in.parent if started_in.name == part else started_in
    for candidate in (folder, started_in / folder):
        if candidate.exists():
            return candidate
    raise DataError(
        f"The recordings {folder}, which the run {run} was trained on, are not there any more.",
        "--data DIR with recordings that it was not trained on",
    )


def _choose(lists: _Lists, skipped: Counter[str], *, num_clips: int, rng: random.Random) -> HeldOut:
    held_out, trained, made_for_it = (
        _by_speaker(clips, rng) for clips in (lists.held_out, lists.trained, lists.references)
    )
    num_listed = len(lists.held_out) + sum(skipped.values())
    references: dict[str, tuple[Path, ...]] = {}
    left: dict[tuple[str, str], list[SpokenClip]] = defaultdict(list)
    for speaker, clips in held_out.items():
        # Never more than half of what may be spoken; what was trained on is a reference, too.
        pool = (made_for_it.get(speaker, ()), clips[: len(clips) // 2], trained.get(speaker, ()))
        taken = _take_references(list(itertools.chain(*pool)))
        if not taken:
            skipped[NO_REFERENCE] += len(clips)
            continue
        references[speaker] = tuple(clip.path for clip in taken)
        for clip in clips:
            if clip not in taken:
                left[clip.source, speaker].append(clip)
    chosen: list[SpokenClip] = []
    turns = list(left.values())
    while len(chosen) < num_clips and any(turns):
        chosen += [clips.pop() for clips in turns if clips][: num_clips - len(chosen)]
    if not chosen:
        reasons = ", ".join(f"{count} × {reason}" for reason, count in skipped.most_common())
        raise DataError(
            f"There is no held-out clip to judge by ({lists.source}; {reasons or 'none listed'}).",
            "--data DIR with recordings it was not trained on: three or more of each speaker, and "
            "a list metadata.csv",
        )
    for speaker, clips in trained.items():  # voices that held nothing out can still be mistaken
        if speaker not in references and len(references) < MAX_VOICES:
            taken = _take_references(clips)
            references |= {speaker: tuple(clip.path for clip in taken)} if taken else {}
    return HeldOut(tuple(chosen), references, lists.source, num_listed, skipped)


def _by_speaker(clips: Iterable[SpokenClip], rng: random.Random) -> dict[str, list[SpokenClip]]:
    """Each speaker's clips in a drawn order."""
    grouped: dict[str, list[SpokenClip]] = defaultdict(list)
    for clip in clips:
        grouped[clip.speaker].append(clip)
    for group in grouped.values():
        rng.shuffle(group)
    return dict(grouped)


def _take_references(pool: Sequence[SpokenClip]) -> list[SpokenClip]:
    """The first clips that are many and long enough; none if all of them are too short."""
    seconds = np.cumsum([clip.seconds for clip in pool])
    enough = np.flatnonzero(seconds >= LEAST_SECONDS * MARGIN)
    return list(pool[: max(NUM_REFERENCES, int(enough[0]) + 1)]) if len(enough) else []
