"""What warm processes have imported before they start; see tests/warm.py."""

import keras  # noqa: F401

import myxtts.checks.validators
import myxtts.cli.app
import myxtts.inference.synthesizer
import myxtts.training.memory_isolated_trainer  # noqa: F401
