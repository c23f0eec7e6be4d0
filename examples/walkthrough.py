#!/usr/bin/env python3
# %% [markdown]
# # From recordings to speech
#
# A notebook in plain Python: editors and Jupytext show the cells, and `python
# examples/walkthrough.py` runs them all, in a few minutes on two CPU cores. Everything is written
# below `walkthrough/`. It needs no GPU: two CPU devices stand in for two GPUs.

# %%
import os
import sys
from pathlib import Path

here = Path(globals().get("__file__", "examples/notebook"))  # a notebook starts in the checkout
sys.path.insert(0, str(here.resolve().parent.parent))

STEPS = int(os.environ.get("STEPS", "300"))  # some words are clear after 150, most after 300
WORK = Path("walkthrough")

# %% [markdown]
# ## 1. Devices come first
#
# TensorFlow fixes its devices with the first tensor, so they are configured before anything else.
# On a machine with two GPUs write `configure_devices(0, 1, isolate=True)` instead.

# %%
from myxtts.pipeline import configure_devices

plan = configure_devices(isolate=True, simulate=True)
print(f"{plan.mode.value}: data on {plan.data_device}, model on {plan.model_device}{plan.note}")

# %% [markdown]
# ## 2. Recordings
#
# A folder with `metadata.csv` and `wavs/` is all that is needed. Here espeak-ng speaks one.

# %%
from myxtts.corpora.demo import make_demo_corpus

corpus = make_demo_corpus(WORK / "corpus", voices=2, sentences=200, held_out=4)
print(f"{corpus.num_clips} clips, {corpus.seconds / 60:.1f} minutes, speakers {corpus.speakers}")

# %% [markdown]
# ## 3. Look before training
#
# Every listed clip is kept, or dropped for a reason. `myxtts data check DIR` prints the same.

# %%
from myxtts.config.config import DataConfig
from myxtts.data.prepare import prepare_data
from myxtts.data.summary import summarise

prepared = prepare_data(corpus.folder, DataConfig())
summary = summarise(prepared.manifest, prepared.verdicts, prepared.tokenizer.unknown_counts)
print(f"{summary.kept} of {summary.listed} clips kept, {60 * summary.hours:.1f} minutes")
for reason, count, examples, remedy in summary.reasons():
    print(f"dropped: {count} × {reason}, for example {examples}; {remedy}")

# %% [markdown]
# ## 4. Settings
#
# Whatever is not said keeps its default. A misspelt name or a wrong value is refused at once.
# On two GPUs write `data_gpu=0, model_gpu=1` in place of `simulate=True`, as in step 1.

# %%
from myxtts.config.config import ModelConfig, TrainingConfig, XTTSConfig

config = XTTSConfig(
    model=ModelConfig(size="tiny"),
    data=DataConfig(
        train_data=corpus.folder,
        static_shapes="one",  # each shape costs a compilation: on a short run one is best
        simulate=True,
        enable_memory_isolation=True,
    ),
    training=TrainingConfig(
        checkpoint_dir=WORK / "run",
        max_steps=STEPS,
        learning_rate=2e-3,
        warmup_steps=50,
        ema_decay=0.99,
    ),
)

# %% [markdown]
# ## 5. Would it fit a real card?
#
# The planner counts what each device would hold, without a GPU.

# %%
from myxtts.profiling.describe import describe_plan
from myxtts.profiling.planner import plan_memory

print("\n".join(describe_plan(plan_memory(config, gpu_memory_mb=12_288))))

# %% [markdown]
# ## 6. Train
#
# Run this cell again and training goes on from its last checkpoint.

# %%
from myxtts.training import make_trainer

with make_trainer(config) as trainer:
    result = trainer.train()
print(f"{result['steps']} steps, loss {result['losses'].get('loss', float('nan')):.3f}")

# %% [markdown]
# ## 7. Where did the time go?

# %%
stats = result["stats"]
for name, stage in stats.stages.items():
    print(f"{name:10s} busy {stage.busy_share:4.0%}")
print(f"The slowest stage is {stats.bottleneck}")

# %% [markdown]
# ## 8. Speak
#
# In the voice of a recording that was not trained on.

# %%
import soundfile

from myxtts.inference import Synthesizer

synthesizer = Synthesizer.load(WORK / "run")
reference = next((corpus.folder / "heldout" / "wavs").glob("new_sentence_*.wav"))
voice = synthesizer.listen(reference)
wave = synthesizer.say("Alice borrows twelve dark bottles.", voice=voice)
soundfile.write(WORK / "alice.wav", wave, synthesizer.sample_rate)
print(f"{WORK / 'alice.wav'}: {len(wave) / synthesizer.sample_rate:.1f} s, as {reference.name}")
