"""Everything a run can be told, with defaults that run: `XTTSConfig(model, data, training)`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from typing_extensions import Self

from myxtts.config.presets import MODEL_SIZES, OPTIMIZATION_LEVELS
from myxtts.config.settings import PresetSettings, Settings
from myxtts.errors import ConfigError
from myxtts.pipeline.request import DeviceRequest

ModelSize = Literal["tiny", "small", "normal", "big"]
OptimizationLevel = Literal["basic", "enhanced", "experimental"]
StaticShapes = Literal["buckets", "one", "off"]
CacheKind = Literal["memory", "disk"]
DelimiterName = Literal["pipe", "tab", "comma"]
TokenizerKind = Literal["auto", "characters", "phonemes"]
ModelPart = Literal["encoder", "reference", "means", "duration", "pitch", "decoder"]


class ModelConfig(PresetSettings):
    """The network. `size` sets the widths; a width given explicitly wins."""

    size: ModelSize = "normal"
    encoder_dim: PositiveInt = 352
    encoder_blocks: PositiveInt = 8
    decoder_dim: PositiveInt = 480
    decoder_blocks: PositiveInt = 8
    voice_dim: PositiveInt = 192
    decoder_head: Literal["regression", "flow"] = "regression"
    vocab_size: PositiveInt = 249  # symbols the tokenizer knows; a run takes its tokenizer's

    @classmethod
    def preset(cls) -> tuple[str, dict[str, dict[str, Any]]]:
        """`size` names the preset."""
        return "size", MODEL_SIZES


class DataConfig(Settings):
    """The data, the devices that work on it, and the buffers between them."""

    train_data: Path | None = None  # folder with metadata.csv and wavs/
    val_data: Path | None = None  # None: a small fixed share of the training clips
    batch_size: PositiveInt = 16
    num_workers: PositiveInt = 16  # most files read at once
    use_tf_native_loading: bool = True  # WAV files are decoded by TensorFlow, outside Python
    cache: CacheKind | None = None
    delimiter: DelimiterName | None = None  # of the clip lists; None: found out
    language: str = "en"  # of clips whose list names none
    tokenizer: TokenizerKind = "auto"  # phonemes where espeak-ng is installed, else characters
    lexicon: Path | None = None  # pronunciations: word, tab, how it is said
    max_text_length: PositiveInt = 256  # tokens; longer clips are dropped and listed
    max_mel_frames: PositiveInt = 1024  # about 12 s
    static_shapes: StaticShapes = "buckets"  # few fixed shapes; "one"; "off" pads per batch
    max_buckets: PositiveInt = 6  # most fixed shapes; each costs a compilation
    batch_frames: PositiveInt | None = None  # mel frames in a batch, instead of batch_size clips
    balance: Literal["speakers", "languages"] | None = None  # repeat clips of the rare ones
    augment_gain_db: NonNegativeFloat = 0.0  # each clip and reference louder or softer by this
    augment_noise_db: NonNegativeFloat | None = None  # noise in references, this far below them
    max_lost_share: Annotated[float, Field(ge=0, le=1)] = 0.05  # of the clips; more stop a run

    data_gpu: NonNegativeInt | None = None  # prepares batches; None means one GPU does both jobs
    model_gpu: NonNegativeInt | None = None  # trains
    enable_memory_isolation: bool = False
    data_gpu_memory: PositiveInt | None = None  # MB; None lets the planner choose for the card
    model_gpu_memory: PositiveInt | None = None
    simulate: bool = False  # two logical CPU devices stand in for two GPUs
    fallback: Literal["single"] | None = None  # what may run instead when two GPUs cannot be had

    pipeline_buffer_size: PositiveInt = 50  # host batches read ahead; half with two devices
    prefetch_buffer_size: PositiveInt = 4  # processed batches waiting on the data device
    pipeline_depth: PositiveInt = 3  # batches ready on the model device
    model_start_delay: Annotated[float, Field(ge=0, le=600)] = 2.0  # seconds, at most
    stall_timeout: PositiveFloat = 120.0  # seconds without progress until a stage is given up

    def device_request(self) -> DeviceRequest:
        """What these settings ask of the devices."""
        return DeviceRequest(
            data_gpu=self.data_gpu,
            model_gpu=self.model_gpu,
            isolate=self.enable_memory_isolation,
            data_limit_mb=self.data_gpu_memory,
            model_limit_mb=self.model_gpu_memory,
            simulate=self.simulate,
            fallback=self.fallback,
        )

    def host_buffer_size(self, *, two_devices: bool) -> int:
        """Host batches read ahead: with two devices half, since both hold batches of their own."""
        return max(1, self.pipeline_buffer_size // 2) if two_devices else self.pipeline_buffer_size


class TrainingConfig(PresetSettings):
    """The optimiser, the schedule, and where a run is kept."""

    epochs: PositiveInt = 100
    max_steps: PositiveInt | None = None  # updates, instead of epochs
    learning_rate: PositiveFloat = 1e-3  # the highest, reached after the warm-up
    warmup_steps: NonNegativeInt = 500  # at most a tenth of the run
    weight_decay: NonNegativeFloat = 0.01
    gradient_clip: PositiveFloat = 1.0
    grad_accum: PositiveInt = 1
    ema_decay: Annotated[float, Field(ge=0, lt=1)] = 0.999  # of the averaged weights
    seed: NonNegativeInt = 0

    optimization_level: OptimizationLevel = "enhanced"
    xla: bool = True
    mixed_precision: bool = True  # where the device has it
    xla_process: bool = False  # compile the data device's work too

    checkpoint_dir: Path = Path("runs/default")  # the run folder
    resume: Literal["auto", "require", "reset"] = "auto"
    checkpoint_steps: PositiveInt = 1000
    checkpoint_minutes: PositiveFloat = 15.0  # or after this long, whichever comes first
    keep_checkpoints: PositiveInt = 3  # the newest; the best is kept besides
    init_from: Path | None = None  # run or export whose weights to start from
    freeze: tuple[ModelPart, ...] = ()  # parts whose weights stay as they are
    auto_batch: bool = False  # on out-of-memory: halve the batch, double the accumulation

    validation_steps: PositiveInt = 1000
    early_stopping_patience: PositiveInt | None = None  # validations without a better loss
    early_stopping_min_delta: NonNegativeFloat = 0.0
    log_steps: PositiveInt = 10
    sample_steps: PositiveInt = 5000  # steps between sentences to listen to
    tensorboard_log_dir: Path | None = None  # None: inside the run folder
    wandb: bool = False

    memory_check_steps: PositiveInt = 100  # steps between memory log lines
    data_leak_threshold_mb: PositiveFloat = 200.0
    model_leak_threshold_mb: PositiveFloat = 500.0

    @classmethod
    def preset(cls) -> tuple[str, dict[str, dict[str, Any]]]:
        """`optimization_level` names the preset."""
        return "optimization_level", OPTIMIZATION_LEVELS


class XTTSConfig(Settings):
    """A whole run's settings."""

    model: ModelConfig = Field(default_factory=ModelConfig)
    data: DataConfig = Field(default_factory=DataConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a YAML file; what it leaves out keeps its default."""
        return cls.from_dict(read_yaml(path))

    def to_yaml(self, path: str | Path | None = None) -> str:
        """The settings as YAML text, also written to `path` if given."""
        text = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a name", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The sections of a YAML config file, not yet checked."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The config file {path} cannot be read: {error}", "check the path"
        ) from error
    try:
        values = yaml.load(text, _StrictLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(
            f"The config file {path} is not valid YAML: {error}",
            "`myxtts train --print-config` prints one",
        ) from error
    if values is None:
        return {}
    sections = list(XTTSConfig.model_fields)
    if not isinstance(values, dict) or not all(
        isinstance(key, str)
        and (value is None or (isinstance(value, dict) and all(isinstance(k, str) for k in value)))
        for key, value in values.items()
    ):
        raise ConfigError(
            f"The config file {path} does not consist of sections with settings.",
            f"write sections {', '.join(sections)}, as `myxtts train --print-config` does",
        )
    return {key: value or {} for key, value in values.items()}


def load_config(path: str | Path | None, overrides: dict[str, Any]) -> XTTSConfig:
    """A YAML file (or the defaults) with overrides like `{"data.batch_size": 8}` on top.

    An override of a preset's name replaces what the file says of the preset's settings: asking for
    `--model-size tiny` must not keep the file's widths.
    """
    values = read_yaml(path) if path is not None else {}
    for dotted, value in overrides.items():
        section, field = dotted.split(".")
        settings = values.setdefault(section, {})
        for preset in (ModelConfig.preset(), TrainingConfig.preset()):
            if field == preset[0]:
                for key in preset[1].get(str(value), {}):
                    settings.pop(key, None)
        settings[field] = value
    return XTTSConfig.from_dict(values)
