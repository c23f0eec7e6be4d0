"""Is the Persian understood that a voice speaks, and is its ezafe heard? One row a kind of words.

    python -m benchmarks.persian_speech [RUN_OR_EXPORT] [--sentences N]

There is no recogniser of Persian here, so recordings are compared. The demo's voices say sentences
of five words (name, number, thing, quality, verb), cloned from three recordings of espeak-ng. For
each place of a sentence espeak-ng also says it with seven other words there: a word counts as
understood if the speech is nearer to the recording of the right sentence than to all seven, by
cepstra after time warping (`myxtts.evaluation.distortion`). Luck gives 1 of 8.

    words            understood, as above
    another speaker  the same of espeak-ng's own audio in another voice: what the judge can reach
    wrong sentence   the voice's speech judged as if it were the next sentence
    ezafe            nearer to the recording with the ezafe than to one without it
    without ezafe    the same of another speaker who leaves it out: what the judge makes of that

Everything on the CPU. A missed bar gives exit code 1.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from myxtts.corpora.demo import DEMO_VOICES, DemoVoice, in_language
from myxtts.corpora.demo_sentences import draw_slot_sentences, slot_sentence
from myxtts.corpora.persian_sentences import PERSIAN
from myxtts.errors import MyXTTSError
from myxtts.text import espeak
from myxtts.text.recital import persian_for_espeak
from myxtts.text.tokenizers import read_words

OTHERS = 7  # words beside the right one
REFERENCES = 3
THING = list(PERSIAN.slots).index("thing")  # which takes the ezafe
COLUMNS = ("words", "another speaker", "wrong sentence", "ezafe", "without ezafe")
BARS = {
    "words": (">=", 0.90),
    "another speaker": (">=", 0.90),
    "wrong sentence": ("<=", 0.30),
    "ezafe": (">=", 0.90),
    "without ezafe": ("<=", 0.20),
}


@dataclass(frozen=True)
class Heard:
    """What is judged of one sentence."""

    column: str
    right: float


def say(said: str, voice: DemoVoice) -> object:
    """A recording of espeak-ng, measured; `said` is what `persian_for_espeak` gives."""
    from myxtts.evaluation.pitch import analyse

    samples, _ = espeak.speak(said, voice=voice.espeak_voice, brackets=True)
    return analyse(samples.astype("float32") / 32768)


def without_ezafe(text: str) -> str:
    """The sentence as one says it who leaves the ezafe of the thing out."""
    word = read_words(text, "fa")[THING]
    assert word.ezafe, text
    said = persian_for_espeak(text).split()
    end = "je]]" if word.reading.endswith("-ye") else "e]]"
    assert said[THING].endswith(end), said[THING]
    said[THING] = said[THING].removesuffix(end) + "]]"
    return " ".join(said)


def with_other_words(text: str, rng: random.Random) -> list[list[str]]:
    """For each place, the sentence with other words there."""
    words = text.rstrip(".").split()
    changed = []
    for place, slot in enumerate(PERSIAN.slots):
        known = PERSIAN.slots[slot] + PERSIAN.held_out_slots[slot]
        others = rng.sample([word for word in known if word != words[place]], OTHERS)
        changed.append([slot_sentence([*words[:place], w, *words[place + 1 :]]) for w in others])
    return changed


def judge(speech: object, right: object, others: Sequence[Sequence[object]]) -> float:
    """The share of a sentence's words that are understood."""
    from myxtts.evaluation.distortion import compare

    far = compare(speech, right).cepstral_db  # type: ignore[arg-type]
    nearest = [min(compare(speech, one).cepstral_db for one in place) for place in others]  # type: ignore[arg-type]
    return statistics.fmean(far < other for other in nearest)


def measure(model: str, texts: Sequence[str], rng: random.Random) -> list[Heard]:
    from myxtts.evaluation.distortion import compare
    from myxtts.evaluation.pitch import analyse
    from myxtts.inference.synthesizer import Synthesizer

    synthesizer = Synthesizer.load(model)
    voices = [in_language(voice, "fa") for voice in DEMO_VOICES]
    references = draw_slot_sentences(PERSIAN.slots, num_sentences=REFERENCES, rng=rng, avoid=texts)
    clones = []
    for voice in voices:
        said = [persian_for_espeak(text) for text in references]
        clones.append(
            synthesizer.listen(
                [espeak.speak(one, voice=voice.espeak_voice, brackets=True) for one in said]
            )
        )
    speech = []
    for number, text in enumerate(texts):
        clone = clones[number % len(voices)]
        speech.append(analyse(synthesizer.say(text, voice=clone, language="fa")))
    found = []
    for number, text in enumerate(texts):
        voice, other = voices[number % len(voices)], voices[(number + 1) % len(voices)]
        right = say(persian_for_espeak(text), voice)
        others = [
            [say(persian_for_espeak(one), voice) for one in place]
            for place in with_other_words(text, rng)
        ]
        bare = without_ezafe(text)
        not_said = say(bare, voice)

        def has_ezafe(sound: object, right: object = right, bare: object = not_said) -> bool:
            return compare(sound, right).cepstral_db < compare(sound, bare).cepstral_db  # type: ignore[arg-type]

        found += [
            Heard("words", judge(speech[number], right, others)),
            Heard("another speaker", judge(say(persian_for_espeak(text), other), right, others)),
            Heard("wrong sentence", judge(speech[(number + 1) % len(texts)], right, others)),
            Heard("ezafe", has_ezafe(speech[number])),
            Heard("without ezafe", has_ezafe(say(bare, other))),
        ]
    return found


def draw(slots: dict[str, tuple[str, ...]], *, count: int, rng: random.Random) -> list[str]:
    """Sentences whose thing is read with its ezafe; the others would test the reading."""
    drawn = draw_slot_sentences(slots, num_sentences=3 * count, rng=rng)
    return [text for text in drawn if read_words(text, "fa")[THING].ezafe][:count]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="base", help="default: the shipped base voice")
    parser.add_argument("--sentences", type=int, default=16, help="of each kind of words")
    options = parser.parse_args(arguments)
    rng = random.Random(0)
    passed = True
    print(f"{'':14s}" + "".join(f"{column:>17s}" for column in COLUMNS))
    try:
        for kind, slots in (
            ("new sentences", PERSIAN.slots),
            ("new words", PERSIAN.held_out_slots),
        ):
            texts = draw(dict(slots), count=options.sentences, rng=rng)
            found = measure(options.model, texts, rng)
            means = {
                column: statistics.fmean(one.right for one in found if one.column == column)
                for column in COLUMNS
            }
            print(f"{kind:14s}" + "".join(f"{means[column]:17.3f}" for column in COLUMNS))
            for column, (side, bar) in BARS.items():
                passed &= means[column] >= bar if side == ">=" else means[column] <= bar
    except MyXTTSError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    print(f"{'bar':14s}" + "".join(f"{' '.join(map(str, BARS[c])):>17s}" for c in COLUMNS))
    sys.exit(not passed)


if __name__ == "__main__":
    main()
