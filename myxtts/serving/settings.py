"""What a server is told when it starts: where it listens, who may ask, and how much."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.errors import ConfigError

LEAST_TOKEN = 16  # characters


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Checked when it is made."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    voices: Path | None = None  # a folder of recordings
    max_characters: int = 20_000  # of one text
    max_queue: int = 64  # requests that speak or wait
    max_body: int = 1 << 20  # bytes
    workers: int = 0  # threads that speak; 0: one for each core
    grace: float = 30.0  # seconds that streams get to end when the server is stopped
    patience: float = 60.0  # seconds for a reader to take what was sent to it
    wyoming: str | None = None  # PORT, or HOST:PORT
    log_texts: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ConfigError(
                f"The token has {len(self.token)} characters.",
                f"{LEAST_TOKEN} or more, such as: openssl rand -hex 16",
            )
        if not self.is_loopback and self.token is None:
            raise ConfigError(
                f"On {self.host} anybody in the network could make it speak.",
                "--token SECRET (or MYXTTS_TOKEN), or --host 127.0.0.1",
            )
        if self.voices is not None and not self.voices.is_dir():
            raise ConfigError(
                f"The folder of voices {self.voices} does not exist.", "a folder with recordings"
            )

        self.wyoming_address()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def wyoming_address(self) -> tuple[str, int] | None:
        """Where Wyoming listens: on this machine only, unless an address is named."""
        if self.wyoming is None:
            return None
        host, _, port = self.wyoming.rpartition(":")
        if not port.isdecimal() or not 0 <= int(port) < 65536:
            raise ConfigError(
                f"Wyoming cannot listen on {self.wyoming!r}.", "a port such as 10200, or HOST:PORT"
            )
        return host.strip("[]") or "127.0.0.1", int(port)

    @property
    def num_workers(self) -> int:
        """How many threads speak."""
        return self.workers or len(os.sched_getaffinity(0))


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only; a name other than localhost may be anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
