"""Where a run can be watched beside its event file: TensorBoard and Weights & Biases."""

from __future__ import annotations

import importlib
import io
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.errors import ConfigError, MyXTTSError


class TensorBoard:
    """Writes TensorBoard's file, with its own messages and its own writer of records.

    At once, which takes 0.1 ms a report: its asynchronous writer dies with its thread when a disk
    is full, and does not try again when there is room.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path, *, first_step: int) -> None:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event = event_pb2.Event
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names, so the time comes first, and fine
        # enough that two starts within a second keep theirs.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._writer: Any = RecordWriter((folder / name).open("wb"))
        self._write(file_version="brain.Event:2")
        # Drops the points from this step on that the run has drawn before it was resumed. Written
        # at every start, since TensorBoard takes the first one for no restart. Its fast loader
        # ignores it and drops a curve's later points itself, once the curve goes back.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(step=first_step, session_log=start)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        self._show(step, *({"tag": tag, "simple_value": x} for tag, x in values.items()))

    def picture(self, step: int, name: str, png: bytes) -> None:
        """Show a PNG."""
        width, height = struct.unpack(">II", png[16:24])  # PNG's first chunk always holds them
        size = {"width": width, "height": height, "colorspace": 3}
        self._show(step, {"tag": name, "image": {**size, "encoded_image_string": png}})

    def audio(self, step: int, name: str, samples: np.ndarray[Any, Any], sample_rate: int) -> None:
        """Let a mono wave be heard."""
        import soundfile

        wav = io.BytesIO()
        soundfile.write(wav, samples, sample_rate, format="WAV", subtype="PCM_16")
        audio = {
            "sample_rate": sample_rate,
            "num_channels": 1,
            "length_frames": len(samples),
            "encoded_audio_string": wav.getvalue(),
            "content_type": "audio/wav",
        }
        self._show(step, {"tag": name, "audio": audio})

    def close(self, _failed: bool) -> None:
        """Close the file."""
        self._writer.close()

    def _show(self, step: int, *values: dict[str, Any]) -> None:
        self._write(step=step, summary={"value": values})

    def _write(self, **fields: Any) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())
        self._writer.flush()


class WandB:
    """One run on Weights & Biases, continued when a run folder is resumed."""

    name = "W&B"

    def __init__(
        self, run_name: str, *, config: Mapping[str, Any], folder: Path, run_id: str | None
    ) -> None:
        self._wandb = import_wandb()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._run = self._wandb.init(
                project="myxtts",
                name=run_name or None,
                config=dict(config),
                dir=str(folder),
                id=run_id,
                resume="allow",
                # Capturing the console would take the progress bar apart.
                settings=self._wandb.Settings(console="off"),
            )
        except Exception as error:
            raise MyXTTSError(
                f"Weights & Biases cannot start: {error}",
                "wandb login, or WANDB_MODE=offline to send the run later, or leave out --wandb",
            ) from error

    @property
    def run_id(self) -> str:
        """What a resumed run must name to go on in the same curves."""
        return str(self._run.id)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        self._log(step, values)

    def picture(self, step: int, name: str, png: bytes) -> None:
        """Show a PNG."""
        image = importlib.import_module("PIL.Image").open(io.BytesIO(png))
        self._log(step, {name: self._wandb.Image(image)})

    def audio(self, step: int, name: str, samples: np.ndarray[Any, Any], sample_rate: int) -> None:
        """Let a mono wave be heard."""
        self._log(step, {name: self._wandb.Audio(samples, sample_rate=sample_rate)})

    def close(self, failed: bool) -> None:
        """Send what is left, and mark the run as failed or finished."""
        self._run.finish(exit_code=1 if failed else 0)

    def _log(self, step: int, values: Mapping[str, Any]) -> None:
        # W&B takes no step twice, and complains of each. After a resume it has these already,
        # with the same values, since a resume is exact.
        if step >= self._run.step:
            self._run.log(dict(values), step=step)


def import_wandb() -> Any:
    """The wandb package; asked for early, a run without it ends before anything is made."""
    try:
        return importlib.import_module("wandb")
    except ImportError as error:
        raise ConfigError(
            "Weights & Biases is asked for, but the wandb package is not installed.",
            "pip install wandb, or leave out --wandb",
        ) from error


Sink = TensorBoard | WandB  # either may raise anything; the run's log deals with it
