"""What warm processes have imported before they start; see tests/warm.py."""

import keras  # noqa: F401

import myxtts.cli.app
import myxtts.inference.synthesizer
import myxtts.observe.checks
import myxtts.training.memory_isolated_trainer  # noqa: F401
