"""What the built-in corpus says: five-word sentences from fixed slots, and everyday English."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from myxtts.errors import DataError

FOLDER = Path(__file__).parent / "sentences"


@cache
def sentences_of(language: str) -> tuple[str, ...]:
    """The built-in sentences of a language."""
    lines = (FOLDER / f"{language}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for a slot."""
    return tuple(text.split())


# One sentence takes one word of each slot, in this order. Within a slot no two words sound alike,
# the held-out ones included, so that a listener who knows the list (the closed-set test of
# intelligibility) can tell them apart: 24 + 8 alternatives a slot.
SLOTS: dict[str, tuple[str, ...]] = {
    "name": words(
        "Peter Alice Kathy Thomas Nina Steven Rachel William Joyce Hannah Allen Doris "
        "Lucas Sarah Martin George Zoe Victor Emily Paul Sophie Howard Barbara Oscar"
    ),
    "verb": words(
        "sees buys has gives finds keeps wants sells draws moves likes throws washes "
        "carries chooses borrows paints orders counts teaches needs hides fixes loves"
    ),
    "number": words(
        "two three four five six seven eight nine ten eleven twelve twenty "
        "thirty sixty ninety hundred many several few most some all no these"
    ),
    "adjective": words(
        "old green large cheap heavy pretty dark thin small wooden yellow clean "
        "strange round quiet modern fresh lovely smooth royal broken famous usual young"
    ),
    "noun": words(
        "ships flowers houses books toys rings chairs windows tables spoons bottles horses clocks "
        "shoes dogs pictures gardens kitchens feathers oranges mirrors boats knives pencils"
    ),
}

# Never said in training, neither in slot sentences nor in the everyday ones.
HELD_OUT_SLOTS: dict[str, tuple[str, ...]] = {
    "name": ("Kevin", "Laura", "Jason", "Megan", "Robert", "Susan", "Daniel", "Judith"),
    "verb": ("holds", "brings", "visits", "shows", "drops", "makes", "studies", "accepts"),
    "number": ("forty", "fifteen", "both", "zero", "various", "enough", "million", "other"),
    "adjective": ("purple", "sweet", "bright", "narrow", "simple", "golden", "hungry", "foreign"),
    "noun": ("lemons", "rabbits", "candles", "ladders", "trees", "baskets", "violins", "gloves"),
}

# None longer than the longest slot sentences, so that one static shape serves both.
EVERYDAY_SENTENCES = sentences_of("en")


@dataclass(frozen=True)
class Vocabulary:
    """What a corpus of one language is drawn from."""

    slots: Mapping[str, tuple[str, ...]]
    held_out_slots: Mapping[str, tuple[str, ...]]
    everyday: tuple[str, ...]

    @property
    def min_sentences(self) -> int:
        """So many that every word is said."""
        return len(self.everyday) + max(map(len, self.slots.values()))


ENGLISH = Vocabulary(SLOTS, HELD_OUT_SLOTS, EVERYDAY_SENTENCES)
MIN_SENTENCES = ENGLISH.min_sentences
MAX_HELD_OUT = 1000  # far from all that the held-out slots can combine


@dataclass(frozen=True)
class DemoTexts:
    """The texts of one corpus: a training set and two held-out sets."""

    train: list[str]
    new_sentences: list[str]  # trained words in new combinations
    new_words: list[str]  # words never heard in training only


def draw_texts(
    *, num_sentences: int, num_held_out: int, seed: int, vocabulary: Vocabulary = ENGLISH
) -> DemoTexts:
    """Draw the texts of a corpus; the same numbers give the same texts."""
    if num_sentences < vocabulary.min_sentences:
        raise DataError(
            f"{num_sentences} sentences are too few to say every word of the demo corpus.",
            f"at least {vocabulary.min_sentences}",
        )
    if not 0 <= num_held_out <= MAX_HELD_OUT:
        raise DataError(f"{num_held_out} held-out clips cannot be made.", f"0 to {MAX_HELD_OUT}")
    rng = random.Random(seed)  # noqa: S311 - a shuffle, not a secret
    slots, everyday = vocabulary.slots, vocabulary.everyday
    num_drawn = num_sentences - len(everyday)
    train = [*everyday, *draw_slot_sentences(slots, num_sentences=num_drawn, rng=rng)]
    rng.shuffle(train)
    return DemoTexts(
        train,
        draw_slot_sentences(slots, num_sentences=num_held_out, rng=rng, avoid=train),
        draw_slot_sentences(vocabulary.held_out_slots, num_sentences=num_held_out, rng=rng),
    )


def slot_sentence(words: Sequence[str]) -> str:
    """Write the words of one sentence, one from each slot, as text."""
    return " ".join(words) + "."


def draw_slot_sentences(
    slots: Mapping[str, Sequence[str]],
    *,
    num_sentences: int,
    rng: random.Random,
    avoid: Collection[str] = (),
) -> list[str]:
    """Draw sentences that all differ, from each other and from those in `avoid`.

    Words are dealt from a shuffled deck per slot, so each is said equally often, give or take one
    round and a few that were drawn again.
    """
    decks: dict[str, list[str]] = {slot: [] for slot in slots}
    seen = set(avoid)
    sentences: list[str] = []
    while len(sentences) < num_sentences:
        for slot, deck in decks.items():
            if not deck:
                deck.extend(rng.sample(slots[slot], len(slots[slot])))
        sentence = slot_sentence([deck.pop() for deck in decks.values()])
        if sentence not in seen:
            seen.add(sentence)
            sentences.append(sentence)
    return sentences
