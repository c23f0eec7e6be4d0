"""Does a run sound like whom it clones? Voice match on trained and unseen voices, a table a seed.

    python -m benchmarks.voices RUN_DIR [RUN_DIR_OF_ANOTHER_SEED ...]

For runs of `myxtts demo --voices many`. Several runs are measured one after the other; one run is
measured with two draws of voices, references and sentences. Each voice is cloned from three
recordings and says new sentences. What it says is compared with espeak-ng's own recordings of the
same sentences in every candidate voice, by median pitch and average spectrum (nothing of the model
takes part in that), and the nearest candidate should be the voice that was cloned:

    synthesis        what the run says, sentence by sentence
    vocoder copy     the original recordings through mel and vocoder: what the vocoder leaves
    other sentences  the reference recordings themselves, which say something else: how far natural
                     speech of a voice lies from natural speech of the same voice
    pitch error      between the median pitches of what is said and of the original, in the median

Words are a closed-set test (see benchmarks.intelligibility) in those of the voices that the
recogniser reads: with original recordings it hears at least 90 % of their words.

With `pip install resemblyzer webrtcvad-wheels`, a speaker embedding that learned from human voices
and brings its weights along, the ranking by its cosine similarity is shown beside, without a bar.

A missed bar in any table gives exit code 1.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.intelligibility import make_recogniser
from benchmarks.judges import Judge, Wave, make_judges
from myxtts.corpora.demo import (
    NEW_SENTENCES_MANIFEST,
    NEW_WORDS_MANIFEST,
    TRAIN_MANIFEST,
    UNSEEN_REFERENCES_MANIFEST,
    UNSEEN_TESTS_MANIFEST,
    DemoVoice,
    speak_clip,
)
from myxtts.corpora.demo_sentences import HELD_OUT_SLOTS, SLOTS, draw_slot_sentences
from myxtts.corpora.many_voices import trained_voices, unseen_voices
from myxtts.data.manifests import read_manifest
from myxtts.errors import DataError, MyXTTSError
from myxtts.evaluation.recognition import ClosedSetRecogniser
from myxtts.features.audio import SAMPLE_RATE

TRAINED, UNSEEN = "trained voices", "unseen voices"
NUM_TRAINED = 24  # voices of the training set that are tested; with the unseen all are candidates
NUM_REFERENCES = 3
READABLE = 0.90  # words of original recordings that the recogniser must hear in a voice
NUM_SEEDS = 2  # of a single run

MATCH, COPY, NATURAL = "synthesis", "vocoder copy", "other sentences"
PITCH, WORDS, NEW_WORDS = "pitch error", "trained words", "unseen words"
COLUMNS = (MATCH, COPY, NATURAL, PITCH, WORDS, NEW_WORDS)
ORIGINALS, NUM_READABLE = "original words", "readable voices"
BARS: dict[tuple[str, str], tuple[str, float]] = {
    (TRAINED, MATCH): (">=", 0.90),
    (UNSEEN, MATCH): (">=", 0.75),
    (UNSEEN, PITCH): ("<=", 0.05),
    (TRAINED, WORDS): (">=", 0.90),
    (TRAINED, NEW_WORDS): (">=", 0.80),
    (UNSEEN, WORDS): (">=", 0.80),
    (UNSEEN, NEW_WORDS): (">=", 0.80),
}


@dataclass(frozen=True)
class Corpus:
    """What a corpus of many voices holds for a test."""

    texts: frozenset[str]
    voices: dict[str, dict[str, DemoVoice]]  # by TRAINED and UNSEEN, by name
    references: dict[str, list[Path]]  # never trained on


@dataclass(frozen=True)
class Test:
    """One draw: who speaks, after which recordings, and what."""

    voices: dict[str, list[DemoVoice]]  # by TRAINED and UNSEEN
    references: dict[str, list[Path]]
    sentences: list[str]
    new_word_sentences: list[str]

    @property
    def everyone(self) -> list[DemoVoice]:
        """Who speaks: all are candidates."""
        return [voice for voices in self.voices.values() for voice in voices]


@dataclass
class Results:
    """What one test gave: values by kind of voice and column, and what each voice was taken for."""

    values: dict[tuple[str, str], float] = field(default_factory=dict)
    taken_for: dict[str, list[str]] = field(default_factory=dict)

    def missed(self) -> list[str]:
        """The bars that are missed, in words."""
        return [
            f"{kind}, {column}: {self.values[kind, column]:.3f}, and the bar is {side} {limit}"
            for (kind, column), (side, limit) in BARS.items()
            if not meets(self.values[kind, column], side, limit)
        ]


def meets(value: float, side: str, limit: float) -> bool:
    return value >= limit if side == ">=" else value <= limit


def read_corpus(folder: Path) -> Corpus:
    if not (folder / UNSEEN_TESTS_MANIFEST).exists():
        raise DataError(
            f"{folder} is not a corpus of many voices.",
            "a run of myxtts demo --voices many; benchmarks.intelligibility judges the others",
        )
    manifests = {
        name: read_manifest(folder / name)
        for name in (
            TRAIN_MANIFEST,
            NEW_SENTENCES_MANIFEST,
            NEW_WORDS_MANIFEST,
            UNSEEN_REFERENCES_MANIFEST,
            UNSEEN_TESTS_MANIFEST,
        )
    }
    voices = {
        TRAINED: {voice.name: voice for voice in trained_voices()},
        UNSEEN: {voice.name: voice for voice in unseen_voices()},
    }
    heard = {
        TRAINED: set(manifests[TRAIN_MANIFEST].speakers),
        UNSEEN: set(manifests[UNSEEN_TESTS_MANIFEST].speakers),
    }
    if any(set(voices[kind]) != heard[kind] for kind in voices):
        raise DataError(f"The voices of {folder} are not those of this version.", "a new demo")
    references: dict[str, list[Path]] = {}
    for name in (NEW_SENTENCES_MANIFEST, NEW_WORDS_MANIFEST, UNSEEN_REFERENCES_MANIFEST):
        for clip in manifests[name]:
            path = manifests[name].folder / clip.audio
            references.setdefault(clip.speaker, []).append(path)
    texts = frozenset(text for manifest in manifests.values() for text in manifest.texts)
    return Corpus(texts, voices, references)


def draw_test(corpus: Corpus, *, num_sentences: int, num_references: int, seed: int) -> Test:
    rng = random.Random(seed)
    trained = rng.sample(list(corpus.voices[TRAINED].values()), NUM_TRAINED)
    voices = {TRAINED: trained, UNSEEN: list(corpus.voices[UNSEEN].values())}
    return Test(
        voices,
        references={
            name: rng.sample(paths, min(num_references, len(paths)))
            for name, paths in corpus.references.items()
        },
        sentences=draw_slot_sentences(
            SLOTS, num_sentences=num_sentences, rng=rng, avoid=corpus.texts
        ),
        new_word_sentences=draw_slot_sentences(
            HELD_OUT_SLOTS, num_sentences=num_sentences, rng=rng, avoid=corpus.texts
        ),
    )


def as_wave(samples: np.ndarray) -> Wave:
    return samples.astype(np.float32) / 32768


def original(text: str, voice: DemoVoice) -> Wave:
    return as_wave(speak_clip(text, voice))


def measure(
    synthesizer: Any, test: Test, judges: Mapping[str, Judge], recogniser: ClosedSetRecogniser
) -> dict[str, Results]:
    """The results of each judge; pitch and words stand with the first."""
    from myxtts.data.waves import decode
    from myxtts.evaluation.pitch import analyse, pitch_error

    recordings = {v.name: [original(t, v) for t in test.sentences] for v in test.everyone}
    for judge in judges.values():
        judge.learn(recordings)
    results = {name: Results() for name in judges}
    first = results[next(iter(judges))]
    for kind, voices in test.voices.items():
        waves, copies = {}, {}
        for voice in follow(voices, f"{kind} speak"):
            waves[voice.name] = speak(synthesizer, test.sentences, voice, test)
            copies[voice.name] = [copy(synthesizer, wave) for wave in recordings[voice.name]]
        heard = {v.name: [as_wave(decode(p)) for p in test.references[v.name]] for v in voices}
        for name, judge in judges.items():
            values, taken_for = results[name].values, results[name].taken_for
            taken_for.update({v: judge.nearest(said) for v, said in waves.items()})
            values[kind, MATCH] = share_of_hits({v.name: taken_for[v.name] for v in voices})
            values[kind, COPY] = share_of_hits({v: judge.nearest(w) for v, w in copies.items()})
            values[kind, NATURAL] = share_of_hits(
                {v: [judge.nearest_by_average(said)] for v, said in heard.items()}
            )
        errors = [
            pitch_error(analyse(wave), analyse(other))
            for name, said in waves.items()
            for wave, other in zip(said, recordings[name], strict=True)
        ]
        # Speech that lost its pitch is as far off as can be.
        first.values[kind, PITCH] = statistics.median(1.0 if math.isnan(e) else e for e in errors)
        first.values.update(measure_words(synthesizer, recogniser, kind, test, waves, recordings))
    return results


def follow(voices: Sequence[DemoVoice], what: str) -> Iterable[DemoVoice]:
    """Show how far it is, where someone looks."""
    return track(voices, what, console=Console(stderr=True), transient=True)


def share_of_hits(taken_for: Mapping[str, Sequence[str]]) -> float:
    return statistics.fmean(name == voice for voice, names in taken_for.items() for name in names)


def measure_words(
    synthesizer: Any,
    recogniser: ClosedSetRecogniser,
    kind: str,
    test: Test,
    waves: Mapping[str, list[Wave]],
    recordings: Mapping[str, list[Wave]],
) -> dict[tuple[str, str], float]:
    """Words heard in the voices that the recogniser reads, and how many voices those are."""

    def score(said: Sequence[Wave], texts: Sequence[str]) -> float:
        pairs = zip(said, texts, strict=True)
        return statistics.fmean(recogniser.score(wave, SAMPLE_RATE, text) for wave, text in pairs)

    scores: dict[str, list[float]] = {ORIGINALS: [], WORDS: [], NEW_WORDS: []}
    for voice in follow(test.voices[kind], f"{kind} are read"):
        natural = recordings[voice.name] + [original(t, voice) for t in test.new_word_sentences]
        readable = score(natural, test.sentences + test.new_word_sentences)
        if readable < READABLE:
            continue
        new = speak(synthesizer, test.new_word_sentences, voice, test)
        scores[ORIGINALS].append(readable)
        scores[WORDS].append(score(waves[voice.name], test.sentences))
        scores[NEW_WORDS].append(score(new, test.new_word_sentences))
    means = {(kind, c): statistics.fmean(values or [math.nan]) for c, values in scores.items()}
    return {**means, (kind, NUM_READABLE): len(scores[WORDS])}


def speak(synthesizer: Any, texts: Sequence[str], voice: DemoVoice, test: Test) -> list[Wave]:
    waves: list[Wave] = synthesizer.speak(
        list(texts), references=test.references[voice.name], language="en"
    )
    return waves


def copy(synthesizer: Any, wave: Wave) -> Wave:
    from myxtts.evaluation.pitch import analyse

    sound = analyse(wave)
    (copied,) = synthesizer.vocoder([sound.mel], [sound.pitch])
    return np.asarray(copied)


def print_tables(test: Test, results: Mapping[str, Results]) -> bool:
    """A row a kind of voice and judge, then what was missed; whether no bar was."""
    count = len(test.everyone)
    print(f"nearest of {count} candidates, where chance gives {1 / count:.3f}")
    print(f"{'':36s}" + "".join(f"{column:>16s}" for column in COLUMNS))
    for judge, result in results.items():
        for kind, voices in test.voices.items():
            cells = (result.values.get((kind, column)) for column in COLUMNS)
            texts = ("-" if value is None else f"{value:.3f}" for value in cells)
            title = f"{len(voices)} {kind}, {judge}"
            print(f"{title:36s}" + "".join(f"{text:>16s}" for text in texts))
    first = results[next(iter(results))]
    for kind, voices in test.voices.items():
        print(
            f"words of {kind}: in the {first.values[kind, NUM_READABLE]:.0f} of {len(voices)} "
            f"that the recogniser reads (original recordings {first.values[kind, ORIGINALS]:.3f})"
        )
    for voice, names in first.taken_for.items():
        if others := [name for name in names if name != voice]:
            nearer = ", ".join(sorted(set(others)))
            print(f"  {voice}: {len(others)} of {len(names)} nearer to {nearer}")
    missed = first.missed()
    for line in missed:
        print(f"MISSED {line}")
    return not missed


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dirs", type=Path, nargs="+", help="run folders of many-voices demos")
    parser.add_argument("--corpus", type=Path, help="its corpus (default: RUN_DIR/../corpus)")
    parser.add_argument("--sentences", type=int, default=4, help="of each kind, said by each voice")
    parser.add_argument("--references", type=int, default=NUM_REFERENCES, help="for each voice")
    options = parser.parse_args(arguments)
    try:
        passed = run(options)
    except MyXTTSError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.exit(not passed)


def run(options: argparse.Namespace) -> bool:
    from myxtts.inference.synthesizer import Synthesizer  # TensorFlow starts on this line

    judges, recogniser = make_judges(), make_recogniser()
    passed = True
    several = len(options.run_dirs) > 1
    for number in range(len(options.run_dirs) if several else NUM_SEEDS):
        run_dir = options.run_dirs[number if several else 0]
        corpus = read_corpus(options.corpus or run_dir.resolve().parent / "corpus")
        sizes = {"num_sentences": options.sentences, "num_references": options.references}
        test = draw_test(corpus, **sizes, seed=number)
        print(f"\n{run_dir}, test seed {number}")
        results = measure(Synthesizer.load(run_dir), test, judges, recogniser)
        passed &= print_tables(test, results)
    return passed


if __name__ == "__main__":
    main()
