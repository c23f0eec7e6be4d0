"""The cards of the base voice for people: a table, what it heard, what it is not."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from myxtts.cli.output import echo, make_console
from myxtts.messages import harmless

Card = dict[str, Any]

# What a number says, and where it stands on a card; of a part with several, the mean.
ROWS = (
    ("English words understood, said in training", "words", "trained words"),
    ("  never said in training", "words", "unseen words"),
    ("  the same, in the voice of one reader", "words", "unseen words, single speaker"),
    ("  the same, as people it never heard", "people", "unseen words"),
    ("  a wrong sentence: what luck gives", "words", "wrong"),
    ("sentences of all languages nearest to the right one", "languages"),
    ("synthetic voices it never heard, nearest to their own", "unseen", "pitch and spectrum"),
    ("  by resemblyzer", "unseen", "resemblyzer"),
    ("people it never heard, nearest to their own: digits", "people", "digits", "nearest"),
    ("  saying sentences", "people", "sentences", "nearest"),
    ("  their own recordings: the ceiling", "people", "natural", "nearest"),
)


def print_cards(cards: Sequence[Card]) -> None:
    """A column for each of them."""
    from rich.table import Table

    table = Table(title="Share of what it said, 1 is all of it")
    table.add_column("")
    for card in cards:
        table.add_column(harmless(card["size"]), justify="right")
    for title, *path in ROWS:
        table.add_row(title, *(_number(card["numbers"], path) for card in cards))
    make_console().print(table)
    for card in cards:
        after = ", after those of the voice it went on from" * bool(card["made"]["after_steps"])
        echo(f"{card['size']}: {card['steps']} steps{after}. {card['licence']}")
        for source, heard in card["heard"].items():
            echo(f"  heard {source}: {_heard(heard)}")
        for note in card["notes"]:
            echo(f"  {note}")
    echo("It is not:")
    for line in dict.fromkeys(line for card in cards for line in card["not"]):
        echo(f"  {line}")


def _heard(source: Card) -> str:
    played = source.get("played", 0)
    number, languages = source["speakers"] - played, len(source["languages"])
    return (
        f"{number} speaker{'s' * (number > 1)}"
        + f" (and {played} made of them, played faster or slower)" * bool(played)
        + f", {source['minutes']:.0f} minutes, {languages} language{'s' * (languages > 1)}"
    )


def _number(numbers: Card, path: Sequence[str]) -> str:
    value: Any = numbers
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict) and value:
        value = statistics.fmean(value.values())
    return f"{value:.2f}" if isinstance(value, int | float) else "-"
