#!/usr/bin/env python3
"""Memory-isolated training on two GPUs, in seven steps.

python examples/memory_isolated_training.py --data-gpu 0 --model-gpu 1 --train-data DIR
python examples/memory_isolated_training.py --simulate     # no GPU needed: two CPU devices
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a fresh clone

from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig
from myxtts.errors import MyXTTSError
from myxtts.pipeline.devices import machine_cards
from myxtts.utils.commons import setup_logging
from myxtts.utils.gpu_memory import get_optimal_memory_limits, setup_gpu_memory_isolation

# So small that it starts at once; it shows the way and learns nothing.
TOY = ModelConfig(encoder_dim=16, encoder_blocks=1, decoder_dim=16, decoder_blocks=1, voice_dim=8)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the seven steps."""
    asked = _read_arguments(arguments)
    setup_logging()
    with tempfile.TemporaryDirectory() as scratch:
        _run(asked, Path(scratch))


def _run(asked: argparse.Namespace, scratch: Path) -> None:
    print("1/7  GPUs")
    cards = machine_cards(simulate=asked.simulate)
    for card in cards:
        print(f"     GPU {card.index}: {card.name}, {card.total_mb} MB, {card.free_mb} MB free")
    if not cards:
        print("     none here; --simulate runs all of this on two CPU devices")

    print("2/7  Memory limits that fit these cards")
    gpus = asked.data_gpu, asked.model_gpu
    data_mb, model_mb = get_optimal_memory_limits(*gpus, simulate=asked.simulate)
    print(
        f"     data GPU {asked.data_gpu}: {data_mb} MB, model GPU {asked.model_gpu}: {model_mb} MB"
    )

    print("3/7  Isolation: before TensorFlow makes its first tensor")
    plan = setup_gpu_memory_isolation(*gpus, data_mb, model_mb, simulate=asked.simulate)
    print(f"     data on {plan.data_device}, model on {plan.model_device}{plan.note}")

    print("4/7  Configuration")
    config = XTTSConfig(
        model=TOY if asked.model_size == "toy" else ModelConfig(size=asked.model_size),
        data=DataConfig(
            train_data=asked.train_data or _hum_clips(scratch / "clips"),
            batch_size=asked.batch_size,
            static_shapes="one",  # a single shape: nothing is compiled twice
            data_gpu=asked.data_gpu,
            model_gpu=asked.model_gpu,
            enable_memory_isolation=True,
            data_gpu_memory=data_mb,
            model_gpu_memory=model_mb,
            simulate=asked.simulate,
        ),
        training=TrainingConfig(
            max_steps=asked.steps,
            # Compiling with XLA takes longer than these few steps; leave it out of short runs only.
            optimization_level="basic",
            checkpoint_dir=asked.checkpoint_dir or scratch / "run",
            memory_check_steps=2,
            log_steps=1,
        ),
    )
    print(f"     {config.data.train_data}, {asked.steps} steps of {asked.batch_size} clips")

    print("5/7  Trainer")
    # Imported here: it loads TensorFlow, which must find the devices set up.
    from myxtts.training.memory_isolated_trainer import MemoryIsolatedDualGPUTrainer

    with MemoryIsolatedDualGPUTrainer(
        config, *gpus, data_mb, model_mb, simulate=asked.simulate
    ) as trainer:
        print(f"     model on {trainer.model_device}")

        print("6/7  Memory before training")
        _print_memory(trainer.get_memory_stats())

        print(f"7/7  Training {asked.steps} steps")
        result = trainer.train()
        stats = result["stats"]
        print(f"     loss {result['losses']['loss']:.3f} after {result['steps']} steps")
        print(f"     the slowest stage was {stats.bottleneck}")
        _print_memory(trainer.get_memory_stats())
        if asked.checkpoint_dir:
            print(f"     everything is in {trainer.run.path}; the same command goes on from there")


def _read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-gpu", type=int, default=0, help="prepares batches")
    parser.add_argument("--model-gpu", type=int, default=1, help="trains")
    parser.add_argument("--simulate", action="store_true", help="two CPU devices instead of GPUs")
    parser.add_argument("--train-data", type=Path, help="your clips; default: a few hums")
    parser.add_argument("--checkpoint-dir", type=Path, help="keep the run; default: thrown away")
    parser.add_argument(
        "--model-size", choices=["toy", "tiny", "small", "normal", "big"], default="toy"
    )
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=4)
    return parser.parse_args(arguments)


def _hum_clips(folder: Path) -> Path:
    """A second of humming each, in the layout your own recordings would have."""
    import soundfile

    from myxtts.checks.probe import synthetic_waveforms
    from myxtts.features.audio import SAMPLE_RATE

    (folder / "wavs").mkdir(parents=True)
    (batch,) = synthetic_waveforms(1, batch_size=8)
    for number, wave in enumerate(batch["waveforms"]):
        soundfile.write(folder / "wavs" / f"hum{number}.wav", wave, SAMPLE_RATE)
    lines = [f"hum{number}|Hm, hm, hm." for number in range(8)]
    (folder / "metadata.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def _print_memory(stats: dict[str, dict[str, object]]) -> None:
    for role, reading in stats.items():
        used, limit = f"{reading['used_mb']:.0f}", f"{reading['limit_mb']:.0f}"
        print(f"     {role} {reading['gpu_id']}: {used} of {limit} MB ({reading['source']})")


if __name__ == "__main__":
    try:
        main()
    except MyXTTSError as error:
        sys.exit(f"error: {error}")
