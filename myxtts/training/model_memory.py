"""What the voice model, its optimiser and a batch take, counted without building any of them.

Weights, optimiser and batches are exact (tests compare them with the real ones); activations are
estimated. Shapes: B rows, F frames, T tokens, M mels. Keras could count the weights, but loading
TensorFlow takes eight times as long as all of `myxtts plan`, which asks for many sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from myxtts.config.config import ModelConfig
from myxtts.features.audio import NUM_MELS, REFERENCE_FRAMES, REFERENCE_SAMPLES, bucket_samples
from myxtts.text.languages import LANGUAGES

FLOAT = 4  # bytes
KERNEL, LATENTS, TIME_FEATURES = 5, 32, 16
PREDICTOR_BLOCKS = 2
PLACE_FEATURES = 4
CRITIC_WIDTHS = (16, 32, 64, 64)


@dataclass(frozen=True)
class BatchShape:
    """Clips of a batch, and what they are padded to."""

    rows: int
    frames: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.rows} clips x {self.frames} frames x {self.tokens} tokens"


# -- weights --


def count_parameters(model: ModelConfig, *, critic: bool = False) -> int:
    """Weights of the voice model, each a float32 whatever the precision of the work."""
    encoder, decoder, voice = model.encoder_dim, model.decoder_dim, model.voice_dim
    predictor = encoder * 3 // 4
    flow = model.decoder_head == "flow"
    frame_inputs = decoder_inputs(model)
    return sum(
        (
            model.vocab_size * encoder + len(LANGUAGES) * encoder,
            model.encoder_blocks * _film_block(encoder, voice),
            _attention(encoder) + _norm(encoder),
            _dense(encoder, NUM_MELS),
            _predictor(encoder, predictor, voice, outputs=1),
            _predictor(encoder + PLACE_FEATURES, predictor, voice, outputs=2),
            _dense(frame_inputs, decoder) + model.decoder_blocks * _film_block(decoder, voice),
            _norm(decoder) + _dense(decoder, NUM_MELS),
            _dense(TIME_FEATURES, voice) if flow else 0,
            _reference(voice),
            sum(_dense(9 * a, b) for a, b in pairwise((1, *CRITIC_WIDTHS, 1))) if critic else 0,
        )
    )


def decoder_inputs(model: ModelConfig) -> int:
    """Numbers known of each frame: text, mean spectrum, place, harmonics, voicing; flow's mel."""
    flow = NUM_MELS if model.decoder_head == "flow" else 0
    return model.encoder_dim + NUM_MELS + PLACE_FEATURES + NUM_MELS + 1 + flow


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def _norm(width: int) -> int:
    return 2 * width


def _film_block(width: int, voice: int) -> int:
    return _dense(voice, 2 * width) + _dense(KERNEL * width, width)


def _attention(width: int, heads: int = 2) -> int:
    inside = heads * (width // heads)
    return _norm(width) + 3 * _dense(width, inside) + _dense(inside, width)


def _predictor(inputs: int, width: int, voice: int, *, outputs: int) -> int:
    blocks = PREDICTOR_BLOCKS * _film_block(width, voice)
    return _dense(inputs, width) + blocks + _norm(width) + _dense(width, outputs)


def _reference(voice: int) -> int:
    known = NUM_MELS + 2 + LATENTS
    latents = _dense(3 * NUM_MELS, 2 * LATENTS) + _dense(2 * LATENTS, 1)
    return (
        latents + _dense(2 * LATENTS, LATENTS) + _dense(known, 2 * voice) + _dense(2 * voice, voice)
    )


@dataclass(frozen=True)
class Weights:
    """Bytes that stay on the model device from the first step to the last."""

    model: int
    optimizer: int  # its own copy of all weights end to end, both moments, its step counter
    average: int  # the averaged weights; 0 without

    @property
    def total(self) -> int:
        """All of them."""
        return self.model + self.optimizer + self.average


def weight_bytes(model: ModelConfig, *, averaged: bool = True, critic: bool = False) -> Weights:
    """The model's variables and the step's, to the byte."""
    weights = FLOAT * count_parameters(model, critic=critic)
    iterations = 8
    return Weights(weights, 3 * weights + iterations, weights if averaged else 0)


# -- batches --


def raw_batch_bytes(shape: BatchShape) -> int:
    """A batch as the host sends it: 16-bit waves, references, tokens, and their lengths."""
    waves = 2 * (bucket_samples(shape.frames) + REFERENCE_SAMPLES)
    return shape.rows * (waves + 4 * shape.tokens + _SMALL_COLUMNS + 2 * 4) + _ONCE


def ready_batch_bytes(shape: BatchShape) -> int:
    """A batch as the model gets it."""
    frame = FLOAT * (NUM_MELS + 1) + 1  # mels, pitch, voicing
    reference = FLOAT * (NUM_MELS + 1)
    row = shape.frames * frame + REFERENCE_FRAMES * reference + 4 * shape.tokens
    return shape.rows * (row + _SMALL_COLUMNS + 2 * 4) + _ONCE


_SMALL_COLUMNS = 2 * 4  # token length, language
_ONCE = 2 * 4  # seed


# -- activations: what the forward pass keeps for the backward pass --

# Of each block: its input, the modulated input of the convolution, and the convolution's output;
# the rest is computed again inside the same compiled kernels. Measured without XLA a step takes no
# more: TensorFlow frees what nobody will read as it goes.
KEPT_OF_BLOCK = 3
KEPT_OF_ATTENTION = 6  # normed, query, key, value, weighted, projected
KEPT_MELS = 8  # mel-sized: target, means twice, template, prediction, errors
KEPT_OF_CONVOLUTION = 2  # of the critic's: before and after its rectifier
KEPT_OF_PATH = 6  # token-by-frame-sized: likelihood, its two orders, totals, path, alignment


def activation_bytes(
    model: ModelConfig, shape: BatchShape, *, half: bool = False, dropout: bool = False
) -> int:
    """What one step keeps of a batch until its gradients are there; estimated."""
    kept = KEPT_OF_BLOCK
    encoder, decoder = model.encoder_dim, model.decoder_dim
    predictor = encoder * 3 // 4
    around = 2  # a stack's input projection and its last normalisation
    frame = decoder_inputs(model) + decoder * (kept * model.decoder_blocks + around)
    frame += encoder + PLACE_FEATURES + predictor * (kept * PREDICTOR_BLOCKS + around)
    token = encoder * (kept * model.encoder_blocks + KEPT_OF_ATTENTION + around)
    token += 2 * 2 * shape.tokens + predictor * (kept * PREDICTOR_BLOCKS + around)
    reference = 2 * NUM_MELS + 3 * 2 * LATENTS
    exact = shape.frames * NUM_MELS * KEPT_MELS + REFERENCE_FRAMES * reference
    exact += shape.tokens * (2 * NUM_MELS + shape.frames * KEPT_OF_PATH)
    worked = shape.frames * frame + shape.tokens * token
    masks = 0  # a byte for each number that may be left out
    if dropout:
        masks = (shape.frames + shape.tokens) * predictor * PREDICTOR_BLOCKS
        masks += shape.frames * decoder * model.decoder_blocks
        masks += shape.tokens * encoder * model.encoder_blocks
    return shape.rows * (FLOAT * exact + (2 if half else FLOAT) * worked + masks)


def critic_bytes(shape: BatchShape) -> int:
    """What the critic keeps of the mels that it looks at three times; estimated."""
    cells = 0
    for number, width in enumerate(CRITIC_WIDTHS, start=1):
        cells += -(-shape.frames // 2**number) * (NUM_MELS // 2**number) * width
    return 3 * KEPT_OF_CONVOLUTION * FLOAT * shape.rows * cells


@dataclass(frozen=True)
class StepMemory:
    """Bytes on the model device at the worst moment of a step, without the batches waiting."""

    weights: Weights
    gradients: int  # those of each variable, and all end to end
    update: int  # the gradients, and new values of all that an update changes
    activations: int
    batch: int

    @property
    def total(self) -> int:
        """All that is there at once: activations are gone when the update begins."""
        working = max(self.gradients + self.activations, self.update)
        return self.weights.total + self.batch + working


def step_memory(
    model: ModelConfig,
    shape: BatchShape,
    *,
    half: bool = False,
    critic: bool = False,
    dropout: bool = False,
) -> StepMemory:
    """What training on batches of this shape takes."""
    weights = weight_bytes(model, critic=critic)
    judged = critic_bytes(shape) if critic else 0
    return StepMemory(
        weights=weights,
        gradients=2 * weights.model,
        update=weights.model + weights.total,
        activations=activation_bytes(model, shape, half=half, dropout=dropout) + judged,
        batch=ready_batch_bytes(shape),
    )


# -- the data device --

PITCH_LAGS = 185  # of the pitch search, at half the rate
KEPT_LAGS = 3
# Of a sample that is played at another speed: its place and the one before it at 8 bytes each,
# four neighbours, what lies between, and the sums.
PLAYED_BYTES = 56


def process_bytes(shape: BatchShape, *, played: bool = False) -> int:
    """What the data device works with while it makes features of a batch; estimated."""
    samples = bucket_samples(shape.frames) + REFERENCE_SAMPLES
    frames = shape.frames + REFERENCE_FRAMES // 2
    work = FLOAT * (3 * samples + KEPT_LAGS * PITCH_LAGS * frames)
    playing = PLAYED_BYTES * max(bucket_samples(shape.frames), REFERENCE_SAMPLES)
    return shape.rows * (work + (playing if played else 0))
