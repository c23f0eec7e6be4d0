"""What a few minutes of one person's recordings are worth, from the base voice and from nothing.

    python -m benchmarks.few_minutes DATA --out DIR [--minutes 1,5,15,36] [--starts base,none]
        [--wall 15] [--base RUN_OR_EXPORT] [--set training.freeze=[encoder,duration]] [--other]

DATA is an LJSpeech-like folder of one speaker; its last clips are never trained on. Each run gets
the same wall time on this machine; one from a voice is over when the steps of its recipe are done,
as with `myxtts train`, if that is earlier. Of each voice is measured, beside its steps and the
minutes that they took (`wall`):

    words      never heard by the built-in corpus, understood in a closed set (pocketsphinx)
    P.808      naturalness and overall quality by DNSMOS (`speechmos`), beside them the vocoder's
               copies of the speaker's own recordings, all equally loud: it minds loudness
    distance   mel cepstral distortion to the held-out recordings of the same texts, in dB
    alike      likeness to the speaker by resemblyzer

--base names the voice to start from; for honest numbers one that never heard DATA. --set tries the
recipe otherwise, and --other judges by other clips than the last ones, so that what is chosen by it
is not chosen by the clips that judge it in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import soundfile
import yaml

from benchmarks.intelligibility import make_recogniser
from benchmarks.judges import make_judges, make_mos
from benchmarks.voices import as_wave
from myxtts.base import BASE, NONE
from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig
from myxtts.corpora.demo_sentences import HELD_OUT_SLOTS, draw_slot_sentences
from myxtts.data.clips import check_clips
from myxtts.data.manifests import read_manifest
from myxtts.data.waves import decode
from myxtts.errors import ConfigError, MyXTTSError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.voice_files import load_voice
from myxtts.training.recipe import Recorded, choose_start

HELD_OUT = 16  # clips at the end of the list, and as many before them for --other
REFERENCES = 3

Wave = np.ndarray
Clip = tuple[Path, str]


def read_clips(folder: Path) -> list[Clip]:
    manifest = read_manifest(folder)
    verdicts = check_clips(manifest, max_seconds=11.0)
    return [
        (manifest.folder / verdict.path, clip.text)
        for clip, verdict in zip(manifest, verdicts, strict=True)
        if verdict.kept
    ]


def write_subset(clips: Sequence[Clip], folder: Path, *, minutes: float) -> Recorded:
    """So many minutes of clips as a folder of their own."""
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    rows, seconds = ["audio_file|text\n"], 0.0
    for path, text in clips:
        if seconds >= 60 * minutes:
            break
        wave = decode(path)
        name = f"wavs/{path.stem}.wav"
        soundfile.write(folder / name, wave, SAMPLE_RATE, "PCM_16")
        rows.append(f"{name}|{text}\n")
        seconds += len(wave) / SAMPLE_RATE
    (folder / "metadata.csv").write_text("".join(rows), encoding="utf-8")
    return Recorded(seconds / 60, len(rows) - 1)


def settings(
    data: Path, run: Path, *, start: str, recorded: Recorded, changes: Sequence[str] = ()
) -> XTTSConfig:
    """What `train` chooses, from a voice; from nothing the demo's settings, which learn quickest.

    Changes are settings by their dotted names with a value of YAML, as in `training.dropout=0.2`.
    """
    config = XTTSConfig(
        model=ModelConfig(size="tiny"),
        data=DataConfig(train_data=data, cache="memory", max_buckets=2),
        training=TrainingConfig(
            checkpoint_dir=run, validation_steps=100_000, sample_steps=100_000, init_from=Path(BASE)
        ),
    )
    if start == NONE:
        config.training.init_from = None
        config.training.max_steps = 100_000  # or the wall time
        config.training.learning_rate, config.training.warmup_steps = 2e-3, 50
        config.training.ema_decay, config.data.batch_frames = 0.995, 4096
    else:
        choose_start(config, given={"model.size"}, measure=lambda: recorded, has_gpu=False)
        config.training.init_from = Path(start)
    for change in changes:
        name, _, value = change.partition("=")
        section, _, key = name.partition(".")
        part = getattr(config, section, None)
        if not value or key not in getattr(type(part), "model_fields", {}):
            raise ConfigError(f"{change!r} is no setting.", "--set training.learning_rate=0.0005")
        setattr(part, key, yaml.safe_load(value))
    return config


def train(config: XTTSConfig, *, wall_minutes: float) -> tuple[int, float]:
    """Train for so long, with a rate that falls until then; returns steps and minutes."""
    from myxtts.training import make_trainer
    from myxtts.training.timed import has_had, train_for

    with make_trainer(config) as trainer:
        if has_had(trainer, minutes=wall_minutes):
            return trainer.steps_done, round(trainer.state.seconds / 60, 1)
        most = config.training.max_steps
        result = train_for(trainer, minutes=wall_minutes, most_steps=most)
    if result["stopped_by"] is not None:  # half a voice is not judged; the same command goes on
        sys.exit(128 + result["stopped_by"])
    return int(result["steps"]), round(trainer.state.seconds / 60, 1)


class Judges:
    """All that is measured of a voice of one speaker; what is asked of the recordings, once."""

    def __init__(self, held_out: Sequence[Clip], references: Sequence[Path]) -> None:
        self.recogniser = make_recogniser()
        self.mos = make_mos()
        self.alike = make_judges().get("resemblyzer")
        self.read, self.references = [text for _, text in held_out], list(references)
        rng = random.Random(0)
        self.texts = draw_slot_sentences(HELD_OUT_SLOTS, num_sentences=24, rng=rng)
        self.originals = [as_wave(decode(path)) for path, _ in held_out]
        if self.alike is not None:
            self.own = self.alike.average([self.alike.profile(wave) for wave in self.originals])

    # TensorFlow must not start before the first training has set up its devices.

    @cached_property
    def sounds(self) -> list[Any]:
        """Mels and pitch of the held-out recordings."""
        from myxtts.evaluation.pitch import analyse

        return [analyse(wave) for wave in self.originals]

    @cached_property
    def copies(self) -> dict[str, float]:
        """The quality of the vocoder's copies of them."""
        from myxtts.inference.vocoder import GriffinLim

        vocoder = GriffinLim(device="/CPU:0")
        waves = [vocoder([sound.mel], [sound.pitch])[0] for sound in self.sounds]
        return self._quality(waves, "copy ")

    def measure(self, model: str | Path) -> dict[str, float]:
        """The numbers of one voice."""
        from myxtts.evaluation.distortion import compare
        from myxtts.evaluation.pitch import analyse
        from myxtts.inference.synthesizer import Synthesizer

        synthesizer = Synthesizer.load(model)
        voice = synthesizer.listen(self.references)
        said = synthesizer.speak(self.texts, voice=voice, language="en")
        pairs = zip(said, self.texts, strict=True)
        scores = [self.recogniser.score(wave, SAMPLE_RATE, text) for wave, text in pairs]
        read = synthesizer.speak(self.read, voice=voice, language="en")
        far = [
            compare(analyse(wave), sound).cepstral_db
            for wave, sound in zip(read, self.sounds, strict=True)
        ]
        numbers = {"words": _mean(scores), "distance": _mean(far)}
        numbers |= self._quality(read) | self.copies
        if self.alike is not None:
            numbers["alike"] = _mean(float(self.alike.profile(wave) @ self.own) for wave in read)
        return numbers

    def _quality(self, waves: Sequence[Wave], name: str = "") -> dict[str, float]:
        if self.mos is None:
            return {}
        judged = [self.mos(wave) for wave in waves]
        return {name + key: _mean(each[key] for each in judged) for key in judged[0]}


def _mean(values: Any) -> float:
    return round(statistics.fmean(values), 3)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="recordings of one speaker, with a clip list")
    parser.add_argument("--out", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--minutes", default="1,5,15,36", help="of recordings")
    parser.add_argument("--starts", default=f"base,{NONE}", help="base, none or both")
    parser.add_argument("--wall", type=float, default=15.0, help="minutes of training")
    parser.add_argument("--base", default="base", help="the voice that base stands for")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="try another setting"
    )
    parser.add_argument("--other", action="store_true", help="judge by the clips before the last")
    options = parser.parse_args(arguments)
    try:
        if "base" in options.starts.split(","):
            load_voice(options.base)  # or it would be missed after the first run
        clips = read_clips(options.data)
        if options.other:
            del clips[-HELD_OUT:]
        held_out, rest = clips[-HELD_OUT:], clips[:-HELD_OUT]
        judges = Judges(held_out, [path for path, _ in rest[:REFERENCES]])
        for minutes in map(float, options.minutes.split(",")):
            data = options.out / f"data_{minutes:g}"
            recorded = write_subset(rest, data, minutes=minutes)
            for start in options.starts.split(","):
                run = options.out / "_".join(["run", start, f"{minutes:g}", *options.set])
                voice = options.base if start == "base" else start
                config = settings(data, run, start=voice, recorded=recorded, changes=options.set)
                steps, wall = train(config, wall_minutes=options.wall)
                row = {"minutes": round(recorded.minutes, 1), "start": start, "steps": steps}
                row["wall"] = wall
                row |= {"set": options.set} if options.set else {}
                print(json.dumps(row | judges.measure(run)), flush=True)
    except MyXTTSError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
