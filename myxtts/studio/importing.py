"""`python -m myxtts.studio.importing PROJECT LANGUAGE`: an import whose progress a page can read.

The same as `myxtts data import PROJECT/recordings PROJECT/data --language LANGUAGE`.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from myxtts.documents import read_json
from myxtts.errors import MyXTTSError
from myxtts.studio.project import Project, write_whole

PROGRESS_FILE, REPORT_FILE = "import-progress.json", "import-report.json"
EVERY_S = 0.3


def main(arguments: list[str]) -> int:
    """Import, telling how far it is."""
    project, language = Project(Path(arguments[0])), arguments[1]
    from myxtts.recordings.importer import import_recordings
    from myxtts.recordings.report import ImportProgress

    told = 0.0

    def tell(progress: ImportProgress) -> None:
        nonlocal told
        if time.monotonic() - told >= EVERY_S or progress.done == progress.total:
            told = time.monotonic()
            known = {"file": progress.file, "done": progress.done, "total": progress.total}
            known |= {"share": progress.share, "eta": progress.eta}
            write_whole(project.own / PROGRESS_FILE, json.dumps(known).encode())

    try:
        report = import_recordings(
            project.recordings, project.data, language=language, progress=tell
        )
    except MyXTTSError as error:
        _write(project, {"problem": error.problem, "remedy": error.remedy})
        return 2
    _write(project, asdict(report) | {"folder": str(report.folder)})
    return 0


def read_progress(project: Project, file: str = PROGRESS_FILE) -> dict[str, Any]:
    """What an import told last; nothing before it told anything."""
    try:
        found = read_json(project.own / file)
    except (OSError, ValueError, MyXTTSError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(project: Project, report: dict[str, Any]) -> None:
    write_whole(project.own / REPORT_FILE, json.dumps(report, default=str).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
