"""The ONNX export that tests speak with, loaded once a process, and servers that run it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import uvicorn

from myxtts.inference.small.threads import calm_blas
from myxtts.inference.small.voice import SmallVoice
from myxtts.serving.app import make_app
from myxtts.serving.catalog import Catalog
from myxtts.serving.running import UNREAD_BYTES
from myxtts.serving.settings import ServeSettings
from myxtts.serving.speech import Studio
from tests.support import ROOT

FIXTURE = ROOT / "tests" / "fixtures" / "small_voice"
HELLO = "Hello there. How are you?"


@lru_cache(maxsize=1)
def small_voice() -> SmallVoice:
    calm_blas()
    return SmallVoice.load(FIXTURE)


class Running(uvicorn.Server):
    """A server in a thread of the test's process; its studio can be looked at."""

    studio: Studio
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running(catalog: Catalog | None = None, **settings: Any) -> Iterator[Running]:
    """A server on a free port of this machine, with the small voice as `tiny`."""
    catalog = catalog or Catalog({"tiny": small_voice()})
    settings = {"workers": 2, "patience": 5.0, **settings}
    studio = Studio(catalog, ServeSettings(port=0, **settings))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES // 8)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        make_app(studio),
        log_config=None,
        lifespan="off",
        backlog=2048,
        timeout_graceful_shutdown=10,
    )
    server = Running(config)
    server.studio, server.port = studio, listener.getsockname()[1]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        for _ in range(1000):
            if server.started:
                break
            time.sleep(0.01)
        assert server.started
        yield server
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        studio.close()
        assert not thread.is_alive()
