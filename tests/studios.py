"""A small studio with made-up clips, and whoever talks to it."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile
from starlette.testclient import TestClient

from myxtts.recordings.folder import ImportedClip, Origin, write_clips
from myxtts.studio.app import make_app
from myxtts.studio.desk import Desk
from myxtts.studio.project import Project
from myxtts.studio.server import StudioServer, serve_studio

TOKEN = "a-token-of-tests"
HERE = "http://127.0.0.1:8091"
RATE = 22_050


def wave_bytes(seconds: float = 2.0, *, pitch: float = 150.0, level: float = 0.3) -> bytes:
    """A WAV file with something to hear."""
    times = np.arange(round(seconds * RATE)) / RATE
    sound = level * np.sin(2 * np.pi * pitch * times) * (0.6 + 0.4 * np.sin(8 * times))
    file = io.BytesIO()
    soundfile.write(file, sound, RATE, "PCM_16", format="WAV")
    return file.getvalue()


def make_desk(folder: Path, *, texts: tuple[str, ...] = ()) -> Desk:
    """A project whose recording was cut into clips with these texts."""
    project = Project(folder)
    project.open()
    if texts:
        (project.recordings / "talk.wav").write_bytes(wave_bytes(3.0))
        (project.data / "wavs").mkdir(parents=True)
        clips = []
        for number, text in enumerate(texts):
            name = f"wavs/{number:03d}.wav"
            (project.data / name).write_bytes(wave_bytes(2.0 + number % 3, pitch=120 + 9 * number))
            origin = Origin("talk.wav", 3.0 * number, 3.0 * number + 2)
            clips.append(ImportedClip(name, text, "ann", "en", origin))
        write_clips(project.data, clips)
    return Desk(project)


def visit(desk: Desk, *, lets_in: bool = True, **how: object) -> TestClient:
    """A browser of this machine, as the page sends things, with the cookie or without."""
    client = TestClient(make_app(desk, token=TOKEN, **how), base_url=HERE)  # type: ignore[arg-type]
    client.headers["Origin"] = HERE
    if lets_in:
        assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


@contextlib.contextmanager
def running(folder: Path, **how: object) -> Iterator[StudioServer]:
    """A real server on a free port, for what only sockets can do."""
    with serve_studio(folder, port=0, **how) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        until = time.monotonic() + 20
        while not server.server.started and time.monotonic() < until:
            time.sleep(0.02)
        try:
            yield server
        finally:
            server.stop()
            thread.join(20)
            assert not thread.is_alive()
