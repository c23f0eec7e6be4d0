"""Every row of the mode table, every refused combination, and the order of the checks."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from myxtts.errors import DeviceError, HardwareShortageError
from myxtts.pipeline.devices import Mode, configure_devices, configured_plan
from myxtts.pipeline.hardware import Hardware
from myxtts.pipeline.memory import read_role
from tests.support import FakeHardware, run_warm

CARD = 24_576


def test_without_flags_everything_runs_on_the_first_gpu():
    machine = FakeHardware(CARD, CARD)
    plan = configure_devices(hardware=machine)
    assert (plan.mode, plan.data_device, plan.model_device) == (Mode.SINGLE, "/GPU:0", "/GPU:0")
    assert (machine.shown, machine.growth, machine.limits) == ([0], [0], {})


def test_without_flags_and_gpus_everything_runs_on_the_cpu_and_says_so(caplog):
    plan = configure_devices(hardware=FakeHardware())
    assert (plan.mode, plan.data_device, plan.model_device) == (Mode.SINGLE, "/CPU:0", "/CPU:0")
    assert "Everything runs on the CPU" in caplog.text


@pytest.mark.parametrize(("data_gpu", "model_gpu"), [(0, 1), (1, 0), (3, 2), (0, 3)])
def test_roles_keep_their_devices_whatever_the_order_of_the_indices(data_gpu, model_gpu, caplog):
    caplog.set_level(logging.INFO)
    machine = FakeHardware(CARD, CARD, CARD, CARD)
    plan = configure_devices(data_gpu, model_gpu, hardware=machine)
    assert (plan.mode, plan.data_device, plan.model_device) == (Mode.MULTI, "/GPU:0", "/GPU:1")
    assert machine.shown == [data_gpu, model_gpu]  # in this order, all others hidden
    assert (machine.growth, machine.limits) == ([0, 1], {})
    assert [record.message for record in caplog.records] == [
        "Configuring Multi-GPU Mode...",
        f"Data Processing GPU: {data_gpu}",
        f"Model Training GPU: {model_gpu}",
        f"Set visible devices: GPU {data_gpu} and GPU {model_gpu}",
        "Configured memory growth for data GPU",
        "Configured memory growth for model GPU",
        "Multi-GPU configuration completed successfully",
    ]


def test_isolation_limits_each_gpu_and_never_grows():
    machine = FakeHardware(CARD, CARD)
    plan = configure_devices(
        1, 0, isolate=True, data_limit_mb=4000, model_limit_mb=9000, hardware=machine
    )
    assert plan.isolated
    assert (machine.limits, machine.growth) == ({0: [4000], 1: [9000]}, [])


def test_isolation_without_limits_takes_the_planned_ones():
    machine = FakeHardware(12_288, CARD)
    plan = configure_devices(0, 1, isolate=True, hardware=machine)
    assert (plan.data_limit_mb, plan.model_limit_mb) == (4096, 16_384)


def test_one_card_is_split_in_two_limited_devices():
    machine = FakeHardware(CARD)
    plan = configure_devices(0, 0, isolate=True, hardware=machine)
    assert (plan.data_device, plan.model_device) == ("/GPU:0", "/GPU:1")
    assert machine.shown == [0]
    assert machine.limits == {0: [plan.data_limit_mb, plan.model_limit_mb]}
    assert sum(machine.limits[0]) + 500 <= CARD


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("indices", [(None, None), (0, 1), (1, 0)])
def test_simulation_runs_the_same_modes_on_two_cpu_devices(indices, isolate, caplog):
    caplog.set_level(logging.INFO)
    machine = FakeHardware()
    plan = configure_devices(*indices, isolate=isolate, simulate=True, hardware=machine)
    assert (plan.mode, plan.data_device, plan.model_device) == (Mode.MULTI, "/CPU:0", "/CPU:1")
    assert (plan.data_gpu, plan.model_gpu) == ((0, 1) if indices == (None, None) else indices)
    assert plan.isolated is isolate
    assert (machine.hidden, machine.cpu_parts, machine.growth, machine.limits) == (True, 2, [], {})
    for record in caplog.records:
        assert "(simulated" in record.message or "not enforced" in record.message
    data_gpu, model_gpu = plan.data_gpu, plan.model_gpu
    for line in (
        f"Data Processing GPU: {data_gpu} (simulated GPU {data_gpu} = CPU:0)",
        f"Model Training GPU: {model_gpu} (simulated GPU {model_gpu} = CPU:1)",
    ):
        assert [record.message for record in caplog.records].count(line) == 1
    assert caplog.text.count(" = CPU:") == 2  # which is which is said once


def test_simulation_splits_one_card_too():
    plan = configure_devices(0, 0, isolate=True, simulate=True, hardware=FakeHardware())
    assert (plan.data_device, plan.model_device) == ("/CPU:0", "/CPU:1")
    assert plan.data_limit_mb + plan.model_limit_mb + 500 <= CARD


@pytest.mark.parametrize(
    ("cards", "arguments", "problem", "remedy"),
    [
        (2, {"data_gpu": 0}, "--data-gpu was given without --model-gpu", "both .* neither"),
        (2, {"model_gpu": 0}, "--model-gpu was given without --data-gpu", "both .* neither"),
        (0, {"data_gpu": 0, "model_gpu": 1}, "Multi-GPU requires at least 2 GPUs", "--simulate"),
        (1, {"data_gpu": 0, "model_gpu": 1}, "Multi-GPU requires at least 2 GPUs", "one device"),
        (1, {"data_gpu": 0, "model_gpu": 0}, "Multi-GPU requires at least 2 GPUs", "split"),
        (
            1,
            {"data_gpu": 5, "model_gpu": 5, "isolate": True},
            "Insufficient GPUs for Multi",
            "0 to",
        ),
        (0, {"data_gpu": 0, "model_gpu": 0, "isolate": True}, "Insufficient GPUs for", "driver"),
        (2, {"data_gpu": 0, "model_gpu": 2}, "Insufficient GPUs for Multi-GPU Mode", "0 to 1"),
        (2, {"data_gpu": -1, "model_gpu": 1}, "Insufficient GPUs for Multi-GPU Mode", "0 to 1"),
        (2, {"data_gpu": 2, "model_gpu": 2}, "Insufficient GPUs for Multi-GPU Mode", "0 to 1"),
        (2, {"data_gpu": 1, "model_gpu": 1}, "both given GPU 1", "two indices, or split"),
        (2, {"isolate": True}, "Memory isolation needs two roles", "--data-gpu 0 --model-gpu 1"),
        (
            2,
            {"data_gpu": 0, "model_gpu": 1, "data_limit_mb": 4096},
            "cannot both grow",
            "isolation",
        ),
        (2, {"model_limit_mb": 4096}, "cannot both grow memory and limit it", "isolation"),
        (0, {"data_gpu": 0, "model_gpu": 2, "simulate": True}, "Insufficient GPUs", "0 to 1"),
        (2, {"data_gpu": "0", "model_gpu": 1}, "--data-gpu is '0'", "whole number"),
        (2, {"simulate": True, "fallback": "single"}, "--fallback has no meaning", "leave out"),
    ],
)
def test_a_wrong_combination_is_refused_before_anything_is_touched(
    cards, arguments, problem, remedy
):
    machine = FakeHardware(*[CARD] * cards)
    with pytest.raises(DeviceError, match=problem) as refusal:
        configure_devices(**arguments, hardware=machine)
    assert machine.untouched
    assert configured_plan(machine) is None
    assert __import__("re").search(remedy, refusal.value.remedy)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ((0, 8192), "data GPU's memory limit is 0 MB"),
        ((8192, -5), "model GPU's memory limit is -5 MB"),
        ((8192, 24_576), "do not fit GPU 1.*24576 MB, needed are 24576 MB.*512 MB"),
        ((30_000, 8192), "do not fit GPU 0"),
    ],
)
def test_a_limit_the_card_cannot_hold_is_refused_with_what_fits(limits, problem):
    machine = FakeHardware(CARD, CARD)
    with pytest.raises(DeviceError, match=problem) as refusal:
        configure_devices(
            0, 1, isolate=True, data_limit_mb=limits[0], model_limit_mb=limits[1], hardware=machine
        )
    assert machine.untouched
    assert "data 8192 MB, model 16384 MB" in refusal.value.remedy


def test_limits_of_a_split_card_are_added_up():
    with pytest.raises(DeviceError, match="needed are 24576 MB"):
        configure_devices(
            0,
            0,
            isolate=True,
            data_limit_mb=8192,
            model_limit_mb=16_384,
            hardware=FakeHardware(CARD),
        )


def test_a_limit_larger_than_the_free_memory_is_refused():
    machine = FakeHardware(CARD, CARD, free_mb=6000)
    with pytest.raises(DeviceError, match="only 6000 of its 24576 MB free"):
        configure_devices(
            0, 1, isolate=True, data_limit_mb=8192, model_limit_mb=8192, hardware=machine
        )


def test_forced_growth_and_limits_exclude_each_other(monkeypatch):
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    with pytest.raises(DeviceError, match="TF_FORCE_GPU_ALLOW_GROWTH"):
        configure_devices(0, 1, isolate=True, hardware=FakeHardware(CARD, CARD))


def test_a_tensorflow_that_sees_no_gpu_is_an_error_and_no_silent_cpu_run():
    with pytest.raises(DeviceError, match=r"TensorFlow sees 0") as refusal:
        configure_devices(hardware=FakeHardware(CARD, tensorflow_sees=0))
    assert "tensorflow[and-cuda]" in refusal.value.remedy


def test_fallback_to_one_gpu_happens_only_when_asked_and_is_a_warning(caplog):
    with pytest.raises(HardwareShortageError):
        configure_devices(0, 1, hardware=FakeHardware(CARD))
    plan = configure_devices(0, 1, fallback="single", hardware=FakeHardware(CARD))
    assert (plan.mode, plan.data_device) == (Mode.SINGLE, "/GPU:0")
    warning = next(record for record in caplog.records if "Falling back" in record.message)
    assert warning.levelno == logging.WARNING
    assert "Single-GPU Buffered Mode" in warning.message


def test_fallback_does_not_hide_a_mistake():
    with pytest.raises(DeviceError, match="without --model-gpu"):
        configure_devices(0, fallback="single", hardware=FakeHardware(CARD, CARD))


def test_configuring_again_is_a_no_op_with_the_same_and_an_error_with_other_arguments():
    machine = FakeHardware(CARD, CARD)
    first = configure_devices(0, 1, isolate=True, hardware=machine)
    assert configure_devices(0, 1, isolate=True, hardware=machine) is first
    with pytest.raises(DeviceError, match="already configured .* with other settings"):
        configure_devices(1, 0, isolate=True, hardware=machine)
    with pytest.raises(DeviceError, match="already configured"):
        configure_devices(0, 1, hardware=machine)


def test_planned_limits_may_be_repeated_as_given_ones():
    machine = FakeHardware(CARD, CARD)
    first = configure_devices(0, 1, isolate=True, hardware=machine)
    again = configure_devices(
        0, 1, isolate=True, data_limit_mb=8192, model_limit_mb=16_384, hardware=machine
    )
    assert again is first


def test_a_limit_given_for_one_role_of_a_split_card_leaves_the_rest_to_the_other():
    machine = FakeHardware(CARD)
    plan = configure_devices(0, 0, isolate=True, data_limit_mb=12_288, hardware=machine)
    assert machine.limits == {0: [12_288, plan.model_limit_mb]}
    assert 11_000 < plan.model_limit_mb <= CARD - 12_288 - 512


def test_one_planned_limit_may_be_repeated_alone():
    machine = FakeHardware(CARD, CARD)
    first = configure_devices(0, 1, isolate=True, hardware=machine)
    assert configure_devices(0, 1, isolate=True, data_limit_mb=8192, hardware=machine) is first


def test_a_card_with_no_memory_left_is_not_offered_a_limit():
    machine = FakeHardware(CARD, CARD, free_mb=600)
    with pytest.raises(DeviceError, match="Too little memory is free: 600 MB") as refusal:
        configure_devices(0, 1, isolate=True, hardware=machine)
    assert "what fits" not in refusal.value.remedy


@pytest.mark.parametrize("wrong", [{"data_limit_mb": 4096.5}, {"data_limit_mb": "4096"}])
def test_a_limit_that_is_no_whole_number_is_refused(wrong):
    with pytest.raises(DeviceError, match="--data-gpu-memory is"):
        configure_devices(0, 1, isolate=True, **wrong, hardware=FakeHardware(CARD, CARD))


def test_the_plan_cannot_be_changed():
    plan = configure_devices(hardware=FakeHardware(CARD))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.data_device = "/GPU:7"


@pytest.mark.parametrize(
    "use",
    ["tf.zeros([1])", "tf.config.list_logical_devices()", "tf.Variable(1.0)"],
)
def test_tensorflow_already_initialised_is_said_with_what_to_move(use):
    result = run_warm(
        [
            "-c",
            "import tensorflow as tf; from myxtts.pipeline import configure_devices\n"
            f"{use}\n"
            "configure_devices(simulate=True)",
        ]
    )
    assert result.returncode == 1
    assert "DeviceError: TensorFlow is already initialised" in result.stderr
    assert "try: call configure_devices()" in result.stderr


def test_importing_tensorflow_first_is_fine_while_nothing_is_initialised():
    result = run_warm(
        [
            "-c",
            "import tensorflow as tf; from myxtts.pipeline import configure_devices\n"
            "configure_devices(simulate=True)\n"
            "print(len(tf.config.list_logical_devices('CPU')))",
        ]
    )
    assert result.stdout.strip() == "2"


def test_gpus_that_only_tensorflow_sees_are_used_one_at_a_time(caplog):
    """MIG, ROCm or no libnvidia-ml: NVML is mute, and memory growth may be set on one GPU only."""
    machine = FakeHardware(tensorflow_sees=2)
    plan = configure_devices(hardware=machine)
    assert (plan.data_device, plan.model_device) == ("/GPU:0", "/GPU:0")
    assert machine.kept_first
    assert machine.growth == [0]
    readings = [read_role(plan, "model", machine) for _ in range(3)]
    assert str(readings[0]) == "1000MB (of an unknown size)"
    assert readings[0].percent == 0.0
    said = [m for m in caplog.messages if "is unknown" in m]
    assert len(said) == 1  # once, not at every reading
    assert "no NVIDIA driver answers (fake)" in said[0]


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ("MIG-6f2a", "names no whole card"),
        ("", "hides every GPU"),
        ("-1", "hides every GPU"),
    ],
)
def test_why_nvml_lists_no_card_is_said(monkeypatch, chosen, reason):
    import types

    nvml = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: "GPU-1234",
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    machine = Hardware()
    assert machine._visible_handles(nvml) == []
    assert reason in machine.missing_reason
