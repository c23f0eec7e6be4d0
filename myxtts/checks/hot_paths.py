"""Every traced function of the hot paths, in the form that a GPU gets: traced, not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow as tf

from myxtts.config.config import ModelConfig, TrainingConfig
from myxtts.data.loader import batch_spec
from myxtts.features.device_stage import make_device_stage
from myxtts.inference.traced_voice import TracedVoice
from myxtts.inference.vocoder import GriffinLim
from myxtts.pipeline.budget import spec_bytes
from myxtts.pipeline.transfer import crossing
from myxtts.profiling.graph_walk import Level
from myxtts.profiling.traced_work import (
    HOST,
    Spec,
    make_model,
    make_step,
    ready_batch_spec,
    trace_step,
)
from myxtts.training.model_memory import BatchShape
from myxtts.training.schedule import WarmUpCosine

SHAPE = BatchShape(rows=16, frames=800, tokens=120)


@dataclass(frozen=True)
class HotPath:
    """One traced function; `compiled` by XLA as a whole, or launched operation by operation."""

    name: str
    concrete: Any
    compiled: bool = False


@dataclass(frozen=True)
class Variant:
    """A model as a run may have it."""

    size: str = "tiny"
    head: str = "regression"
    policy: str = "float32"
    critic: bool = False

    def __str__(self) -> str:
        head = "with critic" if self.critic else self.head
        return f"{self.size} {head} {self.policy.removeprefix('mixed_')}"


def data_paths() -> tuple[list[HotPath], Spec]:
    """What happens before the step, whatever the model; and the batch that comes of it."""
    host = batch_spec(**asdict(SHAPE))
    stage = make_device_stage(on_gpu=True).get_concrete_function(host)
    ready = ready_batch_spec(stage)
    compiled = make_device_stage(jit_compile=True, on_gpu=True).get_concrete_function(host)
    # As little data is prepared: the same, behind clips played faster and slower.
    varied = batch_spec(**asdict(SHAPE), played=True)
    played, played_compiled = (
        make_device_stage(jit_compile=jit_compile, on_gpu=True).get_concrete_function(varied)
        for jit_compile in (False, True)
    )
    crossed = crossing().get_concrete_function(list(ready.values()))
    paths = [
        HotPath("data stage", stage),
        HotPath("data stage", compiled, compiled=True),
        HotPath("played", played),
        HotPath("played", played_compiled, compiled=True),
        HotPath("crossing", crossed),
    ]
    return paths, ready


def model_paths(variant: Variant, batch: Spec) -> Iterator[HotPath]:
    """What happens to a model: it is trained, measured, and speaks."""
    size = ModelConfig(size=variant.size, decoder_head=variant.head)
    training = {"sharpness": 0.1, "dropout": 0.1} if variant.critic else {}
    model = make_model(size, policy=variant.policy, **training)
    model.in_blocks = True  # as it would be on a GPU
    with tf.device(HOST):
        schedule = WarmUpCosine(1e-3, warm_up_steps=100, total_steps=1000)
    for compiled in (False, True):
        step = make_step(
            model,
            TrainingConfig(),
            learning_rate=schedule,
            scale_loss=variant.policy == "mixed_float16",
            jit_compile=compiled,
        )
        gradients, update = trace_step(step, batch)
        yield HotPath("gradients", gradients, compiled)
        yield HotPath("update", update, compiled)
    evaluate = tf.function(model.compute_losses, reduce_retracing=True)
    done = step.optimizer.iterations
    yield HotPath("validation", evaluate.get_concrete_function(batch, step=done, training=False))
    traced = TracedVoice(model, on_gpu=True)
    yield HotPath("listening", traced.listen.get_concrete_function())
    yield HotPath("speaking", traced.speak.get_concrete_function())


def vocoder_path() -> HotPath:
    """The sound of a mel."""
    return HotPath("vocoder", GriffinLim(device=HOST).invert.get_concrete_function())


def bytes_read(concrete: Any, batch: Spec) -> int:
    """What of a batch the function's results depend on."""
    needed = Level(concrete.graph, times=1).needed
    given = zip(tf.nest.flatten(batch), concrete.inputs, strict=False)
    return spec_bytes([spec for spec, tensor in given if tensor.op in needed]) or 0
