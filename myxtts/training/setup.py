"""What happens once, before the first step: the run folder, the data, the model and its weights."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from myxtts.base import BASE, base_folder
from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.training_data import TrainingData, prepare_training
from myxtts.documents import replacing
from myxtts.errors import ConfigError, DeviceError
from myxtts.features.device_stage import Augmentation, make_device_stage
from myxtts.inference.voice_files import VoiceFiles, load_voice
from myxtts.models.weights import is_for_training, weight_names
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.runs.checkpoints import Checkpoint, load_checkpoint
from myxtts.runs.events import RunLog
from myxtts.runs.folder import RunFolder
from myxtts.text.languages import LANGUAGE_IDS
from myxtts.text.tokenizers import Tokenizer
from myxtts.training.fine_tuning import describe_match, joined_tokenizer, load_matching_weights
from myxtts.training.kept_tokenizer import kept_tokenizer
from myxtts.training.precision import choose_precision, made_with
from myxtts.training.progress import TrainingProgress
from myxtts.training.quickest import QuickestForm
from myxtts.training.schedule import WarmUpCosine
from myxtts.training.snapshot import RunState
from myxtts.training.step import TrainStep, check_placement
from myxtts.training.stopping import EarlyStopping

if TYPE_CHECKING:
    from myxtts.training.trainer import XTTSTrainer

log = logging.getLogger(__name__)

# As long as these stay the same, so do the shapes chosen when the run began.
SHAPING = [
    "train_data",
    "batch_size",
    "batch_frames",
    "static_shapes",
    "max_buckets",
    "max_text_length",
    "max_mel_frames",
]


def check_model_device(asked: str | None, plan: DevicePlan) -> None:
    """Refuse a model device other than the plan's."""
    if asked is None:
        return

    def canonical(name: str) -> tuple[str | None, int]:
        spec = tf.DeviceSpec.from_string(name)
        return spec.device_type, spec.device_index or 0

    names = {plan.model_device, plan.logical_name("model")}  # a simulated GPU has two
    if canonical(asked) not in map(canonical, names):
        raise DeviceError(
            f"model_device is {asked}, but the device plan trains on {plan.logical_name('model')}"
            f"{plan.role_note('model')}.",
            "leave out model_device, or choose the devices with data_gpu and model_gpu",
        )


def open_run(
    training: TrainingConfig, resume_checkpoint: str | Path | None
) -> tuple[RunFolder, Checkpoint | None]:
    """Lock the run folder; the checkpoint to go on from, if there is one."""
    run = RunFolder(training.checkpoint_dir, resume=training.resume)
    run.__enter__()
    run.checkpoints.keep = training.keep_checkpoints
    saved, run.checkpoint = run.checkpoint, None  # held here only as long as it is needed
    if resume_checkpoint is not None:
        try:
            saved = load_checkpoint(Path(resume_checkpoint))
            if saved.folder.resolve().parent == run.checkpoints.folder.resolve():
                run.checkpoints.set_aside_after(saved.step)
            else:
                run.checkpoints.adopt(saved)
        except BaseException:
            run.__exit__(None, None, None)
            raise
    if saved is not None:
        log.info("Going on from %s (step %d)", saved.folder, saved.step)
    return run, saved


def run_state(training: TrainingConfig, saved: Checkpoint | None) -> tuple[RunState, EarlyStopping]:
    """Where the run is, and how its validations have gone."""
    state = RunState()
    stopping = EarlyStopping(
        training.early_stopping_patience, min_delta=training.early_stopping_min_delta
    )
    if saved is not None:
        state = RunState(**{name: saved.state[name] for name in asdict(state)})
        stopping.load_state_dict(saved.state["early_stopping"])
    return state, stopping


def write_config(config: XTTSConfig, path: Path) -> None:
    """Keep the settings such that they, given again, go on with the run."""
    kept = config.model_copy(deep=True)
    kept.training.resume = "auto"  # one that was reset must not be reset each time
    try:
        with replacing(path) as partial:
            kept.to_yaml(partial)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}", "free some space") from error


def fine_tuning_source(config: XTTSConfig, saved: Checkpoint | None) -> VoiceFiles | None:
    """The voice to start from; a run that goes on has its weights already."""
    source = config.training.starts_from
    if source is None:
        return None
    is_base = str(source) == BASE
    if saved is not None:
        if not is_base:
            log.warning(
                "--init-from %s is not read: this run goes on from its own step %d; "
                "--reset-training starts anew",
                source,
                saved.step,
            )
        return None
    return load_voice(base_folder(config.model.size) if is_base else source)


def prepare(
    config: XTTSConfig,
    *,
    saved: Checkpoint | None,
    source: VoiceFiles | None,
    progress: TrainingProgress,
) -> TrainingData | None:
    """The data that the settings name; the model gets as many symbols as its tokenizer knows."""
    if config.data.train_data is None:
        return None
    training = config.training
    tokenizer: Tokenizer | None = None
    if saved is not None:
        tokenizer = kept_tokenizer(saved, config)
    elif source is not None and training.reads_like_source:
        config.data.tokenizer = source.kind
        tokenizer = None if source.kind == "characters" else source.tokenizer

    def read(tokenizer: Tokenizer | None) -> TrainingData:
        advance: Callable[[], None]
        with contextlib.ExitStack() as bar:  # one after another, for each pass over the clips

            def begin(clips: int) -> None:
                nonlocal advance
                bar.close()
                advance = bar.enter_context(progress.preparing("Reading clips", clips))

            return prepare_training(
                config.data,
                seed=training.seed,
                steps=training.max_steps,
                tokenizer=tokenizer,
                buckets=_shapes_of(saved, config),
                on_list=begin,
                on_clip=lambda: advance(),
            )

    data = read(tokenizer)
    if source is not None and training.reads_like_source:
        joined = joined_tokenizer(source.tokenizer, data.tokenizer)
        if joined.symbols != data.tokenizer.symbols:
            data = read(joined)
    config.model.vocab_size = data.tokenizer.vocab_size
    if data.dropped:
        log.warning(
            "%d of %d clips are left out; why is in the run folder", len(data.dropped), data.listed
        )
    log.info(
        "%d clips to train on, %d to validate, %d batches an epoch",
        len(data.train),
        0 if data.validation is None else len(data.validation),
        len(data.plan),
    )
    return data


def find_place(state: RunState, saved: Checkpoint | None, data: TrainingData) -> None:
    """Keep the saved place where it still means the same batch; else start its epoch anew."""
    if saved is None or saved.state["fingerprint"] == data.fingerprint:
        return
    log.warning(
        "The data or the batch settings changed since step %d: weights and optimiser go on, the "
        "data from the start of epoch %d",
        state.step,
        state.epoch + 1,
    )
    state.position = 0


def all_speakers(
    data: TrainingData | None, *, saved: Checkpoint | None, source: VoiceFiles | None
) -> list[str]:
    """Every voice this model has heard, those of the run before included."""
    new = data.train.speaker_names if data is not None else ()
    return list(dict.fromkeys([*_heard_before("speakers", saved, source), *new]))


def all_languages(
    data: TrainingData | None, *, saved: Checkpoint | None, source: VoiceFiles | None
) -> list[str]:
    """Every language this model has heard, those of the run before included."""
    known = _heard_before("languages", saved, source)
    numbers = set() if data is None else set(data.train.languages.tolist())
    return [tag for tag, number in LANGUAGE_IDS.items() if tag in known or number in numbers]


def _heard_before(what: str, saved: Checkpoint | None, source: VoiceFiles | None) -> Sequence[str]:
    if saved is not None:
        known: Sequence[str] = saved.state.get(what, ())  # older runs kept no languages
        return known
    return () if source is None else getattr(source, what)


def make_model(
    make: keras.Model | Callable[[], keras.Model], config: XTTSConfig, plan: DevicePlan
) -> tuple[keras.Model, WarmUpCosine, TrainStep]:
    """Create model, schedule and step on the model device, and prove that the model is there."""
    training = config.training
    name, note = plan.logical_name("model"), plan.note
    if plan.mode is Mode.MULTI:
        log.info("Multi-GPU Mode: Model will be placed on %s%s", name, note)
        log.info("   (Original GPU %s is now mapped to %s)%s", plan.model_gpu, name[1:], note)
    log.info("Creating model on device: %s%s", name, note)
    if training.xla_process == "on":
        log.warning("Experimental: XLA compiles the data device's work too, not proven yet")
    policy = choose_precision(plan, mixed=training.mixed_precision)
    with made_with(policy), tf.device(plan.model_device):
        model = make if isinstance(make, keras.Model) else make()
        schedule = WarmUpCosine(
            training.learning_rate,
            warm_up_steps=training.warmup_steps,
            total_steps=1,  # known when the data is
        )
    if model.built:
        check_placement(model.variables, plan.model_device)
        log.info("Model: %.2f million parameters", model.count_params() / 1e6)
    _freeze(model, training.freeze)
    step = TrainStep(
        model,
        device=plan.model_device,
        learning_rate=schedule,
        weight_decay=training.weight_decay,
        gradient_clip=training.gradient_clip,
        ema_decay=training.ema_decay or None,
        grad_accum=training.grad_accum,
        scale_loss=policy == "mixed_float16",
        jit_compile=training.xla,
    )
    return model, schedule, step


def device_stages(config: XTTSConfig, plan: DevicePlan) -> tuple[Any, Any]:
    """What prepares batches to train on, and those to validate on, which are never varied."""
    data, training = config.data, config.training
    on_gpu = plan.data_device.startswith("/GPU")

    def make(varied: Augmentation) -> Any:
        def form(*, compiled: bool) -> Any:
            exact = training.tf32  # without TF32 every product is
            return make_device_stage(varied, jit_compile=compiled, on_gpu=on_gpu, exact=exact)

        if training.xla_process != "auto" or not on_gpu:
            return form(compiled=training.xla_process == "on")
        forms = {"without XLA": form(compiled=False), "with XLA": form(compiled=True)}
        return QuickestForm("Data stage", forms, device=plan.data_device)

    plain = make(Augmentation())
    varied = Augmentation(
        gain_db=data.augment_gain_db,
        noise_db=data.augment_noise_db,
        colour_db=data.augment_colour_db,
    )
    return (plain if varied == Augmentation() else make(varied)), plain


def open_log(trainer: XTTSTrainer) -> RunLog:
    """Everything the run tells from now on goes there."""
    training, run = trainer.config.training, trainer.run
    first = trainer.replicas.is_first
    return RunLog(
        run.events_file,
        tensorboard_dir=(training.tensorboard_log_dir or run.tensorboard_dir) if first else None,
        wandb=training.wandb and first,
        config=trainer.config.model_dump(mode="json"),
        run_name=run.path.name,
        resumed_at=trainer.state.step,
        devices=trainer.plan,
        on_event=trainer.progress.observe,
    )


def start_from(
    source: VoiceFiles,
    step: TrainStep,
    tokenizer: Tokenizer | None,
    *,
    speakers: Sequence[str],
    languages: Sequence[str],
) -> None:
    """Give the model another voice's weights, and say what matched and what is new."""
    kind = source.kind if tokenizer is None else tokenizer.kind
    with tf.device(step.device):
        match = load_matching_weights(step.model, source, same_symbols=kind == source.kind)
    step.take_weights()
    for line in describe_match(match, source, tokenizer, speakers=speakers, languages=languages):
        log.info("%s", line)


def _freeze(model: keras.Model, parts: Sequence[str]) -> None:
    for part in parts:
        layer = getattr(model, part, None)
        if not isinstance(layer, keras.layers.Layer):
            raise ConfigError(f"This model has no part {part} to freeze.", "leave it out")
        layer.trainable = False
    if parts and all(map(is_for_training, weight_names(model.trainable_variables))):
        raise ConfigError("All of the model is frozen: nothing is left to train.", "freeze less")
    if parts:
        left = sum(int(tf.size(v)) for v in model.trainable_variables)
        log.info("Frozen: %s; %.2f million parameters train", ", ".join(parts), left / 1e6)


def _shapes_of(saved: Checkpoint | None, config: XTTSConfig) -> Any:
    """The shapes of the run so far, unless a setting that decides them has changed."""
    if saved is None or not saved.state["buckets"]:
        return None
    then, now = saved.state["config"]["data"], config.data.model_dump(mode="json")
    same = all(then.get(name) == now[name] for name in SHAPING)
    return saved.state["buckets"] if same else None
