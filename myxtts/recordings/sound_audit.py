"""What only listening tells of clips: text that is not theirs, several people, echo, copies."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from myxtts.data.manifests import Manifest
from myxtts.data.verdicts import Verdict
from myxtts.messages import Message
from myxtts.recordings.audit import Finding
from myxtts.recordings.listening import ClipListener, HeardClip

MOST_OF_A_SPEAKER = 400  # clips listened to at once: they are in memory as spectra
# A text that fits no better than another clip's is not this clip's. Measured on people: their own
# texts 0.07 to 0.54, those of other clips mostly below 0.05.
LEAST_FIT = 0.03
FIT_SHARE = 0.25  # of the speaker's median, where that is more
LEAST_CLIPS = 6  # to tell people apart
# Of two groups' distance to their own spread: 14 people and one reader alone reached 4.8 at most,
# and of their pairs under one name seven in ten more than 5.
PEOPLE_APART = 5.0
LEAST_SHARE = 0.15  # of the clips: fewer are odd clips, and no second person
MOST_ECHO_S = 0.45  # 14 people in quiet rooms had 0.14 to 0.35
SAME_AUDIO = 0.995  # cosine of two clips' fingerprints
SAME_LENGTH = 0.03


def audit_sound(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    *,
    on_clip: Callable[[], None] = lambda: None,
    listener: ClipListener | None = None,
) -> list[Finding]:
    """Listen to every kept clip, speaker by speaker. On a CPU a few clips a second."""
    ears = listener or ClipListener()
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, verdict in enumerate(verdicts):
        if verdict.kept:
            groups[manifest.speakers[i], manifest.languages[i]].append(i)
    wrong: list[str] = []
    mixed: list[str] = []
    echoing: dict[str, float] = {}
    copies: list[str] = []
    root = Path(manifest.folder)
    for (speaker, language), clips in groups.items():
        heard: list[tuple[int, HeardClip]] = []
        for start in range(0, len(clips), MOST_OF_A_SPEAKER):
            some = clips[start : start + MOST_OF_A_SPEAKER]
            paths = [root / verdicts[i].path for i in some]
            texts = [manifest.texts[i] for i in some]
            found = ears.hear(paths, texts, language, on_clip=on_clip)
            heard += [(some[clip.number], clip) for clip in found]
        fits = {i: clip.fit for i, clip in heard if clip.fit is not None}
        if fits:
            least = max(LEAST_FIT, FIT_SHARE * statistics.median(fits.values()))
            wrong += [manifest.audio[i] for i, fit in fits.items() if fit < least]
        if heard and several_people(np.stack([clip.voice for _, clip in heard])):
            mixed.append(speaker)
        times = [clip.echo for _, clip in heard if clip.echo is not None]
        if times and statistics.median(times) > MOST_ECHO_S:
            echoing[speaker] = statistics.median(times)
        copies += [manifest.audio[i] for i in _copies(heard, verdicts)]
    return [*_say(wrong, mixed, echoing, copies, len(groups))]


def several_people(voices: npt.NDArray[np.float32]) -> bool:
    """Whether clips under one name fall into two groups, far apart for how close each is."""
    return separation(voices) > PEOPLE_APART


def separation(voices: npt.NDArray[np.float32]) -> float:
    """The distance of the two groups that clips [N, D] fall into, in units of their own spread."""
    if len(voices) < LEAST_CLIPS:
        return 0.0
    centred = voices - voices.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    line = np.sort(centred @ axes[0])
    least = max(2, int(np.ceil(LEAST_SHARE * len(line))))
    best = 0.0
    for cut in range(least, len(line) - least + 1):
        low, high = line[:cut], line[cut:]
        spread = np.sqrt((low.var() * len(low) + high.var() * len(high)) / len(line))
        best = max(best, float((high.mean() - low.mean()) / max(float(spread), 1e-6)))
    return best


def _copies(heard: Sequence[tuple[int, HeardClip]], verdicts: Sequence[Verdict]) -> Iterable[int]:
    """Clips that sound like one before them of the same length, however they were stored."""
    order = sorted(heard, key=lambda pair: verdicts[pair[0]].seconds)
    for place, (i, clip) in enumerate(order):
        for j, other in reversed(order[:place]):
            if verdicts[j].seconds < verdicts[i].seconds * (1.0 - SAME_LENGTH):
                break
            if float(clip.fingerprint @ other.fingerprint) > SAME_AUDIO:
                yield max(i, j)
                break


def _say(
    wrong: list[str], mixed: list[str], echoing: dict[str, float], copies: list[str], groups: int
) -> Iterable[Finding]:
    if wrong:
        words = "{} clips say something else than their text, as the base voice hears them."
        yield Finding("wrong text", Message(words, (str(len(wrong)),)), tuple(wrong))
    if mixed:
        words = "{} of {} speakers sound like more than one person, for example {}."
        values = (str(len(mixed)), str(groups), mixed[0][:40])
        yield Finding("several people", Message(words, values))
    if echoing:
        worst = max(echoing, key=lambda name: echoing[name])
        words = "{} of {} speakers echo; of {} sound takes {} s to die away."
        seconds = f"{echoing[worst]:.2f}"
        shown = (str(len(echoing)), str(groups), worst[:40], seconds)
        yield Finding("echo", Message(words, shown))
    if copies:
        words = "{} clips sound the same as another clip of their speaker."
        yield Finding("same audio", Message(words, (str(len(copies)),)), tuple(copies))
