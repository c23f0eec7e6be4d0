"""Which models a server has in memory, and in whose voices they speak."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from myxtts.errors import DataError
from myxtts.inference.references import read_references
from myxtts.inference.speaker import HeardVoice, Recordings, Speaker

log = logging.getLogger(__name__)

DEFAULT = "default"
SOUNDS = frozenset({".wav", ".flac", ".ogg", ".mp3", ".opus"})
MOST_HEARD = 64  # voices that are remembered
# What clients ask for that know no others; they get the first model.
OPENAI_MODELS = frozenset({"tts-1", "tts-1-hd", "gpt-4o-mini-tts"})


class UnknownNameError(DataError):
    """A name that nothing here has."""


class Files(NamedTuple):
    """Recordings of one speaker, and what tells whether they changed."""

    paths: tuple[Path, ...]
    state: tuple[tuple[int, int], ...]


class Catalog:
    """Models by name; voices from a folder, from references, and from inside of exports.

    A voice is a recording in the folder, named as the file without its ending, or a folder in it
    with several recordings of one speaker. Names are looked up, never made into paths.
    """

    def __init__(
        self,
        models: Mapping[str, Speaker],
        *,
        folder: Path | None = None,
        references: Recordings | None = None,
    ) -> None:
        self.models = dict(models)
        self._folder, self._references = folder, references
        self._heard: OrderedDict[tuple[str, str, object], HeardVoice] = OrderedDict()
        self._lock = threading.Lock()
        if not all(self.voices(name) for name in self.models):
            raise DataError(
                "There is no voice to speak in.",
                "--reference FILE.wav, --voices FOLDER with a recording of each speaker, or an "
                "export made with `--format onnx --voice FILE.wav`",
            )

    def model(self, name: str | None) -> tuple[str, Speaker]:
        """The model asked for, with its name; the first, unless one is named."""
        if name is None or name in OPENAI_MODELS:
            name = next(iter(self.models))
        if name not in self.models:
            raise UnknownNameError(
                f"There is no model {name!r}.", f"one of {', '.join(self.models)}"
            )
        return name, self.models[name]

    def voices(self, model: str) -> list[str]:
        """The voices that a model can speak in now."""
        names = list(getattr(self.models[model].files, "voices", {}))
        if self._references is not None and DEFAULT not in names:
            names.append(DEFAULT)
        return [*names, *(name for name in sorted(self._scan()) if name not in names)]

    def hear(self, model: str, voice: str | None) -> HeardVoice:
        """The voice of that name as that model hears it; the first, unless one is named."""
        names = self.voices(model)
        name = voice if voice not in (None, "", model) else names[0]
        assert name is not None
        if name not in names:
            raise UnknownNameError(
                f"There is no voice {name[:80]!r}.", f"one of {', '.join(names)}"
            )
        speaker = self.models[model]
        inside: Mapping[str, HeardVoice] = getattr(speaker.files, "voices", {})
        if self._references is not None and name == DEFAULT:
            return self._listen(model, name, self._references, None)
        if name in inside:
            return inside[name]
        files = self._scan().get(name)
        if files is None:  # gone between the two looks
            raise UnknownNameError(f"There is no voice {name!r} any more.", "GET /v1/audio/voices")
        return self._listen(model, name, list(files.paths), files.state)

    def _listen(self, model: str, name: str, recordings: Recordings, state: object) -> HeardVoice:
        key = (model, name, state)
        with self._lock:  # one at a time: all who ask for a new voice wait for one hearing
            if key not in self._heard:
                pieces = read_references(recordings)
                self._heard[key] = self.models[model].listen_to_pieces(pieces)
                while len(self._heard) > MOST_HEARD:
                    self._heard.popitem(last=False)
            self._heard.move_to_end(key)
            return self._heard[key]

    def _scan(self) -> dict[str, Files]:
        """The speakers in the folder at this moment."""
        found: dict[str, Files] = {}
        if self._folder is None:
            return found
        try:
            for entry in sorted(self._folder.iterdir()):
                is_speaker = entry.is_dir() and not entry.name.startswith(".")
                inside = sorted(entry.iterdir()) if is_speaker else [entry]
                paths = tuple(p for p in inside if p.suffix.lower() in SOUNDS and p.is_file())
                if paths:
                    stats = [path.stat() for path in paths]
                    state = tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)
                    found.setdefault(entry.name if is_speaker else entry.stem, Files(paths, state))
        except OSError as error:
            log.warning("The voices in %s cannot be listed: %s", self._folder, error)
        return found
