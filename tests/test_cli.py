"""The command line as a user meets it, in processes of its own."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import typer
import yaml

from myxtts.cli.app import app
from myxtts.cli.commands import LINES
from tests.support import run_python, run_warm

COMMANDS = [
    [],
    ["train"],
    ["synthesize"],
    ["evaluate"],
    ["profile"],
    ["plan"],
    ["monitor"],
    ["validate"],
    ["demo"],
    ["data"],
    ["data", "check"],
    ["data", "demo"],
]
TRAIN_FLAGS = """
--train-data --val-data --data-gpu --model-gpu --enable-memory-isolation --data-gpu-memory
--model-gpu-memory --buffer-size --prefetch-buffer-size --model-start-delay --batch-size
--grad-accum --epochs --max-steps --num-workers --lr --model-size --optimization-level
--enable-static-shapes --disable-static-shapes --max-text-length --max-mel-frames --checkpoint-dir
--resume --reset-training --init-from --freeze --config --tensorboard-log-dir --wandb
--pipeline-depth --cache --auto-batch --simulate --fallback --print-config --debug --language
""".split()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_answers_without_loading_anything_large(command):
    program = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "heavy = ('tensorflow', 'keras', 'jinja2', 'markupsafe')\n"
        "from myxtts.cli.app import main\n"
        f"try: main({command!r})\n"
        "finally: print('loaded:', *(m for m in heavy if m in sys.modules))"
    )
    result = run_python(["-c", program])
    assert "Usage: myxtts" in result.stdout
    assert result.stdout.endswith("loaded:\n")


def test_importing_the_package_and_its_plans_loads_no_tensorflow():
    result = run_python(
        [
            "-c",
            "import sys, myxtts, myxtts.pipeline, myxtts.training, myxtts.config.config\n"
            "from myxtts.pipeline import configure_devices\n"
            "from myxtts.utils import gpu_memory, commons\n"
            "assert 'tensorflow' not in sys.modules",
        ]
    )
    assert result.returncode == 0, result.stderr


def test_piped_help_keeps_every_flag_whole():
    result = run_python(["train_main.py", "--help"], COLUMNS="40")
    for flag in TRAIN_FLAGS:
        assert re.search(rf"{flag}(?![\w-])", result.stdout), flag


@pytest.mark.parametrize("command", ["train", "validate", "demo"])
def test_python_dash_m_serves_every_command(command):
    assert run_python(["-m", "myxtts", command, "--help"]).returncode == 0


def test_an_error_is_problem_and_remedy_without_a_traceback():
    result = run_python(["train_main.py"])
    assert result.returncode == 2
    assert result.stderr.startswith("error: There is no training data.\n  try: ")
    assert "myxtts demo" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["train", "profile"])
def test_missing_gpus_are_refused_before_tensorflow_is_loaded(command, tmp_path):
    program = (
        "import sys\nfrom myxtts.cli.app import main\n"
        f"try: main([{command!r}, '--train-data', {str(tmp_path)!r}, *'--data-gpu 0 --model-gpu 1'"
        ".split()])\nfinally: print('loaded:', 'tensorflow' in sys.modules)"
    )
    result = run_python(["-c", program], CUDA_VISIBLE_DEVICES="-1")
    assert result.returncode == 2
    assert "Multi-GPU requires at least 2 GPUs" in result.stderr
    assert result.stdout == "loaded: False\n"


def test_a_folder_that_is_not_there_is_said():
    result = run_python(["train_main.py", "--train-data", "nowhere"])
    assert result.returncode == 2
    assert "The data folder nowhere does not exist" in result.stderr
    assert "--train-data" in result.stderr


def test_a_demo_that_cannot_write_says_so_before_it_trains(tmp_path):
    (tmp_path / "file").touch()
    result = run_python(["-m", "myxtts", "demo", "--output-dir", str(tmp_path / "file")])
    assert result.returncode == 2
    assert "cannot be made" in result.stderr


def test_what_the_system_refuses_is_said_without_a_traceback():
    name = "x" * 300
    result = run_python(["-m", "myxtts", "export", "nowhere", name])
    assert result.returncode == 2
    assert "File name too long\n  try: a shorter name" in result.stderr
    assert "Traceback" not in result.stderr
    with open("/dev/full", "w") as full:
        program = [sys.executable, "-m", "myxtts", "train", "--print-config"]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "error: standard output: No space left on device\n"
        "  try: free some space there, or name another place\n"
    )


LINGERING = """
import atexit, sys, threading, time
from myxtts.cli import app

def command(**_):
    name = "pipeline-1-process"
    threading.Thread(target=time.sleep, args=[60], name=name, daemon=True).start()
    sys.exit(3)

app.app = command
atexit.register(print, "the interpreter ended")
app.main()
"""


@pytest.mark.parametrize(
    ("code", "end"), [(LINGERING, ""), (LINGERING.replace("e-1", "e 1"), "the")]
)
def test_a_thread_that_is_still_at_work_does_not_spoil_the_exit_code(code, end):
    result = run_python(["-c", code])
    assert result.returncode == 3
    assert result.stdout.startswith(end)
    assert bool(result.stdout) == bool(end)


def test_debug_shows_the_traceback_too():
    result = run_python(["train_main.py", "--debug"])
    assert result.returncode == 2
    assert "Traceback" in result.stderr
    assert "error: There is no training data." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "0"], "data.batch_size must be greater than 0"),
        (["--model-size", "huge"], "model.size must be 'tiny'"),
        (["--cache", "cloud"], "data.cache must be 'memory' or 'disk'"),
        (["--config", "missing.yaml"], "cannot be read"),
        (["--resume", "--reset-training"], "--resume and --reset-training contradict"),
        (["--enable-static-shapes", "--disable-static-shapes"], "contradict"),
        (["--num-workers", "100000000"], "data.num_workers must be less than or equal to 1024"),
        (["--data-gpu", "-1"], "data.data_gpu must be greater than or equal to 0"),
        (["--data-gpu", "0"], "--data-gpu was given without --model-gpu"),
        (["--enable-memory-isolation"], "Memory isolation needs two roles"),
        (["--data-gpu-memory", "4096"], "cannot both grow memory and limit it"),
        (["--simulate", "--fallback", "single"], "--fallback has no meaning with --simulate"),
        (["--lr", "inf"], "training.learning_rate must be a finite number"),
        (["--freeze", "encoder,mouth"], "training.freeze.1 must be 'encoder'"),
        (["--batchsize", "3"], "--batch-size"),  # a misspelt flag: the nearest is named
    ],
)
def test_wrong_flags_exit_with_2_and_a_sentence(arguments, message):
    result = run_python(["train_main.py", "--print-config", *arguments])
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_print_config_shows_flags_over_file_over_defaults(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("data:\n  batch_size: 4\n  num_workers: 3\n")
    flags = "--batch-size 9 --disable-static-shapes --model-size tiny --buffer-size 8 --lr 1e-4"
    result = run_python(["train_main.py", "--config", str(path), "--print-config", *flags.split()])
    assert result.returncode == 0
    for line in (
        "batch_size: 9",
        "num_workers: 3",
        "static_shapes: 'off'",
        "size: tiny",
        "pipeline_buffer_size: 8",
        "learning_rate: 0.0001",
        "model_start_delay: 2.0",
    ):
        assert f"  {line}\n" in result.stdout


def test_an_edited_file_of_all_settings_is_used_and_said(tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "config.yaml").write_text("data:\n  batch_size: 4\n")
    command = ["-m", "myxtts", "train", "--print-config"]
    result = run_python([*command, "--num-workers", "2"], cwd=tmp_path)
    assert "Settings from configs/config.yaml: data.batch_size\n" in result.stderr
    assert "  batch_size: 4\n" in result.stdout
    (tmp_path / "other.yaml").touch()
    result = run_python([*command, "--config", "other.yaml"], cwd=tmp_path)
    assert "  batch_size: 16\n" in result.stdout
    assert "Settings from" not in result.stderr


def test_the_list_of_commands_says_what_each_says_of_itself():
    for name, command in typer.main.get_command(app).commands.items():
        assert " ".join(command.help.split("\n\n")[0].split()) == LINES[name]


def test_the_list_of_commands_loads_none_of_them():
    code = "import sys; sys.argv = ['myxtts', '--help']\nfrom myxtts.cli.app import main\n"
    code += "try: main()\nfinally: print(sorted(name for name in sys.modules if 'cli.' in name))"
    loaded = run_python(["-c", code]).stdout.splitlines()[-1]
    assert loaded == "['myxtts.cli.app', 'myxtts.cli.commands', 'myxtts.cli.output']"


def test_the_same_flag_means_the_same_in_every_command():
    commands = typer.main.get_command(app).commands
    train = {flag: p for p in commands["train"].params for flag in p.opts}
    shared = {
        "--batch-size",
        "--prefetch-buffer-size",
        "--num-workers",
        "--enable-memory-isolation",
    }
    for name in ("profile", "plan", "validate"):
        own = {flag: p for p in commands[name].params for flag in p.opts}
        assert name == "validate" or shared <= set(own)
        for flag in set(own) & set(train) - {"--train-data"}:
            assert own[flag].help == train[flag].help, flag


# Every flag that is a setting, with a value that is not the default, and what it becomes.
FLAG_SETTINGS = {
    "--train-data there": ("data.train_data", "there"),
    "--val-data other": ("data.val_data", "other"),
    "--data-gpu 1": ("data.data_gpu", 1),
    "--model-gpu 0": ("data.model_gpu", 0),
    "--enable-memory-isolation": ("data.enable_memory_isolation", True),
    "--data-gpu-memory 4096": ("data.data_gpu_memory", 4096),
    "--model-gpu-memory 9000": ("data.model_gpu_memory", 9000),
    "--buffer-size 30": ("data.pipeline_buffer_size", 30),
    "--prefetch-buffer-size 6": ("data.prefetch_buffer_size", 6),
    "--pipeline-depth 2": ("data.pipeline_depth", 2),
    "--model-start-delay 0.5": ("data.model_start_delay", 0.5),
    "--batch-size 8": ("data.batch_size", 8),
    "--num-workers 5": ("data.num_workers", 5),
    "--cache disk": ("data.cache", "disk"),
    "--language fa": ("data.language", "fa"),
    "--max-text-length 99": ("data.max_text_length", 99),
    "--max-mel-frames 500": ("data.max_mel_frames", 500),
    "--enable-static-shapes": ("data.static_shapes", "one"),
    "--fallback single": ("data.fallback", "single"),
    "--model-size small": ("model.size", "small"),
    "--lr 0.002": ("training.learning_rate", 0.002),
    "--grad-accum 3": ("training.grad_accum", 3),
    "--auto-batch": ("training.auto_batch", True),
    "--epochs 7": ("training.epochs", 7),
    "--max-steps 70": ("training.max_steps", 70),
    "--optimization-level experimental": ("training.optimization_level", "experimental"),
    "--checkpoint-dir here": ("training.checkpoint_dir", "here"),
    "--resume": ("training.resume", "require"),
    "--init-from older": ("training.init_from", "older"),
    "--freeze encoder,pitch": ("training.freeze", ["encoder", "pitch"]),
    "--tensorboard-log-dir board": ("training.tensorboard_log_dir", "board"),
    "--wandb": ("training.wandb", True),
}


def test_every_flag_reaches_its_setting():
    result = run_python(["train_main.py", "--print-config", *" ".join(FLAG_SETTINGS).split()])
    assert result.returncode == 0, result.stderr
    printed = yaml.safe_load(result.stdout)
    for flag, (name, value) in FLAG_SETTINGS.items():
        section, field = name.split(".")
        assert printed[section][field] == value, flag
    assert printed["training"]["xla_process"] == "on"  # what experimental adds
    flags = {flag.split()[0] for flag in FLAG_SETTINGS}
    elsewhere = "--config --print-config --debug --simulate --reset-training"
    assert set(TRAIN_FLAGS) - flags == {*elsewhere.split(), "--disable-static-shapes"}


def test_simulate_and_reset_reach_their_settings():
    flags = ["--simulate", "--reset-training", "--disable-static-shapes"]
    result = run_python(["train_main.py", "--print-config", *flags])
    printed = yaml.safe_load(result.stdout)
    assert printed["data"]["simulate"] is True
    assert printed["data"]["static_shapes"] == "off"
    assert printed["training"]["resume"] == "reset"


@pytest.mark.parametrize(
    "script", ["validate_memory_isolation.py", "validate_dual_gpu_pipeline.py"]
)
def test_validators_pass_for_real_on_simulated_devices(script):
    result = run_warm([script, "--data-gpu", "0", "--model-gpu", "1", "--simulate"])
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("✅") == 5
    assert "✅ Prerequisites: PASSED" in result.stdout
    assert result.stdout.endswith("All validation checks passed!\n")
    if script == "validate_memory_isolation.py":
        assert "System is ready" not in result.stdout  # of GPUs nothing was proved
        assert "Not proved, because it takes GPUs: that memory limits hold" in result.stdout
        assert "myxtts train --train-data DIR" in result.stdout


@pytest.mark.parametrize(
    "script", ["validate_memory_isolation.py", "validate_dual_gpu_pipeline.py"]
)
def test_validators_without_gpus_exit_1_and_name_what_is_missing(script):
    result = run_warm([script], CUDA_VISIBLE_DEVICES="-1")
    assert result.returncode == 1
    assert "❌" in result.stdout
    assert "try: " in result.stdout
    assert "Traceback" not in result.stderr
    assert "All validation checks passed!" not in result.stdout


def test_a_validator_fails_where_its_claim_is_false():
    result = run_warm(["validate_memory_isolation.py", "--simulate", "--model-gpu-memory", "99999"])
    assert result.returncode == 1
    assert "❌ Free memory: FAILED" in result.stdout
    assert "24576 MB, needed are 99999 MB" in result.stdout
    assert "1 of 5 checks failed: Free memory\nNot run because of it: Memory" in result.stdout


def test_data_check_tells_kept_from_dropped_and_writes_every_verdict(tmp_path):
    soundfile.write(tmp_path / "a.wav", 0.3 * np.sin(np.arange(22_050) / 20), 22_050)
    (tmp_path / "metadata.csv").write_text("a|Hello Ω.\nb|Bye.\na|  \n", encoding="utf-8")
    verdicts = tmp_path / "verdicts.csv"
    result = run_warm(
        [
            *("-m", "myxtts", "data", "check", str(tmp_path)),
            *("--verdicts", str(verdicts), "--tokenizer", "characters"),
        ]
    )
    assert result.returncode == 0, result.stderr
    assert "3 clips listed: 1 kept, 2 dropped" in result.stdout
    assert "missing" in result.stdout
    assert "empty text" in result.stdout
    assert "U+03A9" in result.stdout + result.stderr  # the symbol the tokenizer does not know
    lines = verdicts.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("listed", "arguments", "code", "message"),
    [
        ("b|Bye.", [], 1, "Nothing is left to train on."),
        ("b|Bye.", ["--tokenizer", "runes"], 2, "data.tokenizer must be 'auto', 'characters'"),
        ("b|Bye.", ["--language", "klingon"], 2, "the language 'klingon' is unknown"),
        ("b|Bye.", ["--delimiter", ";"], 2, "data.delimiter must be 'pipe', 'tab' or 'comma'"),
        ("", [], 2, "is empty"),
    ],
)
def test_data_check_says_what_is_wrong_and_exits_non_zero(
    tmp_path, listed, arguments, code, message
):
    (tmp_path / "metadata.csv").write_text(listed)
    result = run_warm(["-m", "myxtts", "data", "check", str(tmp_path), *arguments])
    assert result.returncode == code
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stderr
