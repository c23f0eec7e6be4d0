"""Takes recordings from the page: counted while they come, looked at before they count."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from myxtts.errors import DataError, MyXTTSError
from myxtts.messages import Message
from myxtts.studio.project import (
    MOST_RECORDINGS,
    Project,
    RefusedError,
    check_name,
    sound_seconds,
)

MB = 1 << 20
MAX_UPLOAD_MB = 1024  # an hour and a half of stereo as a CD has it
MAX_TEXT_BYTES = 4 * MB
KEEP_FREE_BYTES = 512 * MB  # the disk is not filled to its last byte
SOUNDS = (".wav", ".flac", ".ogg", ".opus", ".mp3")
TEXTS = (".txt", ".srt", ".vtt")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")


class TooLargeError(RefusedError):
    """More than may be uploaded; answered as such, and at once."""


def check_upload(project: Project, name: str, *, announced: int | None, limit: int) -> Path:
    """Where an upload goes; refused by its name and announced size before a byte is read."""
    name = check_name(name)
    ending = Path(name).suffix.lower()
    if ending in ARCHIVES:
        raise DataError("An archive is not taken.", "unpack it, and drop the recordings themselves")
    if ending not in (*SOUNDS, *TEXTS):
        raise RefusedError(
            Message("The file is neither a recording nor a text."),
            Message("{}, and their texts as {}", (", ".join(SOUNDS), ", ".join(TEXTS))),
        )
    if announced is not None:
        _check_size(project, announced, limit=_limit_of(ending, limit))
    target = project.recordings / name
    if not target.exists() and len(list(project.recordings.iterdir())) >= MOST_RECORDINGS:
        raise RefusedError(
            Message("There are {} files already.", (str(MOST_RECORDINGS),)),
            Message("myxtts data import takes any number"),
        )
    return target


async def receive(
    project: Project, target: Path, body: AsyncIterator[bytes], *, limit: int
) -> float | None:
    """Write what comes, and put it in its place if it is what its name says.

    Returns how many seconds of sound it is; None for a text. Whatever goes wrong leaves nothing.
    """
    ending = target.suffix.lower()
    limit = _limit_of(ending, limit)
    draft = project.own / f"upload-{secrets.token_hex(8)}{ending}"
    received = 0
    try:
        with draft.open("xb") as file:
            async for chunk in body:
                received += len(chunk)
                _check_size(project, received, limit=limit, coming=len(chunk))
                file.write(chunk)
        seconds = _look_at(draft, is_text=ending in TEXTS)
        draft.replace(target)
        return seconds
    except OSError as error:
        raise MyXTTSError(
            f"The file cannot be written: {error.strerror}", "free some space there"
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def _limit_of(ending: str, limit: int) -> int:
    return min(limit, MAX_TEXT_BYTES) if ending in TEXTS else limit


def _check_size(project: Project, size: int, *, limit: int, coming: int | None = None) -> None:
    if size > limit:
        raise TooLargeError(
            Message("The file is larger than {} MB.", (str(limit // MB),)),
            Message("cut it in parts, compress it (.flac, .mp3), or use myxtts data import"),
        )
    if project.free_bytes() < KEEP_FREE_BYTES + (size if coming is None else coming):
        raise TooLargeError(
            Message("The disk has no room for the file."), Message("free some space there")
        )


def _look_at(path: Path, *, is_text: bool) -> float | None:
    """What is really in the file."""
    if is_text:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError("The text is not UTF-8.", "save it as UTF-8") from error
        if "\0" in text:
            raise DataError("The text is none: it holds binary data.", "save it as plain text")
        return None
    seconds = sound_seconds(path)
    if seconds is None:
        raise DataError(
            "The file holds no sound that can be read.", "convert it to WAV, FLAC, OGG or MP3"
        )
    return seconds
