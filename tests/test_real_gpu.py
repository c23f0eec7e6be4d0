"""What only a real GPU can show; skipped without one."""

from __future__ import annotations

import pytest

from myxtts.pipeline.hardware import HARDWARE
from tests.support import run_python

pytestmark = pytest.mark.gpu


def test_one_card_split_in_two_passes_every_check():
    result = run_python(["-m", "myxtts", "validate", "--data-gpu", "0", "--model-gpu", "0"])
    assert result.returncode == 0, result.stdout + result.stderr


def test_two_cards_pass_every_check_also_reversed():
    if len(HARDWARE.cards()) < 2:
        pytest.skip("needs two GPUs")
    for data_gpu, model_gpu in (("0", "1"), ("1", "0")):
        result = run_python(
            ["-m", "myxtts", "validate", "--data-gpu", data_gpu, "--model-gpu", model_gpu]
        )
        assert result.returncode == 0, result.stdout + result.stderr


def test_an_allocation_past_the_limit_fails():
    result = run_python(
        [
            "-c",
            "from myxtts.utils.gpu_memory import setup_gpu_memory_isolation\n"
            "plan = setup_gpu_memory_isolation(0, 0, 512, 1024)\n"
            "import tensorflow as tf\n"
            "with tf.device(plan.model_device): tf.zeros([900 * 2**18]).numpy()\n"
            "try:\n"
            "  with tf.device(plan.data_device): tf.zeros([900 * 2**18]).numpy()\n"
            "except tf.errors.ResourceExhaustedError: print('refused')",
        ]
    )
    assert result.stdout.strip() == "refused", result.stderr
