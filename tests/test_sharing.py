"""What each replica gets of a machine: cards of its own, and its share of a card in common."""

from __future__ import annotations

import os

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError, HardwareShortageError
from myxtts.pipeline.devices import configure_devices
from myxtts.replicas.cluster import Cluster
from myxtts.replicas.sharing import check_machine_for, own_share, replicas_asked, show_own_card
from tests.support import FakeHardware

CARD = 24 * 1024


def settings(replicas=None, **data):
    return XTTSConfig(data=data, training={"replicas": replicas})


def cluster(rank, world=3):
    return Cluster(tuple(f"here:{n + 1}" for n in range(world)), rank, "TF_CONFIG")


ROLES = {"data_gpu": 0, "model_gpu": (1, 2, 3), "enable_memory_isolation": True}


def test_each_trains_on_its_own_card_and_has_a_share_of_the_data_card():
    for rank in range(3):
        own = own_share(
            settings(**ROLES, data_gpu_memory=9000), cluster(rank), FakeHardware(*[CARD] * 4)
        )
        assert (own.data.data_gpu, own.data.model_gpu) == (0, rank + 1)
        assert own.data.data_gpu_memory == 2944  # a third of 9000, in whole 64 MB
        hardware = FakeHardware(*[CARD] * 4)
        plan = configure_devices(**vars(own.data.device_request()), hardware=hardware)
        assert hardware.shown == [0, rank + 1]
        assert (plan.data_limit_mb, hardware.limits[0]) == (2944, [2944])


def test_without_a_limit_the_card_is_planned_for_all_that_share_it():
    hardware = FakeHardware(*[CARD] * 4)
    limits = {
        own_share(settings(**ROLES), cluster(r), hardware).data.data_gpu_memory for r in range(3)
    }
    assert len(limits) == 1
    (limit,) = limits
    assert 3 * (limit + 512) <= CARD
    assert limit > 4096


def test_alone_on_its_card_each_sees_that_one(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "")
    show_own_card(settings(), cluster(2), FakeHardware(*[CARD] * 4))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")  # a scheduler's choice for this process
    show_own_card(settings(), cluster(2), FakeHardware(CARD))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    with pytest.raises(HardwareShortageError, match="3 replicas are on this machine"):
        show_own_card(settings(), cluster(2), FakeHardware(CARD, CARD))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({**ROLES, "enable_memory_isolation": False}, "without a limit for any"),
        ({**ROLES, "data_gpu": None}, "without --data-gpu"),
        ({**ROLES, "data_gpu": 2}, "would prepare batches for 3 replicas and train one"),
        ({**ROLES, "model_gpu": (1, 2, 2)}, "names a card twice"),
        ({**ROLES, "model_gpu": (1, 2)}, "names 2 cards, and 3 replicas"),
        ({**ROLES, "data_gpu_memory": 600}, "192 MB for each of 3 replicas"),
        ({"replicas": 2}, "--replicas is 2, and TF_CONFIG lists 3"),
    ],
)
def test_what_cannot_be_shared_is_refused(given, problem):
    with pytest.raises(ConfigError, match=problem):
        own_share(settings(**given), cluster(0), FakeHardware(*[CARD] * 4))


def test_the_number_of_replicas_is_asked_for_or_follows_from_the_cards():
    assert replicas_asked(settings()) == 1
    assert replicas_asked(settings(replicas=4)) == 4
    assert replicas_asked(settings(**ROLES)) == 3
    with pytest.raises(ConfigError, match="--replicas is 2, and --model-gpu names 3 cards"):
        replicas_asked(settings(replicas=2, **ROLES))


def test_a_machine_without_enough_cards_is_refused_before_anything_starts():
    check_machine_for(settings(replicas=2), 2, FakeHardware(CARD, CARD))
    check_machine_for(settings(replicas=2), 2, FakeHardware())  # on the CPU
    check_machine_for(settings(replicas=4, simulate=True), 4, FakeHardware(CARD))
    check_machine_for(settings(**ROLES, simulate=True), 3, FakeHardware())
    with pytest.raises(HardwareShortageError, match="3 replicas need a GPU each, and there are 2"):
        check_machine_for(settings(replicas=3), 3, FakeHardware(CARD, CARD))
    with pytest.raises(HardwareShortageError, match="model GPUs 1, 2, 3; 2 are available"):
        check_machine_for(settings(**ROLES), 3, FakeHardware(CARD, CARD))
    with pytest.raises(ConfigError, match="given with one model GPU, 1") as caught:
        check_machine_for(settings(replicas=2, data_gpu=0, model_gpu=1), 2, FakeHardware(CARD))
    assert "--data-gpu 0 --model-gpu 1,2" in caught.value.remedy


def test_one_process_cannot_train_on_several_cards():
    with pytest.raises(ConfigError, match="names 3 cards: one process trains on one"):
        settings(**ROLES).data.device_request()
    assert settings(model_gpu=[1], data_gpu=0).data.model_gpu == 1
