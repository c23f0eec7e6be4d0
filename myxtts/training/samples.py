"""Sentences to listen to and look at while a run is under way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import tensorflow as tf

from myxtts.inference.pictures import draw_speech
from myxtts.inference.vocoder import GriffinLim
from myxtts.runs.events import RunLog

NUM_SAMPLES = 2


class Sampler:
    """Speaks the texts of a few clips in their own voices: wav, mels and alignment."""

    def __init__(self, model: Any, *, device: str, symbols: tuple[str, ...]) -> None:
        self._model, self._device, self._symbols = model, device, symbols
        self._vocoder = GriffinLim(device=device)
        self._speak = tf.function(model.speak, reduce_retracing=True)

    def write(self, batch: dict[str, Any], folder: Path, *, step: int, log: RunLog) -> list[Path]:
        """Speak the first clips of a batch into `folder`; returns the wav files."""
        with tf.device(self._device):
            clips = tf.where(batch["mel_lengths"] > 0)[:NUM_SAMPLES, 0]  # the others are masked
            rows = {n: tf.gather(value, clips) for n, value in batch.items() if n != "seed"}
            voice = self._model.listen(
                rows["reference_mels"], rows["reference_lengths"], rows["reference_pitch"]
            )
            spoken = self._speak(rows["tokens"], rows["token_lengths"], rows["languages"], voice)
        spoken = {name: value.numpy() for name, value in spoken.items()}
        mels, pitches = (
            [row[:n] for row, n in zip(spoken[name], spoken["mel_lengths"], strict=True)]
            for name in ("mels", "pitch")
        )
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for number, wave in enumerate(self._vocoder(mels, pitches)):
            tokens = rows["tokens"].numpy()[number, : int(rows["token_lengths"][number])]
            original = rows["mels"].numpy()[number, : int(rows["mel_lengths"][number])]
            picture = draw_speech(
                {"original": original, "synthesis": mels[number]},
                alignment=spoken["alignment"][number, : len(tokens), : len(mels[number])],
                symbols=[self._symbols[token] for token in tokens] if self._symbols else (),
                pitch={"synthesis": pitches[number]},
                title=f"step {step}, sample {number + 1}",
            )
            path = folder / f"sample_{number + 1}.wav"
            soundfile.write(path, np.clip(wave, -1, 1), self._vocoder.sample_rate, "PCM_16")
            path.with_suffix(".png").write_bytes(picture)
            log.audio(step, f"sample {number + 1}", wave, self._vocoder.sample_rate)
            log.picture(step, f"sample {number + 1}", picture)
            paths.append(path)
        return paths
