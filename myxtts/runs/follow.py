"""Follows a run by its event file, from this machine or another that shares the folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

from myxtts.errors import DataError
from myxtts.runs.events import EventReader
from myxtts.runs.folder import EVENTS_FILE
from myxtts.runs.history import RunHistory
from myxtts.runs.view import RunView


class NothingToldError(DataError):
    """The run has written nothing; one that is about to start soon will."""


class RunFollower:
    """Reads what a run writes; `history` is what it told so far."""

    def __init__(self, run_dir: Path) -> None:
        if not (run_dir / EVENTS_FILE).is_file():
            problem = f"There is no training run in {run_dir}: it holds no {EVENTS_FILE}."
            if near := _runs_in(run_dir):
                raise DataError(problem, f"myxtts monitor {near[0]}")
            raise NothingToldError(
                problem, "give the folder that training was given as --checkpoint-dir"
            )
        self.run_dir = run_dir
        self.history = RunHistory()
        self._reader = EventReader(run_dir / EVENTS_FILE)
        self.poll()
        if not self.history.news:
            raise NothingToldError(
                f"The run in {run_dir} has not told anything yet: {EVENTS_FILE} holds no event.",
                "wait until its training has started, then ask again",
            )

    def poll(self) -> RunView:
        """Read what is new; the run as it is now."""
        for event in self._reader.poll():
            self.history.add(event)
        view = self.history.view()
        if not view.is_over and self._is_dead():
            self.history.note_death()
            view = self.history.view()
        return view

    def _is_dead(self) -> bool:
        """Whether its process is gone, where that can be seen from here."""
        news = self.history.news
        if news.get("host") != socket.gethostname() or not isinstance(news.get("pid"), int):
            return False
        if news["pid"] == os.getpid():
            return False
        try:
            process = psutil.Process(news["pid"])
            # Another process may have got the number since.
            return bool(process.create_time() > self.history.began + 1)
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False


def _runs_in(folder: Path) -> list[Path]:
    """The runs right below a folder, the newest first."""
    found = sorted(folder.glob(f"*/{EVENTS_FILE}"), key=lambda file: -file.stat().st_mtime)
    return [file.parent for file in found]
