"""Random bytes, cuts and changes of every file MyXTTS reads: only errors with a way out come out.

Every part takes its share of MYXTTS_FUZZ_SECONDS (300) and prints its seed and its count; a seed of
an earlier run is given again with MYXTTS_FUZZ_SEED.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import soundfile

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.prepare import prepare_data
from myxtts.errors import MyXTTSError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.export import export_voice
from myxtts.inference.voice_files import load_voice
from myxtts.profiling.measurements import read_profile
from myxtts.runs.checkpoints import CheckpointStore, load_checkpoint
from myxtts.runs.events import EventReader
from myxtts.runs.history import RunHistory
from myxtts.runs.panel import render_panel
from myxtts.runs.trace import TRACE_FILE, read_trace
from myxtts.text.sentences import split_sentences
from myxtts.text.tokenizers import CharacterTokenizer
from tests.profiles import make_profile
from tests.small_runs import hum, save_run
from tests.told_runs import half_a_run, write_events, write_trace

SECONDS = float(os.environ.get("MYXTTS_FUZZ_SECONDS", "300"))
SEED = int(os.environ.get("MYXTTS_FUZZ_SEED", random.SystemRandom().randrange(2**32)))
PARTS = 9
LONGEST_S = 10.0  # of one try, on a busy machine
MOST_GROWTH_MB = 800
ODD = (b"\x00", b"\xff", b'"', b"\n", b"\r", b"{", b"[", b"|", b",", b"\t", b"-1", b"1e999", b"NaN")
ODD += (b"../../etc/passwd", b"\xe2\x80\xae", b"\x1b[31m", b"9" * 400, b"null", b"true", b"!!int a")


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """The bytes with a few accidents; at times others altogether."""
    if rng.random() < 0.05:
        return rng.randbytes(rng.randrange(400))
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            del changed[at:]
        elif kind == 1:
            del changed[at : at + rng.randrange(1, 40)]
        elif kind == 2:
            changed[at:at] = rng.choice(ODD)
        elif kind == 3 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 4:
            changed[at:at] = changed[rng.randrange(len(changed) + 1) :][: rng.randrange(1, 200)]
        else:
            changed[at : at + 4] = rng.randbytes(4)
    return bytes(changed)


def fuzz(name: str, attempt: Callable[[random.Random], None], capsys) -> None:
    """Try it again and again; whatever is no MyXTTSError fails, and so does what takes long."""
    process = psutil.Process()
    before, tries, refused = process.memory_info().rss, 0, 0
    end = time.monotonic() + SECONDS / PARTS
    while time.monotonic() < end:
        rng, began = random.Random(f"{SEED}-{name}-{tries}"), time.monotonic()
        try:
            attempt(rng)
        except MyXTTSError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"MYXTTS_FUZZ_SEED={SEED}, {name}, try {tries}") from error
        tries += 1
        assert time.monotonic() - began < LONGEST_S, f"{SEED}-{name}-{tries}"
    grown = (process.memory_info().rss - before) / 2**20
    with capsys.disabled():
        print(f"\n{name}: {tries} tries, {refused} refused, {grown:+.0f} MB, seed {SEED}")
    assert tries > 0
    assert grown < MOST_GROWTH_MB


pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 120)]


def test_configs(tmp_path, capsys):
    raw = XTTSConfig().to_yaml().encode()
    path = tmp_path / "config.yaml"

    def attempt(rng: random.Random) -> None:
        path.write_bytes(mutated(raw, rng))
        XTTSConfig.from_yaml(path)

    fuzz("configs", attempt, capsys)


LISTS = {
    "metadata.csv": 'a|Hello there.|Hello there.\nb|She said "no".|She said no.\n',
    "header.csv": "audio_file|text|speaker_name|language\na.wav|Hello.|anna|en\n",
    "clips.tsv": "client_id\tpath\tsentence\tlocale\nxy\ta.wav\tHello.\ten\n",
    "clips.jsonl": '{"audio_filepath": "a.wav", "text": "Hello.", "duration": 1.0}\n',
}


@pytest.fixture
def corpus(tmp_path):
    for name in "ab":
        soundfile.write(tmp_path / f"{name}.wav", hum(0.5), SAMPLE_RATE, subtype="PCM_16")
    return tmp_path


def test_clip_lists(corpus, capsys):
    def attempt(rng: random.Random) -> None:
        name = rng.choice(list(LISTS))
        path = corpus / name
        path.write_bytes(mutated(LISTS[name].encode(), rng))
        prepare_data(path, DataConfig(tokenizer="characters"))

    fuzz("clip lists", attempt, capsys)


def test_recordings(corpus, capsys):
    raw = (corpus / "a.wav").read_bytes()[:4000]
    (corpus / "metadata.csv").write_text("a|Hello there.\n")

    def attempt(rng: random.Random) -> None:
        (corpus / "a.wav").write_bytes(mutated(raw, rng))
        prepare_data(corpus, DataConfig(tokenizer="characters"))

    fuzz("recordings", attempt, capsys)


def one_file_changed(source: Path, copy: Path, rng: random.Random) -> None:
    """A copy of a folder with one of its files changed."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    file = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
    file.write_bytes(mutated(file.read_bytes(), rng))


def test_checkpoints(tmp_path, capsys):
    run = save_run(tmp_path / "run")

    def attempt(rng: random.Random) -> None:
        one_file_changed(run, tmp_path / "copy", rng)
        CheckpointStore(tmp_path / "copy" / "checkpoints").latest(("model", "ema"))
        load_checkpoint(next((tmp_path / "copy" / "checkpoints").iterdir()), ("model", "ema"))

    fuzz("checkpoints", attempt, capsys)


def test_exports(tmp_path, capsys):
    export = export_voice(save_run(tmp_path / "run"), tmp_path / "export")

    def attempt(rng: random.Random) -> None:
        one_file_changed(export, tmp_path / "copy", rng)
        load_voice(tmp_path / "copy")

    fuzz("exports", attempt, capsys)


def test_events(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    write_events(run, half_a_run())
    path = run / "events.jsonl"
    raw = path.read_bytes()

    def attempt(rng: random.Random) -> None:
        path.write_bytes(mutated(raw, rng))
        history = RunHistory()
        reader = EventReader(path)
        for event in reader.poll():
            history.add(event)
        assert reader.skipped < 100
        render_panel(history.view())
        history.verdict()

    fuzz("events", attempt, capsys)


def test_profiles(tmp_path, capsys):
    raw, path = make_profile().to_json().encode(), tmp_path / "profile.json"

    def attempt(rng: random.Random) -> None:
        path.write_bytes(mutated(raw, rng))
        read_profile(path)

    fuzz("profiles", attempt, capsys)


def test_timelines(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    write_trace(write_events(run, half_a_run()))
    path = run / TRACE_FILE
    raw = path.read_bytes()

    def attempt(rng: random.Random) -> None:
        path.write_bytes(mutated(raw, rng))
        read_trace(path)

    fuzz("timelines", attempt, capsys)


def test_texts(capsys):
    tokenizer = CharacterTokenizer()

    def attempt(rng: random.Random) -> None:
        raw = mutated("Hello, سلام! 12,345 $3.50 – 你好。\n\nNext.".encode(), rng)
        text = raw.decode("utf-8", errors=rng.choice(("replace", "surrogateescape")))
        for language in ("en", "fa", "zh-cn", "hi"):
            for sentence, _ in split_sentences(text, language):
                tokenizer.encode(sentence, language)

    fuzz("texts", attempt, capsys)
