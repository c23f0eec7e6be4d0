"""`python -m myxtts.studio.hearing PROJECT`: what is wrong with the clips, for a page to read.

The same as `myxtts data check PROJECT/data --listen`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.errors import MyXTTSError
from myxtts.messages import Message
from myxtts.studio.importing import EVERY_S, read_progress
from myxtts.studio.project import Project, write_whole

PROGRESS_FILE, FINDINGS_FILE = "hearing-progress.json", "findings.json"
Told = tuple[Message, str, Sequence[str]]  # what was found, its remedy, sentences to record
OF_A_CLIP = {
    "wrong text": "It may say something else than its text",
    "same audio": "It sounds the same as another clip",
}


def main(arguments: list[str]) -> int:
    """Listen to every clip, telling how far it is."""
    project = Project(Path(arguments[0]))
    try:
        write_whole(project.own / FINDINGS_FILE, json.dumps(_listen(project)).encode())
    except MyXTTSError as error:
        print(error)
        return 2
    return 0


def _listen(project: Project) -> dict[str, Any]:
    from myxtts.config.config import DataConfig
    from myxtts.data.prepare import prepare_data
    from myxtts.data.summary import summarise
    from myxtts.recordings.audit import audit_list
    from myxtts.recordings.sound_audit import audit_sound

    prepared = prepare_data(project.data, DataConfig(language=project.language))
    manifest, verdicts = prepared.manifest, prepared.verdicts
    summary = summarise(manifest, verdicts, prepared.tokenizer.unknown_counts)
    done, told = 0, 0.0

    def count() -> None:
        nonlocal done, told
        done += 1
        if time.monotonic() - told >= EVERY_S:
            told = time.monotonic()
            known = json.dumps({"done": done, "total": summary.kept})
            write_whole(project.own / PROGRESS_FILE, known.encode())

    found = audit_list(manifest, verdicts, summary.speaker_minutes)
    found += audit_sound(manifest, verdicts, on_clip=count)
    return {
        "findings": [
            {
                "what": each.what,
                "english": each.detail.english,
                "values": [str(value) for value in each.detail.values],
                "clips": each.clips,
                "say": each.say,
                "remedy": each.remedy,
            }
            for each in found
        ],
        "texts": {clip.audio: clip.text for clip in manifest},  # as they were then
    }


def read_findings(project: Project) -> tuple[list[Told], dict[tuple[str, str], list[str]]]:
    """What was found, what to do about it and sentences to record; and warnings of single clips.

    The last are by audio and text: whoever corrects a text is warned of the old one no more.
    """
    found = read_progress(project, FINDINGS_FILE)
    told: list[Told] = []
    warnings: dict[tuple[str, str], list[str]] = {}
    try:
        for each in found.get("findings", []):
            detail = Message(str(each["english"]), tuple(map(str, each["values"])))
            told.append((detail, str(each["remedy"]), [str(text) for text in each["say"]]))
            for audio in each["clips"] if each["what"] in OF_A_CLIP else ():
                warned = warnings.setdefault((audio, found["texts"][audio]), [])
                warned.append(OF_A_CLIP[each["what"]])
    except (KeyError, TypeError, AttributeError):
        return [], {}
    return told, warnings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
