"""What to record: sentences that together hold every sound of a language, the rare ones too."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from myxtts.corpora.script_slots import sentences_to_read
from myxtts.errors import DataError
from myxtts.recordings.sounds import sounds_of
from myxtts.text.languages import check_language
from myxtts.text.scripts import check_script
from myxtts.text.sentences import split_sentences

SOUNDS_A_SECOND = 11.0  # read aloud with care
LONGEST_S, SHORTEST_S = 11.0, 1.0  # of a sentence: a clip of training's length
_PAIR_WEIGHT = 0.5  # of two sounds in a row, against a sound by itself


def recording_script(
    language: str, minutes: float, *, texts: Sequence[str] | None = None
) -> list[str]:
    """Sentences to read aloud, phonetically balanced, that take about so many minutes.

    From `texts` where given, else from the built-in lists, which hold a minute or two for most
    languages and enough for English and Persian: what comes back may be shorter than asked for,
    and nothing is repeated. The sentence that adds most comes first.
    """
    tag = check_language(language)
    given = sentences_to_read(tag) if texts is None else [line.strip() for line in texts]
    given = [line for line in dict.fromkeys(given) if line]
    if texts is not None:
        if not given:
            raise DataError("There is no sentence to choose from.", "a text with some sentences")
        check_script(given, tag)
    return choose_sentences(given, tag, seconds=60.0 * minutes)


def choose_sentences(
    sentences: Sequence[str], language: str, *, seconds: float, said: Counter[str] | None = None
) -> list[str]:
    """The sentences that add most sounds and pairs of sounds for their length, in that order.

    `said` is what was recorded already. What a sound still adds falls with how often it was said,
    so sentences only ever lose worth: whichever is best by its old worth and still is by its new
    one is the best of all, and few have to be looked at.
    """
    units = [_units(sounds_of(sentence, language)) for sentence in sentences]
    counts: Counter[str] = Counter(said or ())
    # Of sentences worth the same the first given is taken.
    heap = [(-_worth(unit, counts), number) for number, unit in enumerate(units)]
    heapq.heapify(heap)
    chosen: list[str] = []
    left = seconds
    while heap and left > 0:
        _, number = heapq.heappop(heap)
        lasts = read_seconds(units[number])
        if not SHORTEST_S <= lasts <= LONGEST_S:
            continue
        now = -_worth(units[number], counts)
        if heap and now > heap[0][0]:
            heapq.heappush(heap, (now, number))
            continue
        chosen.append(sentences[number])
        counts.update(units[number])
        left -= lasts
    return chosen


def sentences_with(
    sounds: Collection[str], language: str, *, most: int, sentences: Sequence[str] | None = None
) -> list[str]:
    """A few sentences that together say the given sounds as often as they can."""
    given = sentences_to_read(language) if sentences is None else sentences
    held = [Counter(s for s in sounds_of(line, language) if s in sounds) for line in given]
    counts: Counter[str] = Counter()
    chosen: list[str] = []
    for _ in range(most):
        worth = [sum(1.0 / (1 + counts[s]) for s in set(one)) for one in held]
        best = max(range(len(given)), key=lambda i: worth[i] if given[i] not in chosen else -1.0)
        if worth[best] <= 0 or given[best] in chosen:
            break
        chosen.append(given[best])
        counts.update(held[best])
    return chosen


def script_minutes(lines: Iterable[str], language: str) -> float:
    """About how long it takes to read the lines aloud, without the pauses between them."""
    tag = check_language(language)
    return sum(read_seconds(_units(sounds_of(line, tag))) for line in lines) / 60.0


def sentences_in(text: str, language: str) -> list[str]:
    """The sentences of a text; a line is never joined with the next, for lists are lines."""
    tag = check_language(language)
    return [s.text for line in text.splitlines() for s in split_sentences(line, tag)]


def read_seconds(units: Counter[str]) -> float:
    """How long a sentence of such sounds lasts."""
    return sum(times for unit, times in units.items() if "+" not in unit) / SOUNDS_A_SECOND


def _units(sounds: Sequence[str]) -> Counter[str]:
    """Sounds, and pairs of them as `a+b`."""
    single = Counter(sound for sound in sounds if sound != " ")
    return single + Counter("+".join(pair) for pair in pairwise(sounds))


def _worth(units: Counter[str], counts: Counter[str]) -> float:
    """What a sentence adds for each second that it takes."""
    adds = sum((_PAIR_WEIGHT if "+" in unit else 1.0) / (1.0 + counts[unit]) ** 2 for unit in units)
    return adds / max(read_seconds(units), SHORTEST_S)
