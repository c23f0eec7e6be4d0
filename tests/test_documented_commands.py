"""Every command in every document is run, or marked as one that needs a GPU.

A line of a ```bash block is one command. It runs in a folder that looks like a checkout after
`make demo`. The end of a line may say otherwise:

    # needs a GPU      its flags are checked; training settings are too
    # takes minutes    its flags are checked; `make test-all` runs it
    # until Ctrl-C     its flags are checked
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.corpora.demo import make_demo_corpus
from myxtts.text import espeak
from myxtts.text.tokenizers import PhonemeTokenizer
from tests.profiles import make_profile
from tests.support import ROOT, check_flags, run_warm
from tests.told_runs import event, half_a_run, pipeline, write_events, write_trace

DOCUMENTS = [
    *(
        ROOT / name
        for name in ("README.md", "README.fa.md", "CONTRIBUTING.md", "CONTRIBUTING.fa.md")
    ),
    *sorted((ROOT / "docs").glob("*/*.md")),
]
NEEDS_A_GPU, TAKES_MINUTES, UNTIL_CTRL_C = "# needs a GPU", "# takes minutes", "# until Ctrl-C"
SCRIPTS = {
    "train_main.py": ["train"],
    "validate_memory_isolation.py": ["validate"],
    "validate_dual_gpu_pipeline.py": ["validate"],
    "utilities/dual_gpu_bottleneck_profiler.py": ["profile"],
}
# They change the machine, or are other people's programs.
NOT_OURS = {
    *("git", "cd", "pip", "sudo", "docker", "nvidia-smi", "wsl", "export", "tensorboard"),
    *("curl", "myxtts-voice"),  # tests/test_serving.py, tests/test_voice_package.py
}
RUN_ELSEWHERE = (
    *("examples/", "tests/", "utilities/"),
    *("benchmarks", "unittest", "pytest", "pip", "venv"),
)
LINKED = (
    *("myxtts", "configs", "examples", "utilities", "benchmarks", "tests"),
    *("train_main.py", "validate_memory_isolation.py", "validate_dual_gpu_pipeline.py"),
)


def documented_lines() -> list[str]:
    """Every line of a ```bash block, once, in the order of the documents."""
    lines: dict[str, None] = {}
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for block in re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            lines |= dict.fromkeys(line.strip() for line in block.splitlines())
    commands: dict[str, str] = {}
    for line in filter(None, lines):
        commands.setdefault(" ".join(shlex.split(line, comments=True)), line)
    return list(commands.values())


LINES = documented_lines()
assert len(LINES) > 20  # the documents were found, and read


def is_run(line: str) -> bool:
    return not any(mark in line for mark in (NEEDS_A_GPU, TAKES_MINUTES, UNTIL_CTRL_C))


def words_of(line: str) -> list[str]:
    """The words of a command, without settings before it; YOUR_FOLDER is the demo's corpus."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    return [re.sub(r"\bYOUR_[A-Z]+\b", "demo/corpus", word) for word in words]


def command_of(line: str) -> list[str] | None:
    """What comes after `myxtts` in this or another spelling; None if it is no command of ours."""
    program, *words = words_of(line)
    program = program.removeprefix(".venv/bin/")
    if program == "myxtts":
        return words
    if program.startswith("python") and words[:2] == ["-m", "myxtts"]:
        return words[2:]
    if program.startswith("python") and words[0] in SCRIPTS:
        return [*SCRIPTS[words[0]], *words[1:]]
    return None


def check_elsewhere(line: str) -> None:
    """A command that is not `myxtts`: what it names exists."""
    program, *words = words_of(line)
    program = program.removeprefix(".venv/bin/")
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in words:
            assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target
    elif program == "bash":
        assert (ROOT / words[0]).is_file()
    elif program.startswith("python"):
        name = words[1] if words[0] == "-m" else words[0]
        assert name.startswith(RUN_ELSEWHERE), f"{name}: how is it tested?"
        found = importlib.util.find_spec(name) if words[0] == "-m" else (ROOT / name).exists()
        assert found, name
    else:
        assert program in NOT_OURS, f"{program}: tell this test what to do with it"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout after `make demo`, with a voice that was never trained."""
    from tests.small_runs import save_run  # late: flags can be checked without TensorFlow

    folder = tmp_path_factory.mktemp("checkout")
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    demo = folder / "demo"
    make_demo_corpus(demo / "corpus")
    run = save_run(demo / "run", tokenizer=PhonemeTokenizer())
    XTTSConfig(data={"train_data": "demo/corpus"}).to_yaml(run / "config.yaml")
    over = [pipeline(100, seconds=50.0), event("ended", error="")]
    write_trace(write_events(run, [*half_a_run(), *over]))
    (demo / "profile.json").write_text(make_profile().to_json(), encoding="utf-8")
    return folder


def run_there(command: list[str], folder: Path, *, timeout: float = 300) -> None:
    result = run_warm(["-m", "myxtts", *command], cwd=folder, timeout=timeout)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("line", LINES)
def test_every_flag_is_known(line):
    command = command_of(line)
    if command is None:
        check_elsewhere(line)
    else:
        check_flags(command)


RUN = [line for line in LINES if command_of(line) is not None and is_run(line)]
TRAINED = [
    line
    for line in LINES
    if (command_of(line) or [""])[0] == "train" and "--print-config" not in line
]
LONG = [
    line
    for line in LINES
    if TAKES_MINUTES in line and command_of(line) is not None and line not in TRAINED
]
needs_espeak = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")


@needs_espeak
@pytest.mark.parametrize("line", [line for line in RUN if line not in TRAINED])
def test_it_runs(line, checkout):
    command = command_of(line)
    assert command is not None
    run_there(command, checkout)


@needs_espeak
@pytest.mark.parametrize("line", TRAINED)
def test_the_settings_of_a_training_command_are_accepted(line, checkout):
    command = command_of(line)
    assert command is not None
    run_there([*command, "--print-config"], checkout)


@pytest.mark.slow
@needs_espeak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("line", [line for line in TRAINED if NEEDS_A_GPU not in line])
def test_it_trains(line, checkout):
    command = command_of(line)
    assert command is not None
    # The demo's own voice here is a toy; whoever starts from it gets one of the right size.
    command = ["demo/my-voice" if word == "demo/run" else word for word in command]
    run_there([*command, "--max-steps", "2"], checkout, timeout=1800)


@pytest.mark.slow
@needs_espeak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("line", LONG)
def test_it_runs_for_minutes(line, checkout):
    command = command_of(line)
    assert command is not None
    if command[0] == "demo":
        command += ["--minutes", "0.5"]
    run_there(command, checkout, timeout=3600)


def test_a_flag_that_does_not_exist_is_found_out():
    with pytest.raises(Exception, match="--no-such-flag"):
        check_flags(["train", "--no-such-flag"])
    with pytest.raises(KeyError):
        check_flags(["sing"])
    with pytest.raises(AssertionError, match="how is it tested"):
        check_elsewhere("python somewhere/else.py")
