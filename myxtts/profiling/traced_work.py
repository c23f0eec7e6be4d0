"""Traces what one batch asks for, as a run would: the data stage, the gradients and the update.

Nothing of it is run, and no data is needed. The form is that for a GPU, also where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import tensorflow as tf

from myxtts.config.config import ModelConfig, TrainingConfig, XTTSConfig
from myxtts.data.loader import batch_spec
from myxtts.features.device_stage import make_device_stage
from myxtts.models.xtts import XTTS
from myxtts.pipeline.budget import spec_bytes
from myxtts.profiling.kernels import kernels_of
from myxtts.profiling.speed_estimate import Stage, Work
from myxtts.training.model_memory import BatchShape
from myxtts.training.precision import made_with
from myxtts.training.step import TrainStep

HOST = "/CPU:0"  # where tracing is done
Spec = dict[str, tf.TensorSpec]


def trace_work(
    config: XTTSConfig,
    shape: BatchShape,
    *,
    half: bool,
    on_gpu: bool = True,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Work:
    """The kernels of each stage for batches of this shape; `half`: in mixed precision."""
    training = config.training
    tell(f"tracing the data stage for {shape}")
    raw = batch_spec(**asdict(shape), played=config.data.augment_speed > 0)
    process = make_device_stage(on_gpu=on_gpu).get_concrete_function(raw)
    ready = ready_batch_spec(process)
    tell(f"making the {config.model.size} model, and tracing its gradients and its update")
    policy = "mixed_bfloat16" if half else "float32"
    model = make_model(config.model, policy=policy, **training.of_the_model)
    model.in_blocks = on_gpu
    step = make_step(model, training)
    gradients, update = trace_step(step, ready)
    compiled = training.xla
    fused = training.xla_process == "on"  # `auto` is at least as quick as without
    return Work(
        process=(Stage("process", kernels_of(process, compiled=fused), fused),),
        train=(
            Stage("gradients", kernels_of(gradients, compiled=compiled), compiled),
            Stage(
                "update",
                kernels_of(update, compiled=compiled),
                compiled,
                share=1.0 / training.grad_accum,
            ),
        ),
        input_bytes=spec_bytes(raw) or 0,
        crossing_bytes=spec_bytes(ready) or 0,
    )


def ready_batch_spec(stage: Any) -> Spec:
    """A batch as the data stage, which was traced, gives it to the model."""
    made = stage.structured_outputs.items()
    return {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in made}


def make_model(config: ModelConfig, *, policy: str = "float32", **training: float) -> XTTS:
    """The model as the trainer makes it, on the host."""
    with made_with(policy), tf.device(HOST):
        return XTTS(config, **training)


def make_step(
    model: XTTS,
    training: TrainingConfig,
    *,
    learning_rate: Any = None,
    scale_loss: bool = False,
    jit_compile: bool = False,
) -> TrainStep:
    """The step as the trainer makes it; without a schedule its learning rate stays at the peak."""
    step = TrainStep(
        model,
        device=HOST,
        learning_rate=learning_rate or training.learning_rate,
        weight_decay=training.weight_decay,
        gradient_clip=training.gradient_clip,
        ema_decay=training.ema_decay or None,
        grad_accum=training.grad_accum,
        scale_loss=scale_loss,
        jit_compile=jit_compile,
    )
    step.build()
    return step


def trace_step(step: TrainStep, ready: Any) -> tuple[Any, Any]:
    """The two functions of a step, traced for batches like these."""
    gradients = step._gradients.get_concrete_function(ready)
    flat = tf.TensorSpec(step.weights.shape, tf.float32)
    return gradients, step._update.get_concrete_function(flat, tf.TensorSpec([], tf.float32))
