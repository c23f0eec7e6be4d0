"""The one judge: what was measured of a run or a profile goes in, and what it means comes out.

Panel, log, live page, report, profile, advice and acceptance kit render what is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from myxtts.messages import Message, percent
from myxtts.pipeline.telemetry import (
    MANY_SHAPES,
    PROCESS,
    READ,
    TRAIN,
    StageStats,
    StepStats,
    busiest,
    step_variation,
)
from myxtts.runs.remedies import (
    Cause,
    CauseName,
    DeviceMemory,
    Found,
    Remedy,
    Settings,
    feed,
    relieve,
)

Grade = Literal["excellent", "good", "minimum", "below minimum"]
# Shares of busy time of the model device, and step variation. The data device's share is shown
# beside them: a light load there is no fault.
GRADES: tuple[tuple[Grade, float, float], ...] = (
    ("excellent", 0.90, 0.20),
    ("good", 0.80, 0.30),
    ("minimum", 0.70, 0.40),
)

FEWEST_BATCHES = 3
BUSY_ENOUGH = 0.90  # of the model: what is left is not worth a change
AT_ITS_LIMIT = 0.85  # a stage that works this much of its time can hardly give more
OFTEN_EMPTY = 0.50  # of the times the model asked: there is no reserve
HIGH_VARIATION = 0.30
FULL_MEMORY = 0.95
MUCH_BUSY = 0.80  # a model that has this much to do does not lack work
SHORT_STEP_S = 0.02  # below this, handing batches over is a good part of a step
OVER = 1.005  # times the bound: what is shown as more than 100 %


@dataclass(frozen=True)
class Measurements:
    """What is known of a run or a profile; what is empty or None was not measured."""

    stages: Mapping[str, StageStats]  # those that do any work
    ring: Sequence[int] = ()  # how often the model found 0, 1, ... batches ready
    steps: tuple[StepStats, ...] = ()  # step times of each batch shape
    memory: tuple[DeviceMemory, ...] = ()  # of devices that have their own
    retraces: int = 0  # of the step, beyond one for every planned shape
    rate: float | None = None  # steps a second
    bound: float | None = None  # the most they can be
    alone_s: Mapping[str, float] = field(default_factory=dict)  # seconds a batch of each stage
    settings: Settings = field(default_factory=Settings)
    shared_device: bool = False  # both roles compute on one card, or on the same cores


@dataclass(frozen=True)
class Diagnosis:
    """How it goes and why."""

    sentence: Message
    good: bool = True
    bottleneck: str = ""  # the stage; nothing while it is too early
    grade: Grade | None = None
    variation: float | None = None  # of the step time within each shape
    causes: tuple[Cause, ...] = ()  # of what is not good, the first to be mended first
    uneven: Cause | None = None  # why the step time varies, where it varies much
    doubt: Message | None = None  # of a number that cannot be right

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What may help, by cause; no two pull at the same setting."""
        found: dict[tuple[str, ...], Remedy] = {}
        for remedy in (remedy for cause in self.causes for remedy in cause.remedies):
            names = tuple(remedy.settings) or (remedy.kind,)
            if not any(set(names) & set(taken) for taken in found):
                found[names] = remedy
        return tuple(found.values())

    @property
    def without_settings(self) -> Diagnosis:
        """The same where changes of settings are told apart, each with what it brings."""
        uneven = None if self.uneven is None else self.uneven.without_settings
        causes = tuple(cause.without_settings for cause in self.causes)
        return replace(self, causes=causes, uneven=uneven)

    @property
    def notes(self) -> tuple[Message, ...]:
        """What is to be said after the sentence."""
        uneven = None if self.uneven is None else self.uneven.sentence
        said = [note for note in (uneven, self.doubt) if note not in (None, self.sentence)]
        return (*filter(None, said), *(remedy.words for remedy in self.remedies[:1]))

    @property
    def flags(self) -> tuple[str, ...]:
        """The first remedy as it is typed; nothing where no setting is one."""
        return self.remedies[0].flags if self.remedies else ()


TOO_EARLY = Diagnosis(Message("Too early to tell: the pipeline is warming up."))


def diagnose(measured: Measurements) -> Diagnosis:
    """What the measurements mean."""
    stages = measured.stages
    if not {READ, PROCESS, TRAIN} <= stages.keys() or stages[TRAIN].batches < FEWEST_BATCHES:
        return TOO_EARLY
    shares = {name: stage.busy_share for name, stage in stages.items()}
    bottleneck, feeder = busiest(shares, measured.alone_s), _feeder(measured, shares)
    variation = step_variation(measured.steps)
    uneven = None
    if variation is not None and variation > HIGH_VARIATION:
        uneven = _why_uneven(measured, variation, feeder)
    causes = [*_causes(measured, shares, bottleneck, feeder), *([uneven] if uneven else [])]
    return Diagnosis(
        sentence=causes[0].sentence if causes else _keeps_up(shares[TRAIN], bottleneck),
        good=not causes,
        bottleneck=bottleneck,
        grade=_grade(shares[TRAIN], variation),
        variation=variation,
        causes=tuple(causes),
        uneven=uneven,
        doubt=_doubt(measured),
    )


def _feeder(measured: Measurements, shares: Mapping[str, float]) -> str:
    """The stage before the model that it waits for: the busiest, if those behind it starve too."""
    before = {stage: share for stage, share in shares.items() if stage != TRAIN}
    feeder = busiest(before, measured.alone_s)
    lack_s, wait_s = (measured.stages[stage].waiting_input_s for stage in (PROCESS, TRAIN))
    if feeder == READ and shares[READ] < AT_ITS_LIMIT and lack_s < wait_s / 2:
        del before[READ]  # it was in time
        feeder = busiest(before, measured.alone_s)
    return feeder


def _causes(
    measured: Measurements, shares: Mapping[str, float], bottleneck: str, feeder: str
) -> Iterator[Cause]:
    for memory in sorted(measured.memory, key=lambda memory: -memory.share):
        if memory.share >= FULL_MEMORY:
            full = _say("{} holds {} of its memory limit.", memory.label, memory.share)
            yield _cause("full memory", memory.role, full, relieve(memory, measured.settings))
    busy, fed_by = shares[TRAIN], (feeder, shares[feeder])
    starves, at_its_limit = busy < BUSY_ENOUGH, shares[feeder] >= AT_ITS_LIMIT
    held_back = at_its_limit and bottleneck == feeder
    if starves and held_back:
        words = (
            "The model waits {} of the time for stage {}, which is busy {}: that is the bottleneck."
        )
        yield _waiting("slow stage", measured, feeder, _say(words, 1 - busy, *fed_by))
    if measured.retraces:
        words = (
            "The step was compiled {} times more than its shapes need: what takes long is "
            "compiling, not training."
        )
        told = _say(words, str(measured.retraces))
        yield _cause("retracing", TRAIN, told, _one_shape(measured.settings))
    if starves and not held_back:
        words = (
            "The model waits {} of the time though stage {}, which feeds it, is busy only {}: "
            "batches come unevenly."
        )
        yield _waiting("uneven feeding", measured, feeder, _say(words, 1 - busy, *fed_by))
    empty = measured.ring[0] / sum(measured.ring) if sum(measured.ring) else 0.0
    if not starves and at_its_limit and empty >= OFTEN_EMPTY:
        words = (
            "The model is busy {} of the time, but nothing is in reserve: stage {} is busy {}, and "
            "{} of the times the model asked, no batch was ready."
        )
        yield _waiting("no reserve", measured, feeder, _say(words, busy, *fed_by, empty))


def _why_uneven(measured: Measurements, variation: float, feeder: str) -> Cause:
    worst = max(measured.steps, key=lambda step: step.variation * step.steps)
    waiting = worst.waiting_share_of_variance
    if worst.shape == MANY_SHAPES:
        why = _say("hardly two steps had the same shape, and each new shape compiles anew")
        many = _say("Step time varies by {}: {}.", variation, why)
        return _cause("many shapes", TRAIN, many, _one_shape(measured.settings))
    shape = largest_shape(worst.shape)
    told = partial(_say, "Step time varies by {} (shape {}): {}.", variation, shape)
    if waiting >= 0.5:
        why = _say("{} of that is the model waiting for stage {}", waiting, feeder)
        return _waiting("uneven feeding", measured, feeder, told(why))
    if measured.retraces:
        words = "{} of that is the step itself, compiled {} times more than its shapes need"
        why = _say(words, 1 - waiting, str(measured.retraces))
        return _cause("retracing", TRAIN, told(why), _one_shape(measured.settings))
    why = _say("{} of that is the step itself taking longer or shorter", 1 - waiting)
    return _cause("uneven step", TRAIN, told(why), [("quiet", {})])


def largest_shape(shapes: str) -> str:
    """Of the shapes in a batch the longest word, which is its largest tensor's."""
    return max(shapes.split(" "), key=lambda part: (part.count("x"), len(part)))


def _keeps_up(busy: float, bottleneck: str) -> Message:
    if bottleneck == TRAIN:
        return _say("The model is busy {} of the time: the data side keeps up.", busy)
    words = (
        "The model is busy {} of the time; stage {} takes about as long as the step: there is "
        "little left to gain."
    )
    return _say(words, busy, bottleneck)


def _grade(busy: float, variation: float | None) -> Grade:
    for name, least_busy, most_variation in GRADES:
        if busy > least_busy and (variation or 0.0) < most_variation:
            return name
    return "below minimum"


def _doubt(measured: Measurements) -> Message | None:
    if not measured.rate or not measured.bound or measured.rate <= OVER * measured.bound:
        return None
    words = (
        "The rate is {} of the most that the stages alone allow, which cannot be: the machine was "
        "slower while they were measured. Measure again before you trust these numbers."
    )
    return _say(words, measured.rate / measured.bound)


def _waiting(name: CauseName, measured: Measurements, stage: str, told: Message) -> Cause:
    """A cause that lies in a stage before the model."""
    train = measured.stages[TRAIN]
    short = train.busy_s < SHORT_STEP_S * train.batches and train.busy_share < MUCH_BUSY
    found = [
        *feed(
            stage,
            measured.settings,
            busy=measured.stages[stage].busy_share,
            bridges_first=name == "uneven feeding",
            short_steps=short and all(memory.share <= 0.5 for memory in measured.memory),
        )
    ]
    if not found and measured.shared_device and stage != READ:
        found = [("own-device", {})]
    elif not found and measured.bound is None:  # what a profile itself need not say
        found = [("profile", {})]
    return _cause(name, stage, told, found)


def _one_shape(settings: Settings) -> list[Found]:
    one = settings.static_shapes == "one"
    return [] if one else [("static-shapes", {"data.static_shapes": "one"})]


def _cause(name: CauseName, where: str, told: Message, found: Iterable[Found]) -> Cause:
    remedies = (Remedy(kind, told, settings) for kind, settings in found)
    return Cause(name, where, told, tuple(remedies))


def _say(words: str, *values: float | str | Message) -> Message:
    """A sentence; its shares are said in per cent."""
    said = (percent(value) if isinstance(value, float) else value for value in values)
    return Message(words, tuple(said))
