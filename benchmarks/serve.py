"""How much a server speaks: many clients at once on this machine, beside the same without a server.

    python -m benchmarks.serve EXPORT_OR_RUN [--seconds 10] [--requests 5000]

A server in a process of its own; 1, 4, 16 and 64 clients ask it for sentences, one after another,
for so many seconds each:

    speech a second   seconds of audio made in a second, by all of them together
    of it alone       the share of what the same threads make when nobody is served
    first audio       from a request to its first bytes of audio: half, 95 and 99 of 100 are quicker

Then the requests for memory, very short ones: what the server holds after the first fifth of them
and at the end. Every request must be answered whole; a lost one gives exit code 1, and so does
memory that grows. On the CPU; the clients take their share of it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

CLIENTS = (1, 4, 16, 64)
SENTENCES = (
    "The weather was lovely this morning.",
    "Please bring nine small maps.",
    "Alice borrows twelve dark bottles.",
    "The old lighthouse keeper counted seven ships.",
)
RATE = 24_000  # of PCM
MOST_GROWTH_MB = 20.0


class Load(NamedTuple):
    """What so many clients met."""

    clients: int
    speech: float  # seconds of audio a second
    first_audio: np.ndarray  # seconds, each request
    lost: int


def ask(port: int, text: str) -> tuple[float, float]:
    """Seconds to the first audio, and seconds of audio; whatever is wrong is raised."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        began = time.perf_counter()
        body = json.dumps({"input": text, "response_format": "pcm"})
        connection.request("POST", "/v1/audio/speech", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        first = answer.read1(4096)
        took = time.perf_counter() - began
        rest = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {rest[:200]!r}")
        return took, (len(first) + len(rest)) / 2 / RATE
    finally:
        connection.close()


def measure(port: int, clients: int, seconds: float) -> Load:
    found: list[tuple[float, float]] = []
    lost: list[Exception] = []
    until = time.perf_counter() + seconds

    def client(number: int) -> None:
        while time.perf_counter() < until:
            try:
                found.append(ask(port, SENTENCES[(number + len(found)) % len(SENTENCES)]))
            except Exception as error:
                lost.append(error)

    began = time.perf_counter()
    threads = [threading.Thread(target=client, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    for error in lost[:3]:
        print(f"lost: {type(error).__name__}: {error}", file=sys.stderr)
    firsts = np.array([first for first, _ in found] or [np.inf])
    return Load(clients, sum(audio for _, audio in found) / took, firsts, len(lost))


def alone(path: Path, workers: int, seconds: float) -> float:
    """Seconds of audio a second that as many threads make of the same sentences by themselves."""
    from myxtts.inference.opening import open_voice
    from myxtts.inference.small.threads import calm_blas

    calm_blas()
    speaker = open_voice(path)
    voice = _voice(speaker)
    speaker.warm_up(voice)
    until = time.perf_counter() + seconds

    def speak(number: int) -> float:
        made = 0
        while time.perf_counter() < until:
            number += 1
            made += len(speaker.say(SENTENCES[number % len(SENTENCES)], voice=voice))
        return made / speaker.sample_rate

    began = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        made = sum(pool.map(speak, range(workers)))
    return made / (time.perf_counter() - began)


def _voice(speaker: Any) -> Any:
    from myxtts.text import espeak

    inside = getattr(speaker.files, "voices", {})
    if inside:
        return next(iter(inside.values()))
    return speaker.listen([espeak.speak(text, voice="en-us+f2") for text in SENTENCES[:3]])


def child(path: Path, workers: int) -> None:
    """The server, in its own process."""
    from myxtts.inference.opening import open_voice
    from myxtts.serving.catalog import Catalog
    from myxtts.serving.running import serve
    from myxtts.serving.settings import ServeSettings
    from myxtts.text import espeak

    speaker = open_voice(path)
    said = [espeak.speak(text, voice="en-us+f2") for text in SENTENCES[:3]]
    inside = getattr(speaker.files, "voices", {})
    catalog = Catalog({"voice": speaker}, references=None if inside else said)
    speaker.warm_up(catalog.hear("voice", None))
    settings = ServeSettings(port=0, workers=workers, max_queue=128)
    serve(catalog, settings, ready=lambda address: print(address, flush=True))


def hammer(port: int, process: psutil.Process, requests: int) -> tuple[float, float, int]:
    """The server's memory in MB after a fifth of the requests and after all; and the lost."""
    lost = 0

    def one(number: int) -> bool:
        try:
            return ask(port, ("Yes.", "No.", "Two.", "Ten.")[number % 4])[1] > 0
        except Exception:
            return False

    held = []
    with ThreadPoolExecutor(8) as pool:
        for begin, end in ((0, requests // 5), (requests // 5, requests)):
            lost += sum(not good for good in pool.map(one, range(begin, end)))
            held.append(process.memory_info().rss / 2**20)
    return held[0], held[1], lost


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("voice", type=Path, help="ONNX export, export or run folder")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    parser.add_argument("--requests", type=int, default=5000, help="for memory; 0 leaves it out")
    parser.add_argument("--workers", type=int, default=0, help="threads that speak; 0: all cores")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.voice, options.workers)
        return
    workers = options.workers or len(os.sched_getaffinity(0))
    best = alone(options.voice, workers, options.seconds)
    print(f"{workers} threads, CPU only; alone they make {best:.1f} s of speech a second\n")
    command = [sys.executable, "-m", "benchmarks.serve", str(options.voice), "--child"]
    command += ["--workers", str(workers)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    good = True
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2])
        print(
            f"{'clients':>8s}{'speech a s':>12s}{'of alone':>10s}{'first audio: p50':>18s}", end=""
        )
        print(f"{'p95':>9s}{'p99':>9s}{'requests':>10s}{'lost':>6s}")
        for clients in CLIENTS:
            load = measure(port, clients, options.seconds)
            p50, p95, p99 = (np.percentile(load.first_audio, p) * 1000 for p in (50, 95, 99))
            print(
                f"{clients:8d}{load.speech:12.1f}{load.speech / best:10.0%}{p50:15.0f} ms"
                f"{p95:6.0f} ms{p99:6.0f} ms{len(load.first_audio):10d}{load.lost:6d}",
                flush=True,
            )
            good = good and load.lost == 0
        if options.requests:
            early, late, lost = hammer(port, psutil.Process(server.pid), options.requests)
            print(
                f"\nmemory: {early:.0f} MB after {options.requests // 5} requests, {late:.0f} MB "
                f"after {options.requests}; {lost} lost"
            )
            good = good and lost == 0 and late - early < MOST_GROWTH_MB
    finally:
        server.terminate()
        server.wait(timeout=60)
    print("ok" if good else "MISSED: a request was lost, or memory grew")
    sys.exit(not good)


if __name__ == "__main__":
    main()
