"""Says what an amount of recordings is enough for, by what was measured with this trainer.

Of a voice: `benchmarks.few_minutes`, started from a base voice that never heard the speaker. Of
cloning: trained further on 48 people, the cloning demo came nearest to the right one of six people
it never heard in 4 to 5 of 6.
"""

from __future__ import annotations

from collections.abc import Mapping

from myxtts.messages import Message

# From so many minutes of the most recorded speaker; the first row that applies is said.
VOICE = (
    (
        15,
        "Enough for a voice: {} minutes of the most recorded speaker. Started from the base voice, "
        "as `myxtts train` does, 15 minutes gave one that says nearly every word clearly and "
        "sounds nearly as natural as its recordings do through the vocoder; more brings it nearer.",
    ),
    (
        5,
        "Enough to be understood: {} minutes of the most recorded speaker. Started from the base "
        "voice, as `myxtts train` does, 5 minutes gave a voice of whose words nine in ten are "
        "understood; with 15 it sounds more natural.",
    ),
    (
        0,
        "Little for a voice: {} minutes of the most recorded speaker. Started from the base voice, "
        "as `myxtts train` does, one minute gave a voice of whose words about four in five are "
        "understood, with some likeness; record 15 if you can.",
    ),
)
# From so many speakers.
CLONING = (
    (48, "Enough to try cloning voices it never heard: {} speakers; more are better."),
    (0, "For cloning voices it never heard it takes many speakers, 48 and more; here: {}."),
)


def enough_for(speaker_minutes: Mapping[str, float]) -> tuple[Message, Message]:
    """What to expect of a voice trained on this, and of cloning with it."""
    most = max(speaker_minutes.values(), default=0.0)
    shown = f"{most:.0f}" if most >= 10 else f"{most:.1f}"
    voice = next(words for least, words in VOICE if float(shown) >= least)
    cloning = next(words for least, words in CLONING if len(speaker_minutes) >= least)
    return Message(voice, (shown,)), Message(cloning, (str(len(speaker_minutes)),))
