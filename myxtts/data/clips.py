"""Looks at every listed recording once and keeps it or drops it, with the reason."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile

from myxtts.data.manifests import Manifest

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
MIN_SECONDS = 0.3
CLIPPED = 0.999  # a sample this loud has hit the ceiling
SILENCE = 1e-3  # -60 dB
CACHE_VERSION = 2

# What a dropped clip's owner can do about it, by reason.
REMEDIES = {
    "bad row": "mend the row in the clip list",
    "empty text": "write what is said into the clip list",
    "outside the data folder": "copy the file into the data folder",
    "missing": "check the name, or add the file (.wav, .flac, .ogg or .mp3)",
    "not a file": "the name belongs to a folder or device; rename it",
    "empty file": "record or copy it again",
    "unreadable": "convert it to WAV, FLAC, OGG or MP3",
    "truncated": "copy it again: it holds less audio than it says",
    "not a number": "render it again: it holds NaN or infinite samples",
    "silent": "record it again: nothing is heard",
    "too short": "leave it out, or join it with another",
    "too long": "cut it at a pause, or raise --max-mel-frames",
    "text too long": "cut the clip at a pause, or raise --max-text-length",
    "text too long for its audio": "check that the text is what the recording says",
}


@dataclass(frozen=True)
class Verdict:
    """What was found out about one clip; kept if it has no `reason`."""

    reason: str = ""
    detail: str = ""
    path: str = ""  # relative to the data folder
    seconds: float = 0.0
    sample_rate: int = 0
    channels: int = 0
    frames: int = 0  # samples a channel, exactly
    subtype: str = ""  # as libsndfile names it: PCM_16, FLOAT, ...
    clipped: float = 0.0  # share of samples at the ceiling
    silence: float = 0.0  # share of the clip that is silent

    @property
    def kept(self) -> bool:
        """Whether the clip can be used."""
        return not self.reason


def check_clips(
    manifest: Manifest,
    *,
    max_seconds: float,
    workers: int | None = None,
    on_clip: Callable[[], None] = lambda: None,
) -> list[Verdict]:
    """A verdict for every listed clip, in order. What was found before is not looked at again."""
    root = Path(os.path.realpath(manifest.folder))
    cache = _Cache(root, max_seconds)

    def judge(index: int) -> Verdict:
        if index in manifest.bad_rows:
            verdict = Verdict("bad row", manifest.bad_rows[index])
        elif not manifest.texts[index].strip():
            verdict = Verdict("empty text")
        else:
            verdict = _check_file(root, manifest.audio[index], max_seconds, cache)
        on_clip()
        return verdict

    with ThreadPoolExecutor(workers or min(32, 2 * (os.cpu_count() or 1))) as pool:
        verdicts = list(pool.map(judge, range(len(manifest)), chunksize=16))
    cache.save()
    return verdicts


def find_audio(root: Path, name: str) -> Path | None:
    """The file that a list means by a name: with or without `wavs/`, with or without an ending."""
    if "\0" in name:
        return None
    for base in (root / name, root / "wavs" / name):
        for path in (base, *(base.with_name(base.name + ending) for ending in EXTENSIONS)):
            # A folder `wavs/x` beside `wavs/x.wav` is not meant; a folder named `x.wav` is.
            if os.path.lexists(path) and (path.suffix.lower() in EXTENSIONS or not path.is_dir()):
                return path
    return None


def _check_file(root: Path, name: str, max_seconds: float, cache: _Cache) -> Verdict:
    # By its name alone first: whether a file outside exists is nobody's business here.
    if not Path(os.path.normpath(root / name)).is_relative_to(root):
        return Verdict("outside the data folder", name)
    try:
        found = find_audio(root, name)
        if found is None:
            return Verdict("missing", name)
        real = Path(os.path.realpath(found))
        if not real.is_relative_to(root):
            return Verdict("outside the data folder", name)
        if not real.is_file():
            return Verdict("missing" if not real.exists() else "not a file", name)
        stat = real.stat()
    except OSError as error:  # a name too long for the file system, a folder without permission
        return Verdict("unreadable", str(error))
    relative = str(real.relative_to(root))
    stamp = f"{stat.st_size}:{stat.st_mtime_ns}"
    known = cache.get(relative, stamp)
    if known is not None:
        return known
    verdict = _listen(real, relative, stat.st_size, max_seconds)
    cache.put(relative, stamp, verdict)
    return verdict


def _listen(real: Path, relative: str, size: int, max_seconds: float) -> Verdict:
    """Decode the whole file, once its header promises a length worth decoding."""
    if size == 0:
        return Verdict("empty file", relative, relative)
    try:
        with soundfile.SoundFile(str(real)) as sound:
            seconds = sound.frames / sound.samplerate
            facts = (
                relative,
                round(seconds, 4),
                sound.samplerate,
                sound.channels,
                sound.frames,
                sound.subtype,
            )
            if _claims_too_much(sound):
                return Verdict("truncated", "its header promises more than the file holds", *facts)
            if seconds > max_seconds:
                return Verdict("too long", f"{seconds:.1f} s, at most {max_seconds:.1f} s", *facts)
            if seconds < MIN_SECONDS:
                return Verdict("too short", f"{seconds:.2f} s, at least {MIN_SECONDS} s", *facts)
            samples = sound.read(dtype="float32", always_2d=True)
            promised = sound.frames
    except (soundfile.SoundFileError, OSError, ValueError, RuntimeError, MemoryError) as error:
        return Verdict("unreadable", str(error), relative)
    if len(samples) < promised * 0.98:
        return Verdict("truncated", f"{len(samples)} of {promised} samples", *facts)
    if not np.isfinite(samples).all():
        return Verdict("not a number", "NaN or infinite samples", *facts)
    loud = np.abs(samples).max(axis=1)
    if loud.max() < SILENCE:
        return Verdict("silent", f"nothing above {SILENCE} of full scale", *facts)
    return Verdict(
        "",
        "",
        *facts,
        clipped=round(float((loud >= CLIPPED).mean()), 6),
        silence=round(float((loud < SILENCE).mean()), 4),
    )


def _claims_too_much(sound: soundfile.SoundFile) -> bool:
    """Whether a WAV header promises more samples than follow; libsndfile mends that in silence.

    A recorder that writes to a pipe leaves the length open (all bits set), which is no fault.
    """
    mended = re.search(r"^data : (\d+) \(should be (\d+)\)", sound.extra_info, re.MULTILINE)
    if mended is None:
        return False
    promised, present = map(int, mended.groups())
    return present < promised < 0xFFFFFF00


class _Cache:
    """Verdicts by file stamp, kept beside the data so that the second start is fast."""

    def __init__(self, root: Path, max_seconds: float) -> None:
        self._path = root / ".myxtts" / "verdicts.json"
        self._key = f"{CACHE_VERSION}:{max_seconds}"
        self._new = False
        self._known: dict[str, tuple[str, dict[str, object]]] = {}
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            if stored["key"] == self._key:
                self._known = {name: tuple(value) for name, value in stored["clips"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._known = {}  # none yet, or not one of ours: it is only a cache

    def get(self, relative: str, stamp: str) -> Verdict | None:
        entry = self._known.get(relative)
        if entry is None or entry[0] != stamp:
            return None
        try:
            return Verdict(**entry[1])  # type: ignore[arg-type]
        except TypeError:
            return None

    def put(self, relative: str, stamp: str, verdict: Verdict) -> None:
        self._known[relative] = (stamp, asdict(verdict))
        self._new = True

    def save(self) -> None:
        if not self._new:
            return
        try:
            self._path.parent.mkdir(exist_ok=True)
            partial = self._path.with_suffix(f".{os.getpid()}.tmp")
            partial.write_text(
                json.dumps({"key": self._key, "clips": self._known}), encoding="utf-8"
            )
            partial.replace(self._path)
        except OSError:
            return  # a read-only data folder: every start looks anew
