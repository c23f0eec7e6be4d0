"""Every traced function of the hot paths, in the form that a GPU gets: traced, not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from myxtts.config.model import ModelConfig
from myxtts.features.audio import REFERENCE_SAMPLES, bucket_samples
from myxtts.features.device_stage import make_device_stage
from myxtts.inference.traced_voice import TracedVoice
from myxtts.inference.vocoder import GriffinLim
from myxtts.models.xtts import XTTS
from myxtts.pipeline.transfer import crossing
from myxtts.training.schedule import WarmUpCosine
from myxtts.training.step import TrainStep

ROWS, FRAMES, TOKENS = 16, 800, 120
DEVICE = "/CPU:0"  # where it is traced; what is asked is what a GPU would do

Spec = dict[str, tf.TensorSpec]


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

    def __str__(self) -> str:
        return f"{self.size} {self.head} {self.policy.removeprefix('mixed_')}"


def host_spec(rows: int = ROWS, frames: int = FRAMES, tokens: int = TOKENS) -> Spec:
    """A host batch, as the loader makes it."""
    number = tf.TensorSpec([rows], tf.int32)
    numbers = ("wave_lengths", "reference_lengths", "token_lengths", "languages")
    return {
        "waves": tf.TensorSpec([rows, bucket_samples(frames)], tf.int16),
        "references": tf.TensorSpec([rows, REFERENCE_SAMPLES], tf.int16),
        "tokens": tf.TensorSpec([rows, tokens], tf.int32),
        "seed": tf.TensorSpec([2], tf.int32),
        **dict.fromkeys(numbers, number),
    }


def data_paths(host: Spec) -> tuple[list[HotPath], Spec]:
    """What happens before the step, whatever the model; and the batch that comes of it."""
    stage = make_device_stage(on_gpu=True).get_concrete_function(host)
    ready = {
        name: tf.TensorSpec(t.shape, t.dtype, name) for name, t in stage.structured_outputs.items()
    }
    compiled = make_device_stage(jit_compile=True, on_gpu=True).get_concrete_function(host)
    crossed = crossing().get_concrete_function(list(ready.values()))
    paths = [
        HotPath("data stage", stage),
        HotPath("data stage", compiled, compiled=True),
        HotPath("crossing", crossed),
    ]
    return paths, ready


def model_paths(variant: Variant, batch: Spec) -> Iterator[HotPath]:
    """What happens to a model: it is trained, measured, and speaks."""
    model = _make_model(variant)
    for compiled in (False, True):
        step = _make_step(model, variant, jit_compile=compiled)
        gradients = step._gradients.get_concrete_function(batch)
        yield HotPath("gradients", gradients, compiled)
        flat, weight = gradients.structured_outputs[1], tf.TensorSpec([], tf.float32)
        update = step._update.get_concrete_function(tf.TensorSpec(flat.shape, flat.dtype), weight)
        yield HotPath("update", update, compiled)
    evaluate = tf.function(model.compute_losses, reduce_retracing=True)
    done = step.optimizer.iterations
    yield HotPath("validation", evaluate.get_concrete_function(batch, step=done, training=False))
    traced = TracedVoice(model, on_gpu=True)
    yield HotPath("listening", traced.listen.get_concrete_function())
    yield HotPath("speaking", traced.speak.get_concrete_function())


def vocoder_path() -> HotPath:
    """The sound of a mel."""
    return HotPath("vocoder", GriffinLim(device=DEVICE).invert.get_concrete_function())


def bytes_of(spec: Spec) -> int:
    """What a batch takes."""
    return sum(each.shape.num_elements() * each.dtype.size for each in spec.values())


def bytes_read(concrete: Any, batch: Spec) -> int:
    """What of a batch the function's results depend on."""
    graph = concrete.graph
    seen: set[str] = set()
    waiting = [tensor.op for tensor in concrete.outputs]
    waiting += [operation for operation in graph.get_operations() if operation.type in WRITES]
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            waiting += [tensor.op for tensor in operation.inputs]
            waiting += operation.control_inputs
    given = zip(tf.nest.flatten(batch), concrete.inputs, strict=False)
    return sum(
        spec.shape.num_elements() * spec.dtype.size
        for spec, tensor in given
        if tensor.op.name in seen
    )


WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def _make_model(variant: Variant) -> XTTS:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(variant.policy)
    try:
        with tf.device(DEVICE):
            model = XTTS(ModelConfig(size=variant.size, decoder_head=variant.head))
    finally:
        keras.config.set_dtype_policy(before)
    model.in_blocks = True  # as it would be on a GPU
    return model


def _make_step(model: XTTS, variant: Variant, *, jit_compile: bool) -> TrainStep:
    with tf.device(DEVICE):
        schedule = WarmUpCosine(1e-3, warm_up_steps=100, total_steps=1000)
    step = TrainStep(
        model,
        device=DEVICE,
        learning_rate=schedule,
        weight_decay=0.01,
        ema_decay=0.999,
        scale_loss=variant.policy == "mixed_float16",
        jit_compile=jit_compile,
    )
    step.build()
    return step
