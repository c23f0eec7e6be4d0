"""Sentences to listen to and look at while a run is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
import tensorflow as tf

from myxtts.inference.pictures import draw_speech
from myxtts.inference.vocoder import GriffinLim
from myxtts.runs.events import RunLog
from myxtts.text.tokenizers import Tokenizer

NUM_SAMPLES = 2
OWN = "own_text"  # the name of what the user's sentence becomes

Rows = Mapping[str, Any]


class OwnText(NamedTuple):
    """A sentence of the user's, as the model takes it."""

    text: str
    ids: Sequence[int]
    language: int


class Sampler:
    """Speaks the texts of a few clips in their own voices: wav, text, mels and alignment.

    They are the same clips each time, the longest of a batch, and if asked for one more text in the
    voice of the last of them.
    """

    def __init__(self, model: Any, *, device: str, tokenizer: Tokenizer | None) -> None:
        self._model, self._device, self._tokenizer = model, device, tokenizer
        # On the run's own device: without a name it would take the first GPU, which prepares data.
        self._vocoder = GriffinLim(device=device)
        self._speak = tf.function(model.speak, reduce_retracing=True)

    def write(
        self,
        batch: dict[str, Any],
        folder: Path,
        *,
        step: int,
        log: RunLog,
        texts: Sequence[str] = (),
        own_text: OwnText | None = None,
    ) -> list[Path]:
        """Speak the last clips of a batch into `folder`; returns the wav files.

        `texts` are those of the batch's rows; `own_text` is said besides.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with tf.device(self._device):
            clips = tf.where(batch["mel_lengths"] > 0)[-NUM_SAMPLES:, 0]  # the others are masked
            rows = {n: tf.gather(value, clips) for n, value in batch.items() if n != "seed"}
        said = [texts[i] if i < len(texts) else "" for i in clips.numpy().tolist()]
        names = [f"sample_{number}" for number in range(1, len(said) + 1)]
        paths = self._say(rows, names, said, folder, step=step, log=log)
        if own_text is not None and len(said):
            last = {name: value[-1:] for name, value in rows.items() if name != "mels"}
            last["tokens"] = tf.constant([own_text.ids])
            last["token_lengths"] = tf.constant([len(own_text.ids)])
            last["languages"] = tf.constant([own_text.language])
            paths += self._say(last, [OWN], [own_text.text], folder, step=step, log=log)
        return paths

    def _say(
        self,
        rows: Rows,
        names: Sequence[str],
        texts: Sequence[str],
        folder: Path,
        *,
        step: int,
        log: RunLog,
    ) -> list[Path]:
        with tf.device(self._device):
            voice = self._model.listen(
                rows["reference_mels"], rows["reference_lengths"], rows["reference_pitch"]
            )
            spoken = self._speak(rows["tokens"], rows["token_lengths"], rows["languages"], voice)
        spoken = {name: value.numpy() for name, value in spoken.items()}
        mels, pitches = (
            [row[:n] for row, n in zip(spoken[name], spoken["mel_lengths"], strict=True)]
            for name in ("mels", "pitch")
        )
        paths = []
        for number, wave in enumerate(self._vocoder(mels, pitches)):
            tokens = rows["tokens"].numpy()[number, : int(rows["token_lengths"][number])]
            shown, title = {"synthesis": mels[number]}, names[number].replace("_", " ")
            if "mels" in rows:
                original = rows["mels"].numpy()[number, : int(rows["mel_lengths"][number])]
                shown = {"original": original, **shown}
            symbols = () if self._tokenizer is None else self._tokenizer.symbols
            picture = draw_speech(
                shown,
                alignment=spoken["alignment"][number, : len(tokens), : len(mels[number])],
                symbols=[symbols[token] for token in tokens] if symbols else (),
                pitch={"synthesis": pitches[number]},
                title=f"step {step}, {title}",
            )
            path = folder / f"{names[number]}.wav"
            soundfile.write(path, np.clip(wave, -1, 1), self._vocoder.sample_rate, "PCM_16")
            path.with_suffix(".png").write_bytes(picture)
            path.with_suffix(".txt").write_text(texts[number] + "\n", encoding="utf-8")
            log.audio(step, title, wave, self._vocoder.sample_rate)
            log.picture(step, title, picture)
            paths.append(path)
        return paths
