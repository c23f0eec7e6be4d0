"""From measurements to advice: every recommendation can be reached, and none is made in vain."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from typer.testing import CliRunner

from myxtts.cli.app import app
from myxtts.config.commands import training_command
from myxtts.config.config import XTTSConfig
from myxtts.profiling.advisor import MOST_CHANGES, advise
from myxtts.profiling.measurements import Profile
from tests.profiles import make_profile
from tests.support import check_flags

UNEVEN = (*[0.01] * 9, 0.4)
SLOW_DISK = {"seconds": {"read": 2.0, "read_cold": 2.0, "read_cached": 0.001}}
FULL = {"memory": {"model": 8000.0}}
SITUATIONS = {
    "workers": ({**SLOW_DISK, "data": {"num_workers": 16}}, "--num-workers"),
    "cache": ({**SLOW_DISK, "data": {"num_workers": 2}}, "--cache memory"),
    "native-loading": (
        {
            "seconds": {"read": 1.0, "read_native": 0.2},
            "cpu": {"read": 1.0, "read_native": 0.1},
            "data": {"use_tf_native_loading": False},
        },
        "use_tf_native_loading: true",
    ),
    "prefetch": (
        {"seconds": {"process": UNEVEN, "train": 0.05}, "data": {"prefetch_buffer_size": 1}},
        "--prefetch-buffer-size",
    ),
    "buffer": (
        {
            "seconds": {"read": (*[0.01] * 19, 1.0)},
            "data": {"num_workers": 1, "pipeline_buffer_size": 2},
        },
        "--buffer-size 16",
    ),
    "depth": ({"seconds": {"transfer": UNEVEN, "train": 0.05}}, "--pipeline-depth"),
    "static-shapes": ({"retraces": 12, "rate": 2.0}, "--enable-static-shapes"),
    "smaller-batch": (FULL, "--batch-size 8 --grad-accum 2"),
    "smaller-buffers": ({"memory": {"data": 8000.0}}, "--prefetch-buffer-size 2"),
    "memory-limit": (FULL, "--model-gpu-memory 12288"),
    "larger-batch": (
        {"seconds": {"train": 0.004, "process": 0.012, "read": 0.001}},
        "--batch-size 32",
    ),
}


@pytest.mark.parametrize("kind", SITUATIONS)
def test_every_recommendation_can_be_made(kind):
    situation, flag = SITUATIONS[kind]
    advice = advise(make_profile(**situation))
    found = {change.kind: change for change in advice.changes}
    assert kind in found
    assert found[kind].flag.startswith(flag)
    assert found[kind].reason
    assert len(advice.changes) <= MOST_CHANGES
    assert found[kind].gain is None or found[kind].gain >= 1.03


def told(sentences):
    return " ".join(map(str, sentences))


def test_a_busy_model_gets_no_advice():
    profile = make_profile(seconds={"train": 0.2})
    advice = advise(profile)
    assert advice.changes == ()
    assert "the data side keeps up" in str(advice.verdict)
    assert advice.command == training_command(profile.config)


def test_workers_are_not_recommended_where_the_cores_are_at_their_limit():
    reading = {"seconds": {"read": 0.4}, "cpu": {"read": 0.4}}
    kinds = {change.kind for change in advise(make_profile(**reading)).changes}
    assert "workers" not in kinds
    waiting = {"seconds": {"read": 4.0}, "cpu": {"read": 0.01}}
    kinds = {change.kind for change in advise(make_profile(**waiting)).changes}
    assert "workers" in kinds


def test_the_second_of_two_cures_for_one_ill_is_left_out():
    advice = advise(make_profile(**SLOW_DISK))
    assert [change.kind for change in advice.changes] == ["workers"]
    predicted = advice.predicted_rate
    assert predicted == pytest.approx(advise(make_profile()).predicted_rate, rel=0.05)


def test_a_limit_is_raised_only_where_the_card_has_room():
    kinds = {change.kind for change in advise(make_profile(**FULL, card_mb=8704)).changes}
    assert kinds >= {"smaller-batch"}
    assert "memory-limit" not in kinds


@pytest.mark.parametrize(
    ("process", "worth"), [(0.06, True), (0.002, False)], ids=["equal stages", "light processing"]
)
def test_the_split_is_recommended_where_it_pays_and_only_there(process, worth):
    profile = make_profile(seconds={"process": process, "train": 0.06})
    advice = advise(profile)
    rates = {layout.name: layout.rate for layout in advice.layouts}
    assert rates["single"] == pytest.approx(1 / (process + 0.06), rel=0.02)
    assert rates["split"] == pytest.approx(1 / 0.06, rel=0.02)
    assert advice.best_layout == ("split" if worth else "data-parallel")
    assert ("not worth it" in told(advice.layout_reason)) is not worth
    parallel = next(layout for layout in advice.layouts if layout.name == "data-parallel")
    assert parallel.basis == "predicted"
    assert 1.5 * rates["single"] < parallel.rate <= 2 * rates["single"]
    both = next(layout for layout in advice.layouts if layout.name == "split-parallel")
    if not worth:
        assert "myxtts train" in told(advice.layout_reason)
        assert "--replicas 2" in told(advice.layout_reason)
        assert "--data-gpu" not in told(advice.layout_reason).split("--replicas 2")[0]
        assert 1.5 * rates["split"] < both.rate <= 2 * rates["split"]
    else:
        assert both.rate <= 1.001 / process  # the one data card is the limit


def test_every_way_that_pays_is_a_whole_command():
    reason = told(advise(make_profile(seconds={"process": 0.02, "train": 0.06})).layout_reason)
    commands = re.findall(r"myxtts (train [^\n]*?)(?= Three| Two|$)", reason)
    assert len(commands) == 2
    for command in commands:
        check_flags(command.split())
    assert "--replicas 2" in commands[0]
    assert "--data-gpu 0 --model-gpu 1,2 --enable-memory-isolation" in commands[1]


def test_on_one_machines_cores_no_layout_is_more_than_the_cores_give():
    cpu = {"read": 0.01, "process": 0.03, "train": 0.06}
    advice = advise(make_profile(on_cpu=True, link="copy in memory", cpu=cpu))
    assert all(layout.rate <= 2 / 0.1 * 1.01 for layout in advice.layouts)
    assert "nothing about two GPUs" in told(advice.layout_reason)


@pytest.mark.parametrize(
    ("train", "uneven", "grade"),
    [
        (0.06, False, "excellent"),
        (0.06 * 0.85, False, "good"),
        (0.06 * 0.75, False, "minimum"),
        (0.06 * 0.5, False, "below minimum"),
        (0.06, True, "good"),
    ],
)
def test_grades_follow_the_table(train, uneven, grade):
    profile = make_profile(seconds={"process": 0.06, "train": train, "read": 0.001})
    if uneven:
        bucket = profile.together.buckets[0].__class__("", 50, 0.1, 0.25, 0.0)
        object.__setattr__(profile.together, "buckets", (bucket,))
    assert profile.diagnosis.grade == grade


def test_the_command_gives_exactly_the_settings_it_was_made_from():
    config = XTTSConfig(
        model={"size": "small"},
        data={
            "train_data": "my clips",
            "data_gpu": 1,
            "model_gpu": 0,
            "enable_memory_isolation": True,
            "data_gpu_memory": 4096,
            "model_gpu_memory": 8192,
            "prefetch_buffer_size": 6,
            "pipeline_depth": 2,
            "num_workers": 24,
            "cache": "disk",
            "static_shapes": "one",
            "batch_size": 8,
        },
        training={"grad_accum": 2, "optimization_level": "basic", "auto_batch": True},
    )
    words = shlex.split(training_command(config))
    assert words[0].endswith("myxtts")
    assert words[1] == "train"
    result = CliRunner().invoke(app, ["train", *words[2:], "--print-config"])
    assert result.exit_code == 0, result.output
    assert XTTSConfig.from_dict(yaml.safe_load(result.stdout)) == config


def test_on_top_of_a_config_file_the_command_says_only_what_differs(tmp_path):
    file = tmp_path / "my settings.yaml"
    XTTSConfig(data={"num_workers": 3, "language": "fa"}).to_yaml(file)
    config = XTTSConfig.from_yaml(file)
    config.data.pipeline_depth = 5
    words = shlex.split(training_command(config, config_file=str(file)))
    assert words[2:6] == ["--config", str(file), "--train-data", "DIR"]
    assert "--pipeline-depth" in words
    assert "--num-workers" not in words


def test_a_profile_survives_its_file():
    profile = make_profile()
    again = Profile.from_json(profile.to_json())
    assert again == profile
    assert advise(again) == advise(profile)


def test_a_step_that_compiles_again_and_again_is_not_called_a_long_step():
    advice = advise(make_profile(seconds={"train": 0.2}, retraces=18, rate=0.3))
    assert "compiled 18 times" in str(advice.verdict)
