"""What is wrong with recordings and with their texts: each with a remedy.

Of the lists and the verdicts alone, which takes seconds; `listening` adds what only ears can tell.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from myxtts.data.manifests import Manifest
from myxtts.data.summary import CLIPPING_SHARE
from myxtts.data.verdicts import Verdict
from myxtts.messages import Message
from myxtts.recordings.script import sentences_with
from myxtts.recordings.sounds import count_sounds, needed_sounds
from myxtts.text.function_words import foreign_language
from myxtts.text.languages import LANGUAGES
from myxtts.text.scripts import fits_script, likely_language

LEAST_MINUTES = 1.0  # of a speaker: with less, a voice hardly knows who it is
OFTEN_ENOUGH = 10  # times a sound should be said
LEAST_SNR_DB = 25.0  # of speech above the noise between the words
SHOWN_SOUNDS, SHOWN_SENTENCES = 12, 5
MOST_TEXTS = 20_000  # looked at for their sounds

REMEDIES = {
    "minutes": "record more of them, or leave them out",
    "sounds": "record sentences with them, such as those shown; `myxtts data script` prints more",
    "language": "mend the language column of the list, or give --language",
    "repeated text": "keep one of each, unless they are different takes",
    "clipping": "record again with less gain: peaks should stay 3 dB below the ceiling",
    "noise": "record nearer to the microphone and in a quieter room, or clean the recordings",
    "wrong text": "listen to them, and correct the text or drop the clip",
    "several people": "give each person a name of their own in the list",
    "echo": "record nearer to the microphone, in a room with curtains, carpet or clothes",
    "same audio": "keep one of each",
}


@dataclass(frozen=True)
class Finding:
    """Something to know about some clips (none: about all of them), and what to do about it."""

    what: str  # a key of REMEDIES
    detail: Message
    clips: tuple[str, ...] = ()  # audio as the list names it
    say: tuple[str, ...] = ()  # sentences to record

    @property
    def remedy(self) -> str:
        """What to do."""
        return REMEDIES[self.what]


def audit_list(
    manifest: Manifest, verdicts: Sequence[Verdict], speaker_minutes: Mapping[str, float]
) -> list[Finding]:
    """What lists and verdicts tell of the kept clips."""
    kept = [i for i, verdict in enumerate(verdicts) if verdict.kept]
    return [
        *_few_minutes(speaker_minutes),
        *_sounds(manifest, kept),
        *_foreign(manifest, kept),
        *_repeated(manifest, kept),
        *_clipped(manifest, verdicts, kept),
        *_noisy(manifest, verdicts, kept),
    ]


def _few_minutes(minutes: Mapping[str, float]) -> Iterable[Finding]:
    few = {name: time for name, time in minutes.items() if time < LEAST_MINUTES}
    if few and len(minutes) > 1:
        words = "{} of {} speakers have less than a minute each, for example {} ({} s)."
        name = min(few, key=lambda one: few[one])
        values = (str(len(few)), str(len(minutes)), name[:40], f"{60 * few[name]:.0f}")
        yield Finding("minutes", Message(words, values))


def _sounds(manifest: Manifest, kept: Sequence[int]) -> Iterable[Finding]:
    """Of each language, the sounds that are said too rarely, with sentences that would add them."""
    texts: dict[str, list[str]] = defaultdict(list)
    for i in kept[:: max(1, len(kept) // MOST_TEXTS)]:
        texts[manifest.languages[i]].append(manifest.texts[i])
    for language, said in texts.items():
        if language not in LANGUAGES:
            continue
        counts, needed = count_sounds(said, language), needed_sounds(language)
        rare = sorted(
            (sound for sound in needed if counts[sound] < OFTEN_ENOUGH),
            key=lambda sound: (counts[sound], needed[sound]),
        )
        shown = ", ".join(f"{sound} ({counts[sound]})" for sound in rare[:SHOWN_SOUNDS])
        values = (LANGUAGES[language], str(len(needed) - len(rare)), str(len(needed)))
        if rare:
            words = "{}: {} of {} sounds are said ten times or more; rarest, with their times: {}."
            yield Finding(
                "sounds",
                Message(words, (*values, shown)),
                say=tuple(sentences_with(rare[:SHOWN_SOUNDS], language, most=SHOWN_SENTENCES)),
            )


def _foreign(manifest: Manifest, kept: Sequence[int]) -> Iterable[Finding]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for i in kept:
        language, text = manifest.languages[i], manifest.texts[i]
        other = None if fits_script(text, language) else likely_language([text])
        other = other or foreign_language(text, language)
        if other is not None and other != language:
            found[language, other].append(manifest.audio[i])
    for (language, other), clips in found.items():
        words = "{} texts are listed as {} and look like {}."
        values = (str(len(clips)), LANGUAGES.get(language, language), LANGUAGES[other])
        yield Finding("language", Message(words, values), tuple(clips))


def _repeated(manifest: Manifest, kept: Sequence[int]) -> Iterable[Finding]:
    """Clips of one speaker with the same words; people who read one list are no repetition."""
    first: dict[tuple[str, str], str] = {}
    again: list[str] = []
    for i in kept:
        words = "".join(c for c in manifest.texts[i].lower() if c.isalnum())
        key = manifest.speakers[i], words
        if key in first:
            again.append(manifest.audio[i])
        else:
            first[key] = manifest.audio[i]
    if again:
        words = "{} clips say what another clip of the same speaker says."
        yield Finding("repeated text", Message(words, (str(len(again)),)), tuple(again))


def _clipped(
    manifest: Manifest, verdicts: Sequence[Verdict], kept: Sequence[int]
) -> Iterable[Finding]:
    clips = tuple(manifest.audio[i] for i in kept if verdicts[i].clipped > CLIPPING_SHARE)
    if clips:
        words = "{} clips are clipped: samples lie at the ceiling."
        yield Finding("clipping", Message(words, (str(len(clips)),)), clips)


def _noisy(
    manifest: Manifest, verdicts: Sequence[Verdict], kept: Sequence[int]
) -> Iterable[Finding]:
    """A clip may have no pause to hear the noise in, so a speaker is judged by the median."""
    heard: dict[str, list[float]] = defaultdict(list)
    for i in kept:
        heard[manifest.speakers[i]].append(verdicts[i].snr_db)
    medians = {name: statistics.median(values) for name, values in heard.items()}
    noisy = {name: median for name, median in medians.items() if median < LEAST_SNR_DB}
    if noisy:
        worst = min(noisy, key=lambda name: noisy[name])
        words = "The noise of {} of {} speakers lies close under the speech; of {} by {} dB."
        values = (str(len(noisy)), str(len(heard)), worst[:40], f"{noisy[worst]:.0f}")
        clips = tuple(manifest.audio[i] for i in kept if manifest.speakers[i] in noisy)
        yield Finding("noise", Message(words, values), clips)
