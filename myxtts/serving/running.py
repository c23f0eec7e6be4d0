"""Runs the server until it is stopped: HTTP by uvicorn, Wyoming beside it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from myxtts.errors import MyXTTSError
from myxtts.inference.small.threads import calm_blas
from myxtts.serving.app import make_app
from myxtts.serving.catalog import Catalog
from myxtts.serving.settings import ServeSettings, is_loopback
from myxtts.serving.speech import Studio
from myxtts.serving.wyoming_server import WyomingServer

log = logging.getLogger(__name__)

OPEN_FILES = 65536
BACKLOG = 2048
UNREAD_BYTES = 1 << 18


def serve(
    catalog: Catalog, settings: ServeSettings, *, ready: Callable[[str], None] | None = None
) -> None:
    """Serve until SIGTERM or Ctrl-C; streams then get the grace to end.

    `ready` is told the address when requests are answered.
    """
    calm_blas()
    _allow_many_connections()
    listener = _listen(settings)
    with _gentle_signals():
        asyncio.run(_serve(catalog, settings, listener, ready))


@contextlib.contextmanager
def _gentle_signals() -> Iterator[None]:
    """uvicorn raises the signal that ended it once more, when it is done: that ends nothing here.

    Else the process would be gone before Wyoming's streams had their grace.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(name, lambda *_: None) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


async def _serve(
    catalog: Catalog,
    settings: ServeSettings,
    listener: socket.socket,
    ready: Callable[[str], None] | None,
) -> None:
    studio = Studio(catalog, settings)
    config = uvicorn.Config(
        make_app(studio),
        log_config=None,
        access_log=False,  # who asked for what is nobody's business by default
        lifespan="off",
        timeout_graceful_shutdown=max(1, round(settings.grace)),
        timeout_keep_alive=30,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=65536,
        server_header=False,
    )
    server = uvicorn.Server(config)
    wyoming = None
    try:
        address = settings.wyoming_address()
        if address is not None:
            wyoming = WyomingServer(studio, *address)
            await _start_wyoming(wyoming, *address)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started and ready is not None:
            host, port = listener.getsockname()[:2]
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        ending = asyncio.ensure_future(_end_wyoming(server, wyoming, settings.grace))
        await serving
        await ending
    finally:
        studio.close()


async def _start_wyoming(wyoming: WyomingServer, host: str, port: int) -> None:
    try:
        port = await wyoming.start()
    except OSError as error:
        raise MyXTTSError(
            f"Wyoming cannot listen on {host}:{port}: {error.strerror}.", "another --wyoming port"
        ) from error
    log.info("Wyoming listens on tcp://%s:%d", host, port)
    if not is_loopback(host):
        log.warning("Wyoming knows no token: whoever reaches %s:%d can make it speak", host, port)


async def _end_wyoming(server: uvicorn.Server, wyoming: WyomingServer | None, grace: float) -> None:
    while not server.should_exit:
        await asyncio.sleep(0.1)
    if wyoming is not None:
        await wyoming.stop(grace)


def _listen(settings: ServeSettings) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: by itself the system would hold minutes of speech for a reader.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
        listener.bind(address)
    except OSError as error:
        raise MyXTTSError(
            f"The server cannot listen on {settings.host}:{settings.port}: {error.strerror}.",
            "another --port, or stop what listens there",
        ) from error
    return listener


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
