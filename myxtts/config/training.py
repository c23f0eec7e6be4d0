"""The settings of the optimiser and the schedule, and where a run is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from myxtts.config.fields import Switch, setting
from myxtts.config.presets import OPTIMIZATION_LEVELS
from myxtts.config.settings import PresetSettings

OptimizationLevel = Literal["basic", "enhanced", "experimental"]
BASE, NONE = "base", "none"  # in place of a folder to start from
ModelPart = Literal["encoder", "reference", "means", "duration", "pitch", "decoder"]


class TrainingConfig(PresetSettings):
    """The optimiser, the schedule, and where a run is kept."""

    epochs: PositiveInt = setting(
        100,
        "Passes over the data.",
        fa="تعداد دورهای کامل روی داده.",
        flag="--epochs",
        group="Training",
        le=10_000_000,
    )
    max_steps: PositiveInt | None = setting(
        None,
        "Updates after which the run ends, whatever --epochs says.",
        fa="تعداد به‌روزرسانی‌هایی که پس از آن اجرا تمام می‌شود، `--epochs` هر چه باشد.",
        flag="--max-steps",
        group="Training",
        le=1_000_000_000,
    )
    learning_rate: PositiveFloat = setting(
        1e-3,
        "The highest learning rate, reached after the warm-up.",
        fa="بیشترین نرخ یادگیری، که پس از گرم‌شدن به آن می‌رسد.",
        flag="--lr",
        group="Training",
        le=10,
    )
    warmup_steps: NonNegativeInt = setting(
        500,
        "Steps until the highest rate is reached; at most a tenth of the run.",
        fa="تعداد گام‌ها تا رسیدن به بیشترین نرخ؛ حداکثر یک‌دهم اجرا.",
        le=1_000_000_000,
    )
    weight_decay: NonNegativeFloat = setting(
        0.01,
        "Weight decay of the optimiser.",
        fa="ضریب کاهش وزن‌ها (weight decay) در بهینه‌ساز.",
        le=10,
    )
    gradient_clip: PositiveFloat = setting(
        1.0,
        "Largest norm of the gradients; larger ones are scaled down to it.",
        fa="بیشترین اندازهٔ گرادیان؛ گرادیان بزرگ‌تر تا همین اندازه کوچک می‌شود.",
        le=1_000_000,
    )
    grad_accum: PositiveInt = setting(
        1,
        "Batches whose gradients make one update.",
        fa="تعداد دسته‌هایی که گرادیانشان یک به‌روزرسانی می‌سازد.",
        flag="--grad-accum",
        group="Batches",
        le=65_536,
    )
    ema_decay: NonNegativeFloat = setting(
        0.999,
        "Decay of the averaged weights, which validate and speak; 0 for none.",
        fa="ضریب میانگین‌گیری از وزن‌ها؛ اعتبارسنجی و گفتار با همین میانگین انجام می‌شود. "
        "۰ یعنی بدون میانگین.",
        lt=1,
    )
    sharpness: NonNegativeFloat = setting(
        0.0,
        "Weight of a critic that learns to tell drawn spectrograms from recorded ones, so that "
        "speech is not drawn smooth; 0 for none. For the regression head.",
        fa="وزن منتقدی که یاد می‌گیرد طیف‌نگارهٔ ساخته‌شده را از ضبط‌شده بازشناسد، تا گفتار محو "
        "ساخته نشود؛ ۰ یعنی بدون منتقد. برای سرِ regression.",
        flag="--sharpness",
        group="Training",
        le=100,
    )
    dropout: NonNegativeFloat = setting(
        0.0,
        "Share of the numbers between the network's layers that is left out while it trains "
        "(0.1 is 10 %), so that little data is not learnt by heart. Chosen by `myxtts train` for "
        "up to an hour of recordings; 0 for none.",
        fa="سهمی از عددهای میان لایه‌های شبکه که هنگام آموزش کنار گذاشته می‌شود (۰٫۱ یعنی ۱۰٪)، تا "
        "مدل دادهٔ کم را از بر نکند. برای ضبط‌های تا یک ساعت `myxtts train` خودش آن را برمی‌گزیند؛ "
        "۰ یعنی بدون dropout.",
        flag="--dropout",
        group="Training",
        le=0.9,
    )
    seed: NonNegativeInt = setting(
        0,
        "Seed of the weights and of the order of clips.",
        fa="بذر تصادفی وزن‌ها و ترتیب قطعه‌ها.",
        le=4_294_967_295,
    )
    optimization_level: OptimizationLevel = setting(
        "enhanced",
        "`basic` is float32 without XLA, `enhanced` adds XLA and mixed precision, "
        "`experimental` what is not proven yet.",
        fa="‏`basic` یعنی float32 بدون XLA، ‏`enhanced` افزون بر آن XLA و دقت ترکیبی، و "
        "`experimental` آنچه هنوز اثبات نشده است.",
        flag="--optimization-level",
        group="Model",
    )
    xla: bool = setting(
        True,
        "Compile the training step with XLA.",
        fa="گام آموزش را با XLA کامپایل کن.",
    )
    mixed_precision: bool = setting(
        True,
        "Compute in half precision where the device has it.",
        fa="هر جا دستگاه پشتیبانی می‌کند با دقت نیمه محاسبه کن.",
    )
    xla_process: Literal["auto", "on", "off"] = setting(
        "auto",
        "Compile the data device's work with XLA too; `auto` tries both on a GPU and stays with "
        "the quicker, and on a CPU does not.",
        fa="کار دستگاه داده را هم با XLA کامپایل کن؛ ‏`auto` روی GPU هر دو را امتحان می‌کند و با "
        "سریع‌تر ادامه می‌دهد، و روی CPU کامپایل نمی‌کند.",
    )
    tf32: bool = setting(
        False,
        "Let a newer GPU round the factors of the model's float32 products to ten bits (TF32), "
        "which is faster; matters where mixed precision is off. Mels and pitch are never rounded.",
        fa="به GPUهای جدیدتر اجازه بده عامل‌های ضرب‌های float32 مدل را به ده بیت گرد کنند (TF32)، "
        "که سریع‌تر است؛ وقتی اهمیت دارد که دقت ترکیبی خاموش باشد. مل‌ها و زیروبمی هرگز گرد نمی‌شوند.",
    )
    checkpoint_dir: Path = setting(
        Path("runs/default"),
        "The run folder: checkpoints, events, samples, TensorBoard.",
        fa="پوشهٔ اجرا: چک‌پوینت‌ها، رویدادها، نمونه‌ها و TensorBoard.",
        flag="--checkpoint-dir DIR",
        group="Run folder",
    )
    resume: Literal["auto", "require", "reset"] = setting(
        "auto",
        "`auto` goes on from a checkpoint if there is one, `require` fails without one, "
        "`reset` starts anew and keeps the old run aside.",
        fa="`auto` اگر چک‌پوینتی باشد از آن ادامه می‌دهد، `require` اگر چک‌پوینت نباشد خطا "
        "می‌دهد، و `reset` از نو آغاز می‌کند و اجرای قبلی را کنار می‌گذارد.",
        switches=(
            Switch(
                "require",
                "--resume",
                "Go on from a checkpoint; an error where there is none.",
                "از چک‌پوینت ادامه بده؛ اگر چک‌پوینت نباشد خطا می‌دهد.",
            ),
            Switch(
                "reset",
                "--reset-training",
                "Start anew; the old run is kept aside.",
                "از نو آغاز کن؛ اجرای قبلی کنار گذاشته می‌شود.",
            ),
        ),
        group="Run folder",
    )
    checkpoint_steps: PositiveInt = setting(
        1000,
        "Steps between checkpoints.",
        fa="فاصلهٔ چک‌پوینت‌ها بر حسب گام.",
        le=1_000_000_000,
    )
    checkpoint_minutes: PositiveFloat = setting(
        15.0,
        "Or after this many minutes, whichever comes first.",
        fa="یا پس از این تعداد دقیقه، هر کدام زودتر برسد.",
        unit="minutes",
        le=100_000,
    )
    keep_checkpoints: PositiveInt = setting(
        3,
        "The newest that are kept. The best is kept besides.",
        fa="تعداد تازه‌ترین چک‌پوینت‌هایی که می‌مانند. بهترین هم جداگانه می‌ماند.",
        le=100_000,
    )
    init_from: Path | None = setting(
        None,
        "Run or export whose weights to start from; `base` is the voice that comes with MyXTTS, "
        "`none` starts from nothing. Without it `myxtts train` starts from the base voice unless "
        "head or widths do not fit, and a trainer in Python from nothing.",
        fa="اجرا یا خروجی‌ای که آموزش از وزن‌های آن آغاز می‌شود؛ `base` صدای پایه‌ای است که همراه "
        "MyXTTS می‌آید و `none` یعنی از صفر. اگر داده نشود، `myxtts train` از صدای پایه آغاز می‌کند "
        "مگر آن‌که سر یا پهناهای مدل با آن نخواند، و ترینر در پایتون از صفر.",
        flag="--init-from base|none|RUN_OR_EXPORT",
        group="Training",
    )
    freeze: tuple[ModelPart, ...] = setting(
        (),
        "Parts of the model whose weights stay as they are: encoder, reference, means, "
        "duration, pitch, decoder.",
        fa="بخش‌هایی از مدل که وزن‌هایشان همان‌طور می‌ماند: encoder، reference، means، duration، "
        "pitch، decoder.",
        flag="--freeze PART,PART",
        group="Training",
    )
    replicas: PositiveInt | None = setting(
        None,
        "Processes on this machine that train one voice together, each on a GPU of its own, or on "
        "its share of the CPU. The batches of a step are as many.",
        fa="تعداد پردازه‌هایی که روی این ماشین با هم یک صدا را آموزش می‌دهند، هر کدام روی GPU خودش "
        "یا با سهمی از CPU. هر گام به همین تعداد دسته دارد.",
        flag="--replicas",
        group="Training",
        le=4096,
    )
    max_restarts: NonNegativeInt = setting(
        0,
        "How often all replicas are started again from the last checkpoint when one is lost.",
        fa="اگر یکی از نسخه‌ها از دست برود، همه چند بار از آخرین چک‌پوینت دوباره آغاز شوند.",
        flag="--max-restarts",
        group="Training",
        le=1_000_000,
    )
    join_timeout: PositiveFloat = setting(
        300.0,
        "How long replicas wait for each other at the start.",
        fa="نسخه‌ها در آغاز حداکثر چند ثانیه منتظر هم می‌مانند.",
        unit="seconds",
        le=86_400,
    )
    auto_batch: bool = setting(
        False,
        "On out-of-memory halve the batch and double the accumulation.",
        fa="اگر حافظه کم آمد دسته را نصف و انباشت گرادیان را دو برابر کن.",
        flag="--auto-batch",
        group="Training",
    )
    validation_steps: PositiveInt | None = setting(
        None,
        "Steps between validations. Without it there are five in a run, and none is longer than "
        "half an hour away; where a run may stop early, only the five.",
        fa="فاصلهٔ اعتبارسنجی‌ها بر حسب گام. اگر داده نشود هر اجرا پنج اعتبارسنجی دارد و بین دو "
        "تای آن‌ها بیش از نیم ساعت نمی‌گذرد؛ اگر توقف زودهنگام روشن باشد فقط همان پنج تا.",
        le=1_000_000_000,
    )
    early_stopping_patience: PositiveInt | None = setting(
        None,
        "Validations without a better loss until the run stops. Without it the run never "
        "stops early.",
        fa="تعداد اعتبارسنجی‌های بدون بهبود تا اجرا متوقف شود. بدون آن هیچ‌وقت زودتر نمی‌ایستد.",
        le=1_000_000_000,
    )
    early_stopping_min_delta: NonNegativeFloat = setting(
        0.0,
        "By how much a loss must be better to count.",
        fa="زیان دست‌کم چقدر باید کمتر شود تا بهبود به حساب بیاید.",
        le=1_000_000,
    )
    log_steps: PositiveInt = setting(
        10,
        "Steps between losses in the log.",
        fa="فاصلهٔ ثبت زیان در لاگ بر حسب گام.",
        le=1_000_000_000,
    )
    sample_steps: PositiveInt | None = setting(
        None,
        "Steps between sentences to listen to. Without it there are five times in a run, fewer in "
        "one under 500 steps, and none is longer than half an hour away.",
        fa="فاصلهٔ ساختن نمونه‌های شنیدنی بر حسب گام. اگر داده نشود پنج بار در هر اجرا (در اجراهای "
        "زیر ۵۰۰ گام کمتر)، و بین دو بار بیش از نیم ساعت نمی‌گذرد.",
        le=1_000_000_000,
    )
    sample_text: str | None = setting(
        None,
        "A sentence of your own that is said with the samples.",
        fa="جمله‌ای از خودتان که همراه نمونه‌ها گفته می‌شود.",
        flag="--sample-text TEXT",
        group="Training",
    )
    tensorboard_log_dir: Path | None = setting(
        None,
        "TensorBoard's folder. Without it, it is inside the run folder.",
        fa="پوشهٔ TensorBoard. اگر داده نشود درون پوشهٔ اجرا قرار می‌گیرد.",
        flag="--tensorboard-log-dir DIR",
        group="Run folder",
    )
    wandb: bool = setting(
        False,
        "Log to Weights & Biases too.",
        fa="در Weights & Biases هم ثبت کن.",
        flag="--wandb",
        group="Run folder",
    )
    memory_check_steps: PositiveInt = setting(
        100,
        "Steps between memory lines in the log.",
        fa="فاصلهٔ خط‌های حافظه در لاگ بر حسب گام.",
        le=1_000_000_000,
    )
    data_leak_threshold_mb: PositiveFloat = setting(
        200.0,
        "Growth of the data device's memory that is flagged.",
        fa="رشدی از حافظهٔ دستگاه داده، به مگابایت، که هشدار می‌آورد.",
        unit="MB",
        le=1_000_000,
    )
    model_leak_threshold_mb: PositiveFloat = setting(
        500.0,
        "Growth of the model device's memory that is flagged.",
        fa="رشدی از حافظهٔ دستگاه مدل، به مگابایت، که هشدار می‌آورد.",
        unit="MB",
        le=1_000_000,
    )

    @field_validator("xla_process", mode="before")
    @classmethod
    def _read_switch(cls, value: Any) -> Any:
        """YAML reads a plain `on` as true, and so runs made before have it."""
        return {True: "on", False: "off"}[value] if isinstance(value, bool) else value

    @property
    def starts_from(self) -> Path | None:
        """The voice to start from, if any is asked for."""
        return None if str(self.init_from) in ("None", NONE) else self.init_from

    @property
    def reads_like_source(self) -> bool:
        """Whether the voice it starts from decides how texts are read; the base voice does not."""
        return self.starts_from is not None and str(self.starts_from) != BASE

    @property
    def of_the_model(self) -> dict[str, float]:
        """What the voice model is told when it is made to be trained."""
        return {"sharpness": self.sharpness, "dropout": self.dropout}

    @classmethod
    def preset(cls) -> tuple[str, dict[str, dict[str, Any]]]:
        """`optimization_level` names the preset."""
        return "optimization_level", OPTIMIZATION_LEVELS
