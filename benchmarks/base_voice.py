"""What the base voice can do before anyone trains it further; the numbers of its card.

    python -m benchmarks.base_voice [--model RUN_OR_EXPORT] [--digits DIR --unseen NAME,NAME]
        [--single DIR] [--json FILE]

The numbers of the shipped cards are those of this, and of the same with myxtts/base/tiny:

    python -m benchmarks.base_voice --model myxtts/base/small --digits digits-54-speakers
        --unseen s49,s50,s51,s52,s53,s54 --single ljspeech-36min

words       closed-set test (benchmarks.intelligibility): trained and never heard English words, in
            four espeak-ng voices, and if given the voice of --single and the unseen people
languages   a sentence of each language is nearest, by cepstra after time warping, to espeak-ng's
            own recording of it among those of all sentences; chance is one in as many
unseen      synthetic voices that training lacks: nearest of all by pitch and spectrum (ours), and
            by resemblyzer where it is installed
people      --digits is a folder of people saying digits: those in --unseen are cloned from three
            recordings and say digits, and sentences; nearest of all people by resemblyzer, with the
            similarity to their own recordings, and natural recordings of them as the ceiling

Everything on the CPU, one draw (seed 0).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks.intelligibility import make_recogniser
from benchmarks.judges import Judge, make_judges
from benchmarks.voices import as_wave, original
from myxtts.corpora.base_texts import sentences_of
from myxtts.corpora.demo import DEMO_VOICES, DemoVoice
from myxtts.corpora.demo_sentences import HELD_OUT_SLOTS, SLOTS, draw_slot_sentences
from myxtts.corpora.many_voices import trained_voices, unseen_voices
from myxtts.data.manifests import read_manifest
from myxtts.data.waves import decode
from myxtts.errors import ConfigError, DataError, MyXTTSError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.text.languages import LANGUAGES
from myxtts.text.tokenizers import ESPEAK_VOICES

OURS, RESEMBLYZER = "pitch and spectrum", "resemblyzer"
PARTS = ("words", "languages", "unseen", "people")
REFERENCES = 3
SAMPLES_A_LANGUAGE = 8
CANDIDATE_CLIPS = 4  # natural recordings that stand for each person
UNSEEN_SENTENCES = 8  # of each synthetic voice: with two, one saying was 0.03 of the result

Wave = np.ndarray
Numbers = dict[str, Any]


class Bench:
    """One voice model, and how it is judged."""

    def __init__(self, model: str, *, sentences: int) -> None:
        from myxtts.inference.synthesizer import Synthesizer  # TensorFlow starts on this line

        self.synthesizer = Synthesizer.load(model)
        self.recogniser = make_recogniser()
        self.judges = make_judges()
        rng = random.Random(0)
        self.known = draw_slot_sentences(SLOTS, num_sentences=sentences, rng=rng)
        self.new = draw_slot_sentences(HELD_OUT_SLOTS, num_sentences=sentences, rng=rng)

    def say(self, texts: Sequence[str], voice: Any, language: str = "en") -> list[Wave]:
        """Let it speak."""
        waves: list[Wave] = self.synthesizer.speak(list(texts), voice=voice, language=language)
        return waves

    def hear(self, waves: Sequence[Wave]) -> Any:
        """The voice of recordings."""
        return self.synthesizer.listen([(wave, SAMPLE_RATE) for wave in waves])

    def score(self, waves: Sequence[Wave], texts: Sequence[str]) -> list[float]:
        """The share of each text's words that are understood."""
        pairs = zip(waves, texts, strict=True)
        return [self.recogniser.score(wave, SAMPLE_RATE, text) for wave, text in pairs]

    # -- the parts --

    def words(self, single: Path | None) -> Numbers:
        """Words understood, of trained and of never heard ones."""
        scores: dict[str, list[float]] = {"trained words": [], "unseen words": [], "wrong": []}
        for number, voice in enumerate(DEMO_VOICES):
            heard = self.hear([original(text, voice) for text in self.known[:REFERENCES]])
            known, new = (
                texts[number :: len(DEMO_VOICES)] for texts in (self.known[REFERENCES:], self.new)
            )
            scores["trained words"] += self.score(self.say(known, heard), known)
            said = self.say(new, heard)
            scores["unseen words"] += self.score(said, new)
            scores["wrong"] += self.score(said, [*new[1:], new[0]])
        numbers = {name: _mean(values) for name, values in scores.items()}
        if single is not None:
            listed = read_manifest(single)
            waves = [_read(listed.folder, clip.audio) for clip in list(listed)[:40]]
            long = [wave for wave in waves if len(wave) > 4 * SAMPLE_RATE][:REFERENCES]
            said = self.say(self.new, self.hear(long))
            numbers["unseen words, single speaker"] = _mean(self.score(said, self.new))
        return numbers

    def languages(self) -> Numbers:
        """In how many of a language's sentences the right recording is the nearest."""
        from myxtts.evaluation.distortion import compare
        from myxtts.evaluation.pitch import analyse

        numbers = {}
        for tag in LANGUAGES:
            variant = f"{ESPEAK_VOICES.get(tag, tag)}+f2"
            voice = DemoVoice("f2", variant)
            texts = random.Random(0).sample(sentences_of(tag), SAMPLES_A_LANGUAGE)
            recordings = [original(text, voice) for text in texts]
            sounds = [analyse(wave) for wave in recordings]
            said = self.say(texts, self.hear(recordings[:REFERENCES]), tag)
            hits = []
            for number, wave in enumerate(said):
                spoken = analyse(wave)
                far = [compare(spoken, sound).cepstral_db for sound in sounds]
                hits.append(int(np.argmin(far)) == number)
            numbers[tag] = _mean(hits)
        return numbers

    def unseen_voices(self) -> Numbers:
        """Nearest of all, for synthetic voices that training lacks."""
        unseen = unseen_voices()
        everyone = [*unseen, *trained_voices()[:24]]
        texts = self.known[-UNSEEN_SENTENCES:]
        recordings = {v.name: [original(text, v) for text in texts] for v in everyone}
        hits: dict[str, list[bool]] = {name: [] for name in self.judges}
        for judge in self.judges.values():
            judge.learn(recordings)
        for voice in unseen:
            heard = self.hear([original(text, voice) for text in self.known[5 : 5 + REFERENCES]])
            said = self.say(texts, heard)
            for name, judge in self.judges.items():
                hits[name] += [nearest == voice.name for nearest in judge.nearest(said)]
        return {name: _mean(found) for name, found in hits.items()}

    def people(self, folder: Path, unseen: Sequence[str]) -> Numbers:
        """Nearest of all people, and how similar; natural recordings as the ceiling."""
        judge = self.judges.get(RESEMBLYZER)
        if judge is None:
            return {}
        listed = read_manifest(folder)
        clips: dict[str, list[tuple[Wave, str]]] = {}
        for clip in listed:
            own = clips.setdefault(clip.speaker, [])
            if len(own) < (16 if clip.speaker in unseen else CANDIDATE_CLIPS):
                own.append((_read(listed.folder, clip.audio), ", ".join(clip.text.split()) + "."))
        candidates = {
            name: judge.average([judge.profile(wave) for wave, _ in own[:CANDIDATE_CLIPS]])
            for name, own in clips.items()
        }
        found: dict[str, list[tuple[bool, float]]] = {"natural": [], "digits": [], "sentences": []}
        scores: list[float] = []
        for name in unseen:
            references = clips[name][CANDIDATE_CLIPS : CANDIDATE_CLIPS + REFERENCES]
            tests = clips[name][CANDIDATE_CLIPS + REFERENCES :][:5]
            voice = self.hear([wave for wave, _ in references])
            digits = self.say([text for _, text in tests], voice)
            sentences = self.say(self.known[:5], voice)
            new = self.say(self.new[:5], voice)
            scores += self.score(new, self.new[:5])
            for kind, waves in (
                ("natural", [wave for wave, _ in tests]),
                ("digits", digits),
                ("sentences", sentences),
            ):
                found[kind] += [_judged(judge, wave, name, candidates) for wave in waves]
        numbers: Numbers = {
            kind: {
                "nearest": _mean(hit for hit, _ in results),
                "similarity": _mean(alike for _, alike in results),
            }
            for kind, results in found.items()
        }
        numbers["unseen words"] = _mean(scores)
        numbers["candidates"] = len(candidates)
        return numbers


def _judged(
    judge: Judge, wave: Wave, name: str, candidates: Mapping[str, Any]
) -> tuple[bool, float]:
    profile = judge.profile(wave)
    return judge.rank(profile, candidates)[0] == name, float(profile @ candidates[name])


def _mean(values: Any) -> float:
    return round(statistics.fmean(map(float, values)), 3)


def _read(folder: Path, audio: str) -> Wave:
    for path in (folder / audio, *(folder / "wavs" / f"{audio}{e}" for e in (".flac", ".wav"))):
        if path.is_file():
            return as_wave(decode(path))
    raise DataError(f"The recording {folder / audio} is missing.", "check the folder")


def _check_unseen(folder: Path | None, unseen: Sequence[str], parts: Sequence[str]) -> None:
    """Refuse what would fail behind an hour of speaking."""
    if unknown := sorted(set(parts) - set(PARTS)):
        raise ConfigError(f"There is no part {', '.join(unknown)}.", f"of {', '.join(PARTS)}")
    if folder is None:
        if "people" in parts or unseen:
            raise ConfigError("No people are given.", "--digits DIR --unseen NAME,NAME")
        return
    speakers = set(read_manifest(folder).speakers)
    if not unseen:
        raise ConfigError("Nobody is named whom training never heard.", "--unseen NAME,NAME")
    if missing := sorted(set(unseen) - speakers):
        raise ConfigError(
            f"{folder} has no recordings of {', '.join(missing)}.", "names of its clip list"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="base", help="what to judge (default: the shipped one)")
    parser.add_argument("--digits", type=Path, help="people saying digits, with a clip list")
    parser.add_argument("--unseen", default="", help="those of them that training never heard")
    parser.add_argument("--single", type=Path, help="one speaker's recordings, with a clip list")
    parser.add_argument("--sentences", type=int, default=24, help="of each kind of words")
    parser.add_argument("--only", default="", help="parts, by comma: words,languages,unseen,people")
    parser.add_argument("--json", type=Path, help="also written there, for the card")
    options = parser.parse_args(arguments)
    unseen = [name for name in options.unseen.split(",") if name]
    asked = [part for part in options.only.split(",") if part]
    try:
        _check_unseen(options.digits, unseen, asked)
        if options.single is not None:
            read_manifest(options.single)
        bench = Bench(options.model, sentences=options.sentences)
        parts = {
            "words": lambda: bench.words(options.single),
            "languages": bench.languages,
            "unseen": bench.unseen_voices,
        }
        if options.digits is not None:
            parts["people"] = lambda: bench.people(options.digits, unseen)
        numbers = {}
        for name in asked or parts:
            numbers[name] = parts[name]()
            print(f"{name}: {json.dumps(numbers[name])}", flush=True)
            if options.json is not None:  # what was measured is kept, whatever comes
                options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    except MyXTTSError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
