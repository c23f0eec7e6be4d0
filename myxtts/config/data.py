"""The settings of the data, of the devices that work on it, and of the buffers between them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
)

from myxtts.config.fields import Switch, setting
from myxtts.config.settings import Settings
from myxtts.errors import ConfigError
from myxtts.pipeline.request import DeviceRequest

StaticShapes = Literal["buckets", "one", "off"]
CacheKind = Literal["memory", "disk"]
DelimiterName = Literal["pipe", "tab", "comma"]
TokenizerKind = Literal["auto", "characters", "phonemes"]
CardIndex = Annotated[int, Field(ge=0, le=1023)]


class DataConfig(Settings):
    """The data, the devices that work on it, and the buffers between them."""

    train_data: Path | None = setting(
        None,
        "Training clips: a folder with metadata.csv and wavs/, or a clip list.",
        fa="قطعه‌های آموزش؛ پوشه‌ای با `metadata.csv` و `wavs/`، یا یک فهرست قطعه‌ها.",
        flag="--train-data DIR",
        group="Data",
    )
    val_data: Path | None = setting(
        None,
        "Validation clips. Without them a small fixed share of the training clips is held out.",
        fa="قطعه‌های اعتبارسنجی. اگر داده نشوند سهم کوچک و ثابتی از قطعه‌های آموزش کنار "
        "گذاشته می‌شود.",
        flag="--val-data DIR",
        group="Training",
    )
    batch_size: PositiveInt = setting(
        16,
        "Clips in a batch.",
        fa="تعداد قطعه‌های هر دسته.",
        flag="--batch-size",
        group="Batches",
        le=4096,
    )
    num_workers: PositiveInt = setting(
        16,
        "Most files read at once.",
        fa="حداکثر تعداد فایل‌هایی که هم‌زمان خوانده می‌شوند.",
        flag="--num-workers",
        group="Data",
        le=1024,
    )
    use_tf_native_loading: bool = setting(
        True,
        "Let TensorFlow decode WAV files, outside Python.",
        fa="فایل‌های WAV را خود تنسورفلو، بیرون از پایتون، رمزگشایی کند.",
    )
    cache: CacheKind | None = setting(
        None,
        "Where decoded clips are kept. Without it they are decoded anew in every epoch.",
        fa="جای نگهداری قطعه‌های رمزگشایی‌شده. بدون آن در هر دور از نو رمزگشایی می‌شوند.",
        flag="--cache",
        group="Data",
    )
    delimiter: DelimiterName | None = setting(
        None,
        "What separates the columns of a clip list. Without it, it is found out.",
        fa="جداکنندهٔ ستون‌های فهرست قطعه‌ها. اگر داده نشود خودش پیدا می‌کند.",
    )
    language: str = setting(
        "en",
        "Language of clips whose list names none.",
        fa="زبان قطعه‌هایی که فهرستشان زبانی نگفته است.",
        flag="--language CODE",
        group="Data",
    )
    allow_few: bool = setting(
        False,
        "Train even where most of the clips were dropped.",
        fa="حتی اگر بیشتر قطعه‌ها کنار گذاشته شده‌اند آموزش بده.",
        flag="--allow-few",
        group="Data",
    )
    tokenizer: TokenizerKind = setting(
        "auto",
        "What reads the texts. `auto` takes phonemes where espeak-ng is installed, else "
        "characters.",
        fa="آنچه متن‌ها را می‌خواند. `auto` اگر espeak-ng نصب باشد واج و وگرنه نویسه برمی‌دارد.",
    )
    lexicon: Path | None = setting(
        None,
        "File of pronunciations: word, tab, how it is said.",
        fa="فایل تلفظ‌ها: واژه، tab، شیوهٔ خواندن.",
    )
    max_text_length: PositiveInt = setting(
        256,
        "Longest text in tokens. Longer clips are dropped and listed.",
        fa="بلندترین متن بر حسب توکن. قطعه‌های بلندتر کنار گذاشته و فهرست می‌شوند.",
        flag="--max-text-length",
        group="Data",
        le=4096,
    )
    max_mel_frames: PositiveInt = setting(
        1024,
        "Longest clip in mel frames (1024 are about 12 seconds). Longer clips are dropped and "
        "listed.",
        fa="بلندترین قطعه بر حسب قاب mel (هر ۱۰۲۴ قاب حدود ۱۲ ثانیه است). قطعه‌های بلندتر "
        "کنار گذاشته و فهرست می‌شوند.",
        flag="--max-mel-frames",
        group="Data",
        le=16_384,
    )
    static_shapes: StaticShapes = setting(
        "buckets",
        "`buckets` uses a few fixed batch shapes, `one` exactly one, `off` pads each batch to "
        "its own length, which retraces.",
        fa="`buckets` چند شکل ثابت برای دسته‌ها دارد، `one` فقط یکی، و `off` به هر دسته تا "
        "طول خودش پدینگ می‌دهد که باعث ردیابی دوبارهٔ گراف (retrace) می‌شود.",
        switches=(
            Switch(
                "one",
                "--enable-static-shapes",
                "One fixed batch shape, so that nothing is ever traced again.",
                "یک شکل ثابت برای همهٔ دسته‌ها تا هیچ‌گاه دوباره ردیابی نشود.",
            ),
            Switch(
                "off",
                "--disable-static-shapes",
                "Each batch's own length, which retraces.",
                "هر دسته با طول خودش، که باعث ردیابی دوبارهٔ گراف (retrace) می‌شود.",
            ),
        ),
        group="Batches",
    )
    max_buckets: PositiveInt = setting(
        6,
        "Most fixed shapes with `buckets`. Each costs a compilation.",
        fa="حداکثر تعداد شکل‌های ثابت در حالت `buckets`. هر شکل یک بار کامپایل می‌خواهد.",
        le=64,
    )
    batch_frames: PositiveInt | None = setting(
        None,
        "Mel frames in a batch, instead of `batch_size` clips.",
        fa="تعداد قاب‌های mel در هر دسته، به‌جای `batch_size` قطعه.",
        le=10_000_000,
    )
    balance: Literal["speakers", "languages"] | None = setting(
        None,
        "Repeat clips of rare speakers or languages.",
        fa="قطعه‌های گوینده‌ها یا زبان‌های کم‌نمونه را تکرار کن.",
    )
    max_lost_share: NonNegativeFloat = setting(
        0.05,
        "Share of the training clips (0.05 is 5 %) that may be lost while a run is under way. With "
        "more it stops, with a checkpoint.",
        fa="سهمی از قطعه‌های آموزش (۰٫۰۵ یعنی ۵٪) که می‌تواند در میانهٔ اجرا از دست برود. با بیش از "
        "این، اجرا با یک چک‌پوینت متوقف می‌شود.",
        le=1,
    )
    augment_speed: NonNegativeFloat = setting(
        0.0,
        "Each clip is played faster or slower, with its reference, by up to this share (0.15 is "
        "15 %), as other speakers would sound: little data is then not learnt by heart. Chosen "
        "by `myxtts train` for up to an hour of recordings; 0 for none.",
        fa="هر قطعه همراه با صدای مرجعش تا این سهم (۰٫۱۵ یعنی ۱۵٪) تندتر یا کندتر پخش می‌شود، گویی "
        "گوینده‌های دیگری حرف می‌زنند، تا مدل دادهٔ کم را از بر نکند. برای ضبط‌های تا یک "
        "ساعت `myxtts train` خودش آن را برمی‌گزیند؛ ۰ یعنی بدون تغییر.",
        flag="--augment-speed",
        group="Training",
        le=0.25,
    )
    augment_gain_db: NonNegativeFloat = setting(
        0.0,
        "Each clip and reference is made louder or softer by up to this; 0 for none.",
        fa="هر قطعه و صدای مرجع تا این اندازه بلندتر یا آرام‌تر می‌شود؛ ۰ یعنی بدون تغییر.",
        unit="dB",
        le=60,
    )
    augment_noise_db: NonNegativeFloat | None = setting(
        None,
        "Noise this far below the speech is added to references. Without it none is.",
        fa="نویزی به این اندازه پایین‌تر از گفتار به صداهای مرجع افزوده می‌شود. بدون آن نویزی نیست.",
        unit="dB",
        le=120,
    )
    augment_colour_db: NonNegativeFloat = setting(
        0.0,
        "Each clip and its reference are heard as through another microphone: their spectrum is "
        "moved by a smooth curve that goes about this far; 0 for none.",
        fa="هر قطعه و صدای مرجعش چنان شنیده می‌شوند که گویی با میکروفون دیگری ضبط شده‌اند: طیفشان با "
        "منحنی همواری حدود این اندازه جابه‌جا می‌شود؛ ۰ یعنی بدون تغییر.",
        unit="dB",
        le=20,
    )
    data_gpu: NonNegativeInt | None = setting(
        None,
        "GPU that prepares batches. Give both GPUs or neither: then one device does both jobs.",
        fa="‏GPU آماده‌کنندهٔ دسته‌ها. یا هر دو GPU را بدهید یا هیچ‌کدام: آن‌گاه یک دستگاه هر "
        "دو کار را می‌کند.",
        flag="--data-gpu",
        group="Devices",
        le=1023,
    )
    model_gpu: CardIndex | tuple[CardIndex, ...] | None = setting(
        None,
        "GPU that trains, or several with a replica on each: 1,2,3. The data GPU then prepares "
        "batches for all of them.",
        fa="‏GPU آموزش‌دهنده، یا چند تا که روی هر کدام یک نسخهٔ مدل آموزش می‌بیند: 1,2,3. در این حالت "
        "‏GPU داده دسته‌های همه را آماده می‌کند.",
        flag="--model-gpu N[,N...]",
        group="Devices",
    )
    enable_memory_isolation: bool = setting(
        False,
        "Give each GPU a hard memory limit.",
        fa="برای حافظهٔ هر GPU سقفی قطعی بگذار.",
        flag="--enable-memory-isolation",
        group="Devices",
    )
    data_gpu_memory: PositiveInt | None = setting(
        None,
        "Memory limit of the data GPU. Without it the planner chooses for the card.",
        fa="سقف حافظهٔ GPU داده به مگابایت. اگر داده نشود برنامه‌ریز متناسب با کارت انتخاب می‌کند.",
        flag="--data-gpu-memory",
        group="Devices",
        unit="MB",
        le=1_000_000,
    )
    model_gpu_memory: PositiveInt | None = setting(
        None,
        "Memory limit of the model GPU. Without it the planner chooses for the card.",
        fa="سقف حافظهٔ GPU مدل به مگابایت. اگر داده نشود برنامه‌ریز متناسب با کارت انتخاب می‌کند.",
        flag="--model-gpu-memory",
        group="Devices",
        unit="MB",
        le=1_000_000,
    )
    simulate: bool = setting(
        False,
        "Two logical CPU devices stand in for two GPUs.",
        fa="دو دستگاه منطقی روی CPU جای دو GPU را می‌گیرند.",
        flag="--simulate",
        group="Devices",
    )
    fallback: Literal["single"] | None = setting(
        None,
        "What may run instead when two GPUs cannot be had. Without it that is an error.",
        fa="اگر دو GPU در دسترس نبود چه چیزی می‌تواند به‌جایش اجرا شود. بدون آن این یک خطاست.",
        flag="--fallback",
        group="Devices",
    )
    pipeline_buffer_size: PositiveInt = setting(
        50,
        "Batches read ahead in host memory, not a GPU's. With two devices half of it is used.",
        fa="تعداد دسته‌هایی که از پیش خوانده و در RAM میزبان، نه GPU، نگه داشته می‌شوند. با دو "
        "دستگاه نصف آن به کار می‌رود.",
        flag="--buffer-size",
        group="Buffers",
        le=10_000,
    )
    prefetch_buffer_size: PositiveInt = setting(
        4,
        "Processed batches waiting on the data device.",
        fa="تعداد دسته‌های پردازش‌شده‌ای که روی دستگاه داده منتظرند.",
        flag="--prefetch-buffer-size",
        group="Buffers",
        le=1000,
    )
    pipeline_depth: PositiveInt = setting(
        3,
        "Batches ready on the model device (3 is triple buffering).",
        fa="تعداد دسته‌های آماده روی دستگاه مدل (۳ یعنی بافر سه‌تایی).",
        flag="--pipeline-depth",
        group="Buffers",
        le=1000,
    )
    model_start_delay: NonNegativeFloat = setting(
        2.0,
        "The model waits at most this long at the start for full buffers.",
        fa="حداکثر ثانیه‌هایی که مدل در آغاز برای پر شدن بافرها صبر می‌کند.",
        flag="--model-start-delay",
        group="Training",
        unit="seconds",
        le=600,
    )
    stall_timeout: PositiveFloat = setting(
        120.0,
        "Without progress for this long a stage is given up, with its stack in the log.",
        fa="ثانیه‌های بدون پیشرفت تا آن مرحله رها شود؛ پشتهٔ فراخوانی‌اش در لاگ می‌آید.",
        unit="seconds",
        le=86_400,
    )

    @field_validator("model_gpu", mode="after")
    @classmethod
    def _one_is_no_list(cls, value: Any) -> Any:
        return value[0] if isinstance(value, tuple) and len(value) == 1 else value

    def device_request(self) -> DeviceRequest:
        """What these settings ask of the devices of one process."""
        if isinstance(self.model_gpu, tuple):
            raise ConfigError(
                f"--model-gpu names {len(self.model_gpu)} cards: one process trains on one.",
                "name one, or let `myxtts train` start a replica for each",
            )
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
