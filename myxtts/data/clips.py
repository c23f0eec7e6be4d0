"""Looks at every listed recording once and keeps it or drops it, with the reason."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from myxtts.data.manifests import Manifest
from myxtts.data.mono import channels_cancel
from myxtts.data.verdicts import MIN_SECONDS, Verdict, VerdictCache

log = logging.getLogger(__name__)

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
FOLDERS = ("wavs", "wav", "clips")  # of LJ Speech, Piper and Common Voice
CLIPPED = 0.999  # a sample this loud has hit the ceiling
SILENCE = 1e-3  # -60 dB
LEVEL_SECONDS = 0.025
MAX_SNR_DB = 100.0


def check_clips(
    manifest: Manifest,
    *,
    max_seconds: float,
    workers: int | None = None,
    on_clip: Callable[[], None] = lambda: None,
) -> list[Verdict]:
    """A verdict for every listed clip, in order. What was found before is not looked at again."""
    root = Path(os.path.realpath(manifest.folder))
    given = Path(os.path.abspath(manifest.folder))  # as the user spells it, links and all
    places = [root, *(root / name for name in FOLDERS if (root / name).is_dir())]
    for place in places[1:]:
        if place.is_symlink():
            log.info("%s is a link: recordings are read from %s", place, os.path.realpath(place))
    cache = VerdictCache(root, max_seconds)

    def judge(index: int) -> Verdict:
        if index in manifest.bad_rows:
            verdict = Verdict("bad row", manifest.bad_rows[index])
        elif not manifest.texts[index].strip():
            verdict = Verdict("empty text")
        else:
            name = manifest.audio[index]
            inside = _inside(root, name) or _inside(given, name)
            if inside is None:
                verdict = Verdict("outside the data folder", name)
            else:
                verdict = _check_file(root, places, inside, max_seconds, cache)
        on_clip()
        return verdict

    with ThreadPoolExecutor(workers or min(32, 2 * (os.cpu_count() or 1))) as pool:
        verdicts = list(pool.map(judge, range(len(manifest)), chunksize=16))
    cache.save()
    return verdicts


def find_audio(places: Sequence[Path], name: str) -> Path | None:
    """The file that a list means by a name, with or without an ending, in the first such place."""
    if "\0" in name:
        return None
    for base in (place / name for place in places):
        for path in (base, *(base.with_name(base.name + ending) for ending in EXTENSIONS)):
            # A folder `wavs/x` beside `wavs/x.wav` is not meant; a folder named `x.wav` is.
            if os.path.lexists(path) and (path.suffix.lower() in EXTENSIONS or not path.is_dir()):
                return path
    return None


def _inside(folder: Path, name: str) -> str | None:
    """A name from a list as a path below the folder, by its letters alone; None if it leads out.

    Whether a file outside exists is nobody's business here. And `..` is taken out of the name
    before any link is followed, or it would climb from where a link leads.
    """
    path = Path(os.path.normpath(folder / name))
    return str(path.relative_to(folder)) if folder in path.parents else None


def _check_file(
    root: Path, places: Sequence[Path], name: str, max_seconds: float, cache: VerdictCache
) -> Verdict:
    try:
        found = find_audio(places, name)
        if found is None:
            return Verdict("missing", name)
        real = Path(os.path.realpath(found))
        # A folder that is a link was put there by the user, as a large corpus often is; a file
        # that is a link out of its folder would show one that nobody meant to train on.
        home = Path(os.path.realpath(found.parent))
        if not (real.is_relative_to(root) or real.is_relative_to(home)):
            return Verdict("outside the data folder", name)
        if not real.is_file():
            return Verdict("missing" if not real.exists() else "not a file", name)
        stat = real.stat()
    except OSError as error:  # a name too long for the file system, a folder without permission
        return Verdict("unreadable", str(error))
    relative = str((real if real.is_relative_to(root) else found).relative_to(root))
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
                return Verdict("too long", f"{seconds:.2f} s, at most {max_seconds:.2f} s", *facts)
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
        cancels=channels_cancel(samples),
        snr_db=_speech_above_noise(samples.mean(axis=1), facts[2]),
    )


def _speech_above_noise(wave: npt.NDArray[np.float32], rate: int) -> float:
    """How far loud moments lie above quiet ones, in decibels: with pauses, speech above noise."""
    size = max(1, int(LEVEL_SECONDS * rate))
    whole = wave[: len(wave) // size * size].reshape(-1, size)
    if not len(whole):
        return MAX_SNR_DB
    power = 10.0 * np.log10(np.square(whole).mean(axis=1) + 1e-10)
    loud, quiet = np.percentile(power, [95, 5])
    return round(min(max(float(loud - quiet), 0.0), MAX_SNR_DB), 1)


def _claims_too_much(sound: soundfile.SoundFile) -> bool:
    """Whether a WAV header promises more samples than follow; libsndfile mends that in silence.

    A recorder that writes to a pipe leaves the length open (all bits set), which is no fault.
    """
    mended = re.search(r"^data : (\d+) \(should be (\d+)\)", sound.extra_info, re.MULTILINE)
    if mended is None:
        return False
    promised, present = map(int, mended.groups())
    return present < promised < 0xFFFFFF00
