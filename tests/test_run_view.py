"""A run as its events tell it: shares of late, resumes, endings, and the verdict."""

from __future__ import annotations

import subprocess
import sys

import pytest

from myxtts.errors import DataError
from myxtts.runs.follow import RunFollower
from myxtts.runs.history import MAX_POINTS, RunHistory
from myxtts.runs.view import RunView
from tests.told_runs import (
    BEGAN,
    EVEN,
    PLAN,
    event,
    half_a_run,
    metrics,
    pipeline,
    started,
    write_events,
)


def history(*events) -> RunHistory:
    told = RunHistory()
    for each in events:
        told.add(each)
    return told


def view(*events, now: float = BEGAN + 25.0) -> RunView:
    return history(*events).view(now)


def test_a_running_run_shows_where_it_is_and_when_it_will_end():
    shown = view(*half_a_run(), now=BEGAN + 27.0)
    assert (shown.name, shown.status, shown.step, shown.total_steps) == (
        "my voice",
        "running",
        50,
        100,
    )
    assert shown.simulated
    assert shown.mode == "Multi-GPU Mode, memory-isolated"
    assert shown.loss == pytest.approx(0.2)
    assert shown.clips_per_second == 32.0
    assert shown.seconds_left == pytest.approx(23.0)  # two of the 25 have passed since it told
    assert shown.elapsed_s == pytest.approx(27.0)
    assert shown.progress == 0.5
    assert shown.step_s == pytest.approx(0.5)
    assert shown.ring == pytest.approx(2.0)
    assert shown.ring_size == 3
    data, model = shown.devices
    assert (str(data.label), str(model.label)) == ("Data GPU 0", "Model GPU 1")
    assert (data.busy, model.busy) == (pytest.approx(0.8), pytest.approx(0.98))
    assert model.memory_share == pytest.approx(1050 / 16384)


def test_shares_are_those_of_late_and_not_of_the_whole_run():
    idle = {**EVEN, "train": 0.1}
    told = [started(), pipeline(10, seconds=5.0, busy=idle)]
    later = pipeline(20, seconds=10.0, busy={**EVEN, "train": 0.55})  # 0.1, then all of the time
    assert view(*told).devices[1].busy == pytest.approx(0.1)
    assert view(*told, later).devices[1].busy == pytest.approx(1.0)


def test_the_first_steps_which_compile_do_not_colour_the_whole():
    told = [started(), pipeline(1, seconds=30.0), pipeline(11, seconds=35.0)]
    train = history(*told).settled["train"]
    assert train.batches == 10
    assert train.busy_s + train.waiting_input_s == pytest.approx(5.0)


def test_a_resume_from_an_earlier_step_undoes_what_came_after_it():
    told = history(*half_a_run(), started("resumed", 20, at=100.0))
    assert [point.step for point in told.points] == [1, 10, 20]
    assert told.losses[-1] == (20, 0.5)
    assert told.view().step == 20
    assert told.totals["train"].batches == 50  # shown until the new process tells its own
    told.add(pipeline(25, seconds=3.0))
    assert told.totals["train"].batches == 25
    assert told.view().devices[1].busy == pytest.approx(0.98)


def test_a_run_started_anew_in_the_same_folder_forgets_the_old():
    told = history(*half_a_run(), started(at=100.0))
    assert told.points == []
    assert told.view().step == 0


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ((), "running"),
        ((event("ended", error=""),), "ended early"),
        ((event("ended", error="ValueError: no"),), "failed"),
        ((pipeline(100, seconds=50.0), event("ended", error="")), "finished"),
    ],
)
def test_how_a_run_ended(last, status):
    shown = view(*half_a_run(), *last)
    assert shown.status == status
    assert shown.is_over == (status != "running")
    assert shown.error == ("ValueError: no" if status == "failed" else "")


def test_runs_of_the_first_version_are_understood():
    memory = {"gpu_id": 0, "used_mb": 1700.0, "limit_mb": 8192, "source": "process RSS"}
    old = pipeline(50, seconds=25.0)
    for name in ("memory", "total_steps", "steps_per_second"):
        del old["values"][name]
    begin = started()
    del begin["values"]["devices"]
    begin["values"]["config"]["data"]["simulate"] = True
    shown = view(begin, event("memory", 50, data_gpu=memory, model_gpu=memory), old)
    assert shown.mode == "Multi-GPU Mode"
    assert shown.simulated
    assert shown.total_steps == 100  # from its settings
    assert [device.used_mb for device in shown.devices] == [1700.0, 1700.0]
    assert str(shown.devices[1].label) == "Model GPU 1"


def test_one_device_has_both_roles():
    plan = {**PLAN, "mode": "Single-GPU Buffered Mode", "data_device": "/GPU:0"}
    plan |= {"model_device": "/GPU:0", "simulated": False}
    shown = view(started(devices=plan), pipeline(10, seconds=5.0))
    assert [str(device.label) for device in shown.devices] == ["Data side, GPU:0", "Model, GPU:0"]


@pytest.mark.parametrize(
    ("busy", "says", "flags"),
    [
        ({}, "The model is busy 98% of the time: the data side keeps up.", ()),
        (
            {"train": 0.4, "read": 0.97},
            "60% of the time for stage read, which is busy 97%",
            ("--cache memory",),
        ),
        ({"train": 0.4, "process": 0.97}, "for stage process, which is busy 97%", ()),
        ({"train": 0.4, "transfer": 0.97}, "for stage transfer, which is busy 97%", ()),
        ({"train": 0.7, "process": 0.75}, "batches come unevenly", ("--prefetch-buffer-size 8",)),
    ],
)
def test_the_verdict_names_the_stage_that_holds_the_others_back(busy, says, flags):
    verdict = view(*half_a_run({**EVEN, **busy})).verdict
    assert says in str(verdict.sentence)
    assert verdict.flags == flags
    assert verdict.good == (not busy)


def test_uneven_steps_are_said_though_the_model_is_busy():
    verdict = view(started(), pipeline(10, seconds=5.0, variation=0.5)).verdict
    assert "Step time varies by 50% (shape 4x80)" in str(verdict.sentence)
    assert verdict.flags == ()  # they vary within one shape: one shape would not help


def test_the_verdict_is_on_the_ring_of_late():
    busy = {**EVEN, "process": 1.0, "train": 0.95}
    told = [started(), pipeline(10, seconds=5.0, busy=busy, ring_occupancy=[0, 0, 0, 10])]
    assert view(*told).verdict.good
    told.append(pipeline(20, seconds=10.0, busy=busy, ring_occupancy=[7, 3, 0, 10]))
    assert "70% of the times the model asked, no batch was ready" in str(
        view(*told).verdict.sentence
    )
    assert history(*told).verdict().good  # on the whole it was there


def test_a_card_that_is_nearly_full_is_the_first_thing_said():
    full = {"used_mb": 7900.0, "limit_mb": 8192, "source": "TensorFlow allocator"}
    verdict = view(started(), pipeline(10, seconds=5.0, memory={"data": full})).verdict
    assert str(verdict.sentence) == "Data GPU 0 holds 96% of its memory limit."
    shared = {**full, "source": "process RSS"}  # says nothing of a device
    assert view(started(), pipeline(10, seconds=5.0, memory={"data": shared})).verdict.good


def test_it_is_too_early_to_judge_the_first_steps():
    assert "Too early" in str(view(started()).verdict.sentence)
    assert "Too early" in str(view(started(), pipeline(1, seconds=30.0)).verdict.sentence)


def test_a_long_run_is_held_in_bounded_memory():
    told = history(started())
    for step in range(1, 3 * MAX_POINTS):
        told.add(metrics(step, 1.0))
        told.add(pipeline(step, seconds=step / 2))
    assert len(told.points) <= MAX_POINTS
    assert len(told.losses) <= MAX_POINTS
    assert told.losses[0][0] == 1
    assert told.losses[-1][0] >= 3 * MAX_POINTS - 2


def test_odd_events_are_left_alone():
    told = history(*half_a_run(), {}, {"kind": "song", "step": 51}, event("pipeline", 51))
    assert told.view().devices[1].busy == pytest.approx(0.98)


# -- following its file --


def test_a_run_whose_process_is_gone_was_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    told = [started(pid=process.pid), *half_a_run()[1:]]
    follower = RunFollower(write_events(tmp_path, told))
    assert follower.poll().status == "killed"
    write_events(tmp_path, [started("resumed", 50, at=60.0), pipeline(60, seconds=5.0)])
    assert follower.poll().status == "running"


def test_a_process_of_another_machine_is_not_looked_for(tmp_path):
    told = [started(pid=2**22 + 1, host="elsewhere"), *half_a_run()[1:]]
    assert RunFollower(write_events(tmp_path, told)).poll().status == "running"


def test_what_is_written_later_is_seen_and_a_new_file_is_read_from_its_start(tmp_path):
    follower = RunFollower(write_events(tmp_path, half_a_run()))
    write_events(tmp_path, [metrics(60, 0.1)])
    assert follower.poll().step == 60
    (tmp_path / "events.jsonl").unlink()
    write_events(tmp_path, [started(run="another")])
    assert follower.poll().name == "another"
    assert follower.poll().step == 0


def test_a_folder_without_a_run_is_said_with_the_one_nearby(tmp_path):
    with pytest.raises(DataError, match="There is no training run"):
        RunFollower(tmp_path / "absent")
    write_events(tmp_path / "voice", half_a_run())
    with pytest.raises(DataError, match="myxtts monitor .*voice"):
        RunFollower(tmp_path)
    (tmp_path / "events.jsonl").touch()
    with pytest.raises(DataError, match="has not told anything yet"):
        RunFollower(tmp_path)
