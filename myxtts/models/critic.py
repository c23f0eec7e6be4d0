"""Tells recorded mels from drawn ones, patch by patch, so that speech is not drawn smooth.

What is nearest on average to all the ways of saying a thing is none of them but their blur, and
the mel error alone rewards it. The critic learns to see the blur while the model learns to draw
what the critic takes for a recording: both in one step of one optimiser. Only training needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

WIDTHS = (16, 32, 64, 64)
KERNEL, STRIDE = 3, 2
LEAK = 0.2
FEATURES = 2.0  # how much likeness in a layer counts, against the verdict


class Seen(NamedTuple):
    """What a critic sees in mels: features, and a verdict for each patch: 1 for recorded."""

    features: list[tf.Tensor]  # each [B, f, m, C]
    verdicts: tf.Tensor  # [B, f, m]
    masks: list[tf.Tensor]  # of the features, [B, f, 1]


class Critic(keras.layers.Layer):
    """A few convolutions over time and bands, each halving both."""

    def build(self, _shape: Any) -> None:
        """Make the weights."""
        self.kernels, self.biases = [], []
        for number, (before, after) in enumerate(zip((1, *WIDTHS), (*WIDTHS, 1), strict=True)):
            self.kernels.append(
                self.add_weight(
                    name=f"kernel_{chr(ord('a') + number)}",
                    shape=[KERNEL, KERNEL, before, after],
                    initializer="he_uniform",
                )
            )
            self.biases.append(
                self.add_weight(
                    name=f"bias_{chr(ord('a') + number)}", shape=[after], initializer="zeros"
                )
            )

    def call(self, mels: tf.Tensor, mask: tf.Tensor, *, frozen: bool = False) -> Seen:
        """Look at mels [B, F, M]; frozen, the critic does not learn from it."""
        features, masks = [], []
        seen = mels[..., None]
        for number, weights in enumerate(zip(self.kernels, self.biases, strict=True)):
            kernel, bias = (
                tf.stop_gradient(tf.convert_to_tensor(w)) if frozen else w for w in weights
            )
            last = number == len(WIDTHS)
            stride = 1 if last else STRIDE
            # Padded alike whatever the length, so that padding changes nothing.
            wide = tf.pad(seen, [[0, 0], [1, 1], [1, 1], [0, 0]])
            seen = tf.nn.conv2d(wide, kernel, stride, "VALID") + bias
            if not last:
                mask = mask[:, ::STRIDE]
                seen = tf.nn.leaky_relu(seen, LEAK) * mask[..., None]
                features.append(seen)
                masks.append(mask)
        return Seen(features, seen[..., 0], masks)


def critic_errors(
    critic: Critic, recorded: tf.Tensor, drawn: tf.Tensor, mask: tf.Tensor
) -> dict[str, tf.Tensor]:
    """For each clip [B]: how wrong the critic is, and how unlike a recording the drawn mel looks.

    Unlike in what the critic says of it, and in all that it sees on the way there.
    """
    judged = [critic(mels, mask) for mels in (recorded, tf.stop_gradient(drawn))]
    real, last = judged[0], judged[0].masks[-1]
    wrong = tf.square(real.verdicts - 1.0) + tf.square(judged[1].verdicts)
    seen = critic(drawn, mask, frozen=True)
    unlike = _mean(tf.square(seen.verdicts - 1.0), last)
    for ours, theirs, where in zip(seen.features, real.features, real.masks, strict=True):
        apart = tf.abs(ours - tf.stop_gradient(theirs))
        unlike += FEATURES * _mean(tf.reduce_mean(apart, -1), where)
    return {"critic": _mean(wrong, last), "realism": unlike}


def _mean(errors: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """[B, f, m] to [B], over what is no padding."""
    return tf.reduce_sum(tf.reduce_mean(errors, 2) * mask[..., 0], 1) / tf.maximum(
        tf.reduce_sum(mask[..., 0], 1), 1.0
    )
