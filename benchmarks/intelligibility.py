"""Are the words understood that a demo run speaks? A closed-set test, one row a seed.

    python -m benchmarks.intelligibility RUN_DIR

Each seed draws new sentences of trained words and as many of words never heard in training, none
of them in the corpus. The corpus's voices speak them in turn, cloned from a few held-out clips.
A score is the share of words that pocketsphinx hears in their places, out of 32 a place:

    new sentences    trained words in new combinations
    unseen words     words that training never said
    original audio   the same sentences from espeak-ng in the same voice: what the judge can reach
    wrong sentence   the run's audio judged against the next sentence of its list: what luck gives

A bar is missed if the mean over the seeds misses it; any missed bar gives exit code 1. Where the
extra `judges` is installed two lines tell how natural a few of the sentences sound (DNSMOS, 1 to
5), and espeak-ng's recordings of them.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from myxtts.corpora.demo import (
    DEMO_VOICES,
    NEW_SENTENCES_MANIFEST,
    NEW_WORDS_MANIFEST,
    TRAIN_MANIFEST,
    UNSEEN_TESTS_MANIFEST,
    DemoVoice,
    speak_clip,
)
from myxtts.corpora.demo_sentences import HELD_OUT_SLOTS, SLOTS, draw_slot_sentences
from myxtts.data.manifests import read_manifest
from myxtts.errors import DataError, MyXTTSError
from myxtts.evaluation.recognition import ClosedSetRecogniser
from myxtts.features.audio import SAMPLE_RATE

NEW, UNSEEN, ORIGINAL, WRONG = "new sentences", "unseen words", "original audio", "wrong sentence"
BARS = {NEW: (">=", 0.90), UNSEEN: (">=", 0.80), ORIGINAL: (">=", 0.95), WRONG: ("<=", 0.10)}
NUM_REFERENCES = 3  # the shortest clip of the corpus lasts a second


class Speaker(Protocol):
    """What is judged: `myxtts.inference.synthesizer.Synthesizer`, or a stand-in."""

    sample_rate: int

    def speak(
        self, texts: list[str], *, references: list[Path], language: str, seed: int
    ) -> list[np.ndarray]:
        """Speak each text in the voice of the references."""


@dataclass(frozen=True)
class Corpus:
    """What a corpus folder says of itself; texts are those of all its lists."""

    texts: frozenset[str]
    voices: dict[str, DemoVoice]
    references: dict[str, list[Path]]  # held-out clips of each voice


@dataclass(frozen=True)
class Score:
    """One audio judged against one sentence."""

    column: str
    voice: str
    value: float


def read_corpus(folder: Path) -> Corpus:
    if (folder / UNSEEN_TESTS_MANIFEST).exists():
        raise DataError(
            f"{folder} holds many voices, most of which the recogniser does not read well.",
            "python -m benchmarks.voices, which judges words on those it does read",
        )
    manifests = [
        read_manifest(folder / name)
        for name in (TRAIN_MANIFEST, NEW_SENTENCES_MANIFEST, NEW_WORDS_MANIFEST)
    ]
    known = {voice.name: voice for voice in DEMO_VOICES}
    speakers = sorted({clip.speaker for manifest in manifests for clip in manifest})
    if unknown := [name for name in speakers if name not in known]:
        raise DataError(
            f"espeak-ng cannot repeat the voices {', '.join(unknown)} of {folder}.",
            f"a demo corpus with voices among {', '.join(known)}",
        )
    references: dict[str, list[Path]] = {name: [] for name in speakers}
    for manifest in manifests[1:]:
        for clip in manifest:
            references[clip.speaker].append(manifest.folder / clip.audio)
    if silent := [name for name, paths in references.items() if not paths]:
        raise DataError(
            f"The corpus {folder} has no held-out clips of {', '.join(silent)}.",
            "a demo corpus with more held-out clips",
        )
    texts = frozenset(clip.text for manifest in manifests for clip in manifest)
    return Corpus(texts, {name: known[name] for name in speakers}, references)


def make_recogniser() -> ClosedSetRecogniser:
    return ClosedSetRecogniser([SLOTS[slot] + HELD_OUT_SLOTS[slot] for slot in SLOTS])


def measure_seed(
    speaker: Speaker,
    corpus: Corpus,
    recogniser: ClosedSetRecogniser,
    *,
    num_sentences: int,
    seed: int,
) -> list[Score]:
    """Speak and judge the sentences of one seed."""
    rng = random.Random(seed)
    references = {
        name: rng.sample(paths, min(NUM_REFERENCES, len(paths)))
        for name, paths in corpus.references.items()
    }
    names = list(corpus.voices)
    scores = []
    for column, slots in ((NEW, SLOTS), (UNSEEN, HELD_OUT_SLOTS)):
        texts = draw_slot_sentences(slots, num_sentences=num_sentences, rng=rng, avoid=corpus.texts)
        for first, name in enumerate(names):
            spoken = range(first, num_sentences, len(names))
            if not spoken:
                continue
            waves = speaker.speak(
                [texts[i] for i in spoken], references=references[name], language="en", seed=seed
            )
            for i, wave in zip(spoken, waves, strict=True):
                # Words are dealt from a deck, so neighbours in the list seldom share one.
                text, other = texts[i], texts[(i + 1) % num_sentences]
                heard = recogniser.words(wave, speaker.sample_rate)
                scores.append(Score(column, name, recogniser.compare(heard, text)))
                scores.append(Score(WRONG, name, recogniser.compare(heard, other)))
                original = recogniser.score(
                    *speak_original(texts[i], corpus.voices[name]), texts[i]
                )
                scores.append(Score(ORIGINAL, name, original))
    return scores


def speak_original(text: str, voice: DemoVoice) -> tuple[np.ndarray, int]:
    return speak_clip(text, voice), SAMPLE_RATE


def means(scores: Iterable[Score], belongs: Callable[[Score], bool]) -> dict[str, float]:
    """The mean of each column over the scores that belong."""
    chosen = [score for score in scores if belongs(score)]
    return {
        column: statistics.fmean([s.value for s in chosen if s.column == column] or [float("nan")])
        for column in BARS
    }


def meets(column: str, value: float) -> bool:
    side, bar = BARS[column]
    return value >= bar if side == ">=" else value <= bar


def print_row(name: str, cells: Iterable[str]) -> None:
    print(f"{name:10s}" + "".join(f"{cell:>16s}" for cell in cells), flush=True)


def run(speaker: Speaker, corpus: Corpus, *, num_sentences: int, num_seeds: int) -> bool:
    """Print the table; whether every bar is met."""
    recogniser = make_recogniser()
    print_row("", BARS)
    by_seed: list[dict[str, float]] = []
    scores: list[Score] = []
    for seed in range(num_seeds):
        drawn = measure_seed(speaker, corpus, recogniser, num_sentences=num_sentences, seed=seed)
        by_seed.append(means(drawn, lambda _: True))
        print_row(f"seed {seed}", (f"{value:.3f}" for value in by_seed[-1].values()))
        scores += drawn
    for name in corpus.voices:
        row = means(scores, lambda score, name=name: score.voice == name)  # type: ignore[misc]
        print_row(f"voice {name}", (f"{value:.3f}" for value in row.values()))
    overall = {column: statistics.fmean(row[column] for row in by_seed) for column in BARS}
    print_row("mean", (f"{value:.3f}" for value in overall.values()))
    print_row("bar", (f"{side} {bar:.2f}" for side, bar in BARS.values()))
    met = {column: meets(column, value) for column, value in overall.items()}
    print_row("", ("ok" if good else "MISSED" for good in met.values()))
    return all(met.values())


def tell_naturalness(speaker: Speaker, corpus: Corpus) -> None:
    """How natural new sentences sound, and the recordings of them."""
    from benchmarks.judges import make_mos

    judge = make_mos()
    if judge is None:
        return
    texts = draw_slot_sentences(SLOTS, num_sentences=4, rng=random.Random(0), avoid=corpus.texts)
    said, recorded = [], []
    for name, references in corpus.references.items():
        chosen = references[:NUM_REFERENCES]
        said += speaker.speak(texts, references=chosen, language="en", seed=0)
        recorded += [speak_original(text, corpus.voices[name])[0] / 32768 for text in texts]
    for who, waves in (("said", said), ("recorded", recorded)):
        judged = [judge(wave) for wave in waves]
        means = {name: statistics.fmean(each[name] for each in judged) for name in judged[0]}
        print(f"{who}: " + ", ".join(f"{name} {value:.2f}" for name, value in means.items()))


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", type=Path, help="run folder of a demo")
    parser.add_argument("--corpus", type=Path, help="demo corpus (default: RUN_DIR/../corpus)")
    parser.add_argument("--sentences", type=positive, default=40, help="of each kind, for a seed")
    parser.add_argument("--seeds", type=positive, default=3, help="how many")
    options = parser.parse_args(arguments)
    try:
        corpus = read_corpus(options.corpus or options.run_dir.resolve().parent / "corpus")
        from myxtts.inference.synthesizer import Synthesizer  # TensorFlow starts on this line

        speaker = Synthesizer.load(options.run_dir)
        passed = run(speaker, corpus, num_sentences=options.sentences, num_seeds=options.seeds)
        tell_naturalness(speaker, corpus)
    except MyXTTSError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
