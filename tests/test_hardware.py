"""The thin GPU layer, with a fake NVML under it."""

from __future__ import annotations

import os
import sys
import types

import pytest

from myxtts.errors import DeviceError
from myxtts.pipeline import hardware as hardware_module
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.pipeline.hardware import MB, Hardware, visible_tokens
from myxtts.pipeline.limits import RECOMMENDED, plan_limits, recommended_settings
from myxtts.pipeline.memory import find_card, read_card, read_role
from tests.support import FakeHardware

UUIDS = ["GPU-aaaa-1", "GPU-bbbb-2", "GPU-abcd-3"]


@pytest.mark.parametrize(
    ("setting", "visible"),
    [
        (None, [("0", 0), ("1", 1), ("2", 2)]),
        ("2,0", [("2", 2), ("0", 0)]),
        (" 1 , 2 ", [("1", 1), ("2", 2)]),
        ("", []),
        ("-1", []),
        ("1,-1,2", [("1", 1)]),  # CUDA stops at the first entry it does not know
        ("1,9,2", [("1", 1)]),
        ("GPU-bbbb", [("GPU-bbbb", 1)]),
        ("GPU-a", []),  # two cards begin like this
        ("1,1", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting, visible):
    assert visible_tokens(setting, UUIDS) == visible


@pytest.fixture
def fake_nvml(monkeypatch):
    nvml = types.ModuleType("pynvml")
    nvml.NVMLError = type("NVMLError", (Exception,), {})
    nvml.nvmlInit = lambda: None
    nvml.nvmlDeviceGetCount = lambda: 3
    nvml.nvmlDeviceGetHandleByIndex = lambda i: i
    nvml.nvmlDeviceGetUUID = lambda i: UUIDS[i].encode()
    nvml.nvmlDeviceGetName = lambda i: f"Card {i}"
    nvml.nvmlSystemGetDriverVersion = lambda: "550.1"
    nvml.nvmlDeviceGetMemoryInfo = lambda i: types.SimpleNamespace(
        total=(10 + i) * 1024 * MB, free=(9 + i) * 1024 * MB
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return nvml


def test_cards_are_counted_as_the_user_sees_them(fake_nvml, monkeypatch):
    assert [card.name for card in Hardware().cards()] == ["Card 0", "Card 1", "Card 2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    cards = Hardware().cards()
    assert [(card.index, card.name, card.total_mb) for card in cards] == [
        (0, "Card 2", 12_288),
        (1, "Card 1", 11_264),
    ]


def test_the_order_of_cards_is_made_in_the_environment_on_top_of_the_users(fake_nvml, monkeypatch):
    monkeypatch.setattr(hardware_module, "_cuda_started", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    machine = Hardware()
    first, second = machine.cards()
    machine.show_only([second, first])  # data GPU 1, model GPU 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,2"
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert [card.name for card in machine.cards()] == ["Card 2", "Card 1"]  # still the user's count


def test_gpus_cannot_be_ordered_once_cuda_runs(fake_nvml, monkeypatch):
    monkeypatch.setattr(hardware_module, "_cuda_started", lambda: True)
    machine = Hardware()
    cards = machine.cards()
    with pytest.raises(DeviceError, match="CUDA is already running"):
        machine.show_only(cards)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_card_that_cannot_be_read_is_a_reason_and_no_crash(fake_nvml):
    def fail(handle):
        raise fake_nvml.NVMLError("Not Supported")

    fake_nvml.nvmlDeviceGetMemoryInfo = fail
    machine = Hardware()
    assert machine.cards() == []
    assert "Not Supported" in machine.missing_reason


def test_a_hidden_gpu_is_not_a_missing_driver(fake_nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    machine = Hardware()
    assert machine.cards() == []
    assert machine.missing_reason == "CUDA_VISIBLE_DEVICES hides every GPU"


def test_without_a_driver_the_reason_is_kept(fake_nvml):
    def fail():
        raise fake_nvml.NVMLError("Driver Not Loaded")

    fake_nvml.nvmlInit = fail
    machine = Hardware()
    assert machine.cards() == []
    assert "Driver Not Loaded" in machine.missing_reason
    assert machine.driver_version() is None


@pytest.mark.parametrize(
    ("card_mb", "row"),
    [(12_288, 0), (11_900, 0), (15_360, 1), (16_384, 1), (23_028, 2), (24_576, 2)],
)
def test_settings_are_those_of_the_table_also_for_cards_that_report_a_little_less(card_mb, row):
    assert recommended_settings(card_mb) == RECOMMENDED[row]


def test_settings_scale_below_and_far_above_the_table():
    small, large = recommended_settings(8192), recommended_settings(49_152)
    assert small.data_limit_mb + small.model_limit_mb <= 8192
    assert (small.batch_size, small.pipeline_buffer_size) == (5, 25)
    assert (large.model_limit_mb, large.pipeline_buffer_size) == (32_768, 100)


@pytest.mark.parametrize("total", [6144, 8192, 12_288, 16_384, 24_564, 49_152])
@pytest.mark.parametrize("used", [0, 900])
def test_planned_limits_always_leave_room_for_the_cuda_context(total, used):
    one, other = FakeHardware(total, total, free_mb=total - used).cards()
    data_mb, model_mb = plan_limits(one, other)
    assert max(data_mb, model_mb) + 500 <= total - used
    data_mb, model_mb = plan_limits(one, one)
    assert data_mb + model_mb + 500 <= total - used


def test_memory_of_a_role_is_read_inside_its_limit_and_of_a_card_from_nvml():
    machine = FakeHardware(24_576, 24_576, free_mb=20_000)
    isolated = DevicePlan(Mode.MULTI, "/GPU:0", "/GPU:1", 0, 1, 8192, 16_384)
    reading = read_role(isolated, "model", machine)
    assert (reading.used_mb, reading.total_mb, reading.source) == (
        2000,
        16_384,
        "TensorFlow allocator",
    )
    growing = DevicePlan(Mode.MULTI, "/GPU:0", "/GPU:1", 0, 1)
    assert read_role(growing, "data", machine).total_mb == 24_576
    card = read_card(1, machine)
    assert (card.used_mb, card.source) == (4576, "NVML")
    assert str(reading) == "2000/16384MB (12.2%)"


def test_a_card_that_is_not_there_is_said(fake_nvml):
    with pytest.raises(DeviceError, match="no GPU 7 to read: GPUs 0 to 2 are here"):
        find_card(Hardware().cards(), 7)


def test_utilisation_and_the_way_between_cards_come_from_nvml(fake_nvml, monkeypatch):
    assert Hardware().utilisation(0) is None  # this NVML does not tell
    assert Hardware().peer_to_peer(0, 1) is None
    fake_nvml.nvmlDeviceGetUtilizationRates = lambda i: types.SimpleNamespace(gpu=50 + i)
    fake_nvml.NVML_P2P_STATUS_OK = 0
    fake_nvml.nvmlDeviceGetP2PStatus = lambda a, b, what: 0 if {a, b} == {1, 2} else 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1,0")
    machine = Hardware()
    assert [machine.utilisation(i) for i in range(3)] == [0.52, 0.51, 0.50]
    assert machine.utilisation(7) is None
    assert machine.peer_to_peer(0, 1) is True
    assert machine.peer_to_peer(1, 2) is False
