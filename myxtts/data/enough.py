"""Says what an amount of recordings is enough for, by what was measured with this trainer.

A `tiny` voice from nothing, 1200 steps on 12 minutes of one person: 0.69 of the words understood;
600 steps on the same 12 minutes from a trained voice: 0.96. Trained further on 48 people, the
cloning demo came nearest to the right one of six people it never heard in 4 to 5 of 6.
"""

from __future__ import annotations

from collections.abc import Mapping

from myxtts.messages import Message

# From so many minutes of the most recorded speaker; the first row that applies is said.
VOICE = (
    (36, "Enough for a voice of its own: {} minutes of the most recorded speaker; more helps."),
    (
        12,
        "Little for a voice of its own: {} minutes of the most recorded speaker. From 12 minutes a "
        "voice was understood at 0.69 of the words, and at 0.96 if trained on from another voice "
        "(--init-from); 36 minutes and more are better.",
    ),
    (
        0,
        "Too little for a voice of its own: {} minutes of the most recorded speaker, and of people "
        "12 are the least that was tried. Start from a trained voice (--init-from), or record "
        "more.",
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
