"""Long recordings with a plain text, cut and aligned, against the clips they were joined from.

    python -m benchmarks.long_recordings DATA --out DIR [--files 3] [--steps 300]

DATA is an LJSpeech-like folder. Its clips are joined end to end into a few long files, each with
all its words in one line of text; `myxtts data import` cuts them again. Measured is:

    words    that landed in a clip which holds the time they are said at; that time is known from
             aligning each original clip by itself, where an error cannot pass its ends
    cuts     between words of two original clips: how far they are from where the two were joined,
             and from the quiet around it (a clip ends a tenth of a second after its last word)
    sound    the share of DATA's seconds that came back

--steps fine-tunes the base voice as long on the original clips and on the imported ones, and has
both say words that neither heard, understood in a closed set (pocketsphinx).

Stopped and run again with the same DIR, it goes on. Bars: 95 % of the words, cuts within 100 ms;
understood within 3 points.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import soundfile

from myxtts.data.clips import check_clips
from myxtts.data.manifests import read_manifest
from myxtts.data.waves import decode
from myxtts.errors import MyXTTSError
from myxtts.features.audio import HOP, SAMPLE_RATE, num_frames
from myxtts.recordings.aligner import Aligner, split_words
from myxtts.recordings.audio import LEVEL_S, levels
from myxtts.recordings.folder import ImportedClip, read_clips
from myxtts.recordings.importer import import_recordings
from myxtts.recordings.report import ImportProgress

QUIET_DB = 35.0  # below the loudest: no speech
WORDS_BAR, CUTS_BAR_S, UNDERSTOOD_BAR = 0.95, 0.1, 0.03
NUM_SENTENCES = 48  # of five words each


class Word(NamedTuple):
    """A word in a long file, as it truly is."""

    text: str
    clip: int  # of the originals in this file
    middle: float  # seconds


class Truth(NamedTuple):
    """What a long file was made of."""

    words: list[Word]
    spans: list[tuple[float, float]]  # of each original clip in the file
    speech: list[tuple[float, float]]  # from its first sound to its last


def join(data: Path, out: Path, *, files: int) -> dict[str, Truth]:
    """Make the long files, or find them made; the truth of each by its name."""
    manifest = read_manifest(data)
    verdicts = check_clips(manifest, max_seconds=60.0)
    clips = [
        (manifest.folder / verdict.path, clip.text)
        for clip, verdict in zip(manifest, verdicts, strict=True)
        if verdict.kept
    ]
    out.mkdir(parents=True, exist_ok=True)
    aligner: Aligner | None = None
    found: dict[str, Truth] = {}
    for number, some in enumerate(np.array_split(np.arange(len(clips)), files), start=1):
        name = f"long-{number}"
        kept = out / f"{name}.json"
        if not kept.is_file():
            aligner = aligner or Aligner()
            truth, wave = _join_one([clips[i] for i in some], aligner)
            text = " ".join(word.text for word in truth.words)
            soundfile.write(out / f"{name}.flac", wave, SAMPLE_RATE, "PCM_16")
            (out / f"{name}.txt").write_text(text, encoding="utf-8")
            kept.write_text(json.dumps(truth), encoding="utf-8")
            print(
                f"{name}: {len(some)} clips, {len(wave) / SAMPLE_RATE / 60:.1f} minutes", flush=True
            )
        words, spans, speech = json.loads(kept.read_text(encoding="utf-8"))
        found[f"{name}.flac"] = Truth([Word(*word) for word in words], spans, speech)
    return found


def _join_one(clips: Sequence[tuple[Path, str]], aligner: Aligner) -> tuple[Truth, np.ndarray]:
    truth, waves, now = Truth([], [], []), [], 0.0
    for number, (path, text) in enumerate(clips):
        wave = decode(path)
        level = levels(wave)
        loud = np.flatnonzero(level > level.max() - QUIET_DB)
        speech = np.zeros(num_frames(len(wave)), bool)
        speech[
            int(loud[0] * LEVEL_S * SAMPLE_RATE / HOP) : int(loud[-1] * LEVEL_S * SAMPLE_RATE / HOP)
        ] = True
        timed = aligner.align(wave, split_words(text, "en"), "en", speech=speech)
        assert timed is not None, path
        truth.words.extend(Word(w.text, number, now + (w.start + w.end) / 2) for w in timed)
        truth.spans.append((now, now + len(wave) / SAMPLE_RATE))
        truth.speech.append((now + loud[0] * LEVEL_S, now + (loud[-1] + 1) * LEVEL_S))
        waves.append(wave)
        now += len(wave) / SAMPLE_RATE
    return truth, np.concatenate(waves)


def judge(clips: Sequence[ImportedClip], truth: Truth) -> tuple[int, list[float], list[float]]:
    """Words in their clip; distances of cuts from the joints, and from the quiet around them."""
    said = [(word, clip) for clip in clips for word in clip.text.split()]
    match = difflib.SequenceMatcher(
        None, [word.text for word in truth.words], [word for word, _ in said], autojunk=False
    )
    right, place = 0, {}
    for true, ours, length in match.get_matching_blocks():
        for i in range(length):
            clip, word = said[ours + i][1], truth.words[true + i]
            assert clip.origin.end is not None
            right += clip.origin.start <= word.middle <= clip.origin.end
            place[true + i] = clip
    joints, quiet = [], []
    for i in range(1, len(truth.words)):
        before, behind = place.get(i - 1), place.get(i)
        first, second = truth.words[i - 1].clip, truth.words[i].clip
        if first == second or before is None or behind is None or before is behind:
            continue
        ends, starts = truth.speech[first][1], truth.speech[second][0]
        assert before.origin.end is not None
        for cut in (before.origin.end, behind.origin.start):
            joints.append(abs(cut - truth.spans[first][1]))
            quiet.append(max(0.0, ends - cut, cut - starts))
    return right, joints, quiet


def understood(data: Path, run: Path, *, steps: int) -> float:
    """The share of words never heard that a voice fine-tuned on a folder makes understood."""
    import random

    from benchmarks.few_minutes import settings
    from benchmarks.intelligibility import make_recogniser
    from myxtts.config.config import DataConfig
    from myxtts.corpora.demo_sentences import HELD_OUT_SLOTS, draw_slot_sentences
    from myxtts.data.prepare import what_is_recorded
    from myxtts.inference.synthesizer import Synthesizer
    from myxtts.training import make_trainer
    from myxtts.training.recipe import Recorded

    recorded = Recorded(*what_is_recorded(DataConfig(train_data=data)))
    config = settings(data, run, start="base", recorded=recorded)
    config.training.max_steps = steps
    with make_trainer(config) as trainer:
        if trainer.train()["stopped_by"]:
            sys.exit("stopped: the same command goes on")
    manifest = read_manifest(data)
    verdicts = check_clips(manifest, max_seconds=11.0)
    references = [manifest.folder / verdict.path for verdict in verdicts if verdict.kept][:3]
    synthesizer, judge_of = Synthesizer.load(run), make_recogniser()
    texts = draw_slot_sentences(HELD_OUT_SLOTS, num_sentences=NUM_SENTENCES, rng=random.Random(0))
    said = synthesizer.speak(texts, references=references, language="en")
    pairs = zip(said, texts, strict=True)
    return float(np.mean([judge_of.score(wave, SAMPLE_RATE, text) for wave, text in pairs]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="clips of one speaker, with a clip list")
    parser.add_argument("--out", type=Path, required=True, help="where the long files are kept")
    parser.add_argument("--files", type=int, default=3, help="long files to join the clips into")
    parser.add_argument("--steps", type=int, default=0, help="of fine-tuning on both; 0: none")
    options = parser.parse_args(arguments)
    try:
        truths = join(options.data, options.out / "long", files=options.files)
        began = time.monotonic()
        report = import_recordings(
            options.out / "long", options.out / "imported", language="en", progress=_say
        )
    except MyXTTSError as error:
        sys.exit(f"error: {error}")
    print(f"imported in {time.monotonic() - began:.0f} s: {report.kind}, {report.recognised_by}")
    for refused in report.refused:
        print(f"  left out: {refused.file}: {refused.reason}")
    clips = read_clips(options.out / "imported")
    total = right = 0
    joints: list[float] = []
    quiet: list[float] = []
    for name, truth in truths.items():
        own = [clip for clip in clips if clip.origin.file == name]
        found, far, off = judge(own, truth)
        total, right = total + len(truth.words), right + found
        joints, quiet = joints + far, quiet + off
    lengths = [clip.seconds for clip in clips]
    whole = sum(truth.spans[-1][1] for truth in truths.values())
    print(
        f"clips: {len(clips)}, {min(lengths):.1f} to {max(lengths):.1f} s, "
        f"mean {np.mean(lengths):.1f} s; sound: {sum(lengths) / whole:.1%} of {whole / 60:.1f} min"
    )
    print(f"words: {right} of {total} in their clip ({right / total:.2%})")
    for what, values in (("joints", joints), ("quiet around them", quiet)):
        gaps = np.array(values)
        print(
            f"cuts from the {what}: {len(gaps)} ends, mean {gaps.mean() * 1000:.0f} ms, "
            f"95 % within {np.percentile(gaps, 95) * 1000:.0f} ms, "
            f"worst {gaps.max() * 1000:.0f} ms, "
            f"{(gaps <= CUTS_BAR_S).mean():.1%} within {CUTS_BAR_S * 1000:.0f} ms"
        )
    missed = ["95 % of the words"] if right < WORDS_BAR * total else []
    if options.steps:
        folders = {"original": options.data, "imported": options.out / "imported"}
        scores = {}
        for name, data in folders.items():
            run = options.out / f"run-{name}-{options.steps}"
            scores[name] = understood(data, run, steps=options.steps)
            print(f"understood after {options.steps} steps on the {name} clips: {scores[name]:.3f}")
        if scores["imported"] < scores["original"] - UNDERSTOOD_BAR:
            missed.append("understood within 3 points")
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def _say(state: ImportProgress) -> None:
    print(f"  {state}", flush=True)


if __name__ == "__main__":
    main()
