"""Serves a studio on this machine: a port of 127.0.0.1, a token, and nothing of it in any log."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from myxtts.errors import MyXTTSError
from myxtts.studio.app import make_app
from myxtts.studio.desk import Desk
from myxtts.studio.project import Project

HOST = "127.0.0.1"
BACKLOG = 256


class StudioServer:
    """A studio at its address; `run` until it is told to end."""

    def __init__(self, desk: Desk, listening: socket.socket, *, lang: str, upload_mb: int) -> None:
        self.desk = desk
        token = secrets.token_urlsafe(24)
        self.address = f"http://{HOST}:{listening.getsockname()[1]}/?token={token}"
        app = make_app(desk, token=token, lang=lang, upload_mb=upload_mb)
        self._listening = listening
        self.server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,  # it would hold the token
                server_header=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=5,
            )
        )

    def run(self) -> None:
        """Serve until Ctrl-C, SIGTERM, or `stop`."""
        with contextlib.suppress(KeyboardInterrupt):
            self.server.run(sockets=[self._listening])

    def stop(self) -> None:
        """Let `run` return."""
        self.server.should_exit = True


@contextlib.contextmanager
def serve_studio(
    folder: Path, *, port: int = 0, lang: str = "en", upload_mb: int = 1024
) -> Iterator[StudioServer]:
    """A studio of a folder, ready to run."""
    project = Project(folder)
    project.open()
    desk = Desk(project)
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen(BACKLOG)
        except OSError as error:
            raise MyXTTSError(
                f"Port {port} cannot be served: {error.strerror}", "another --port, or --port 0"
            ) from error
        yield StudioServer(desk, listening, lang=lang, upload_mb=upload_mb)
    finally:
        listening.close()
        desk.close()
