"""The card of a base voice: what it heard, how it was trained, what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from myxtts import __version__
from myxtts.documents import read_json
from myxtts.errors import DataError
from myxtts.inference.voice_files import load_voice
from myxtts.runs.checkpoints import CheckpointStore
from myxtts.runs.events import read_events
from myxtts.runs.folder import EVENTS_FILE
from myxtts.text.languages import LANGUAGES

SYNTHETIC = "espeak-ng"  # the name of the crowd's source
CORPUS_FACTS = Path("corpus", "base_corpus.json")

NOT = (
    "A finished voice: it is made to start from. Its own speech is understood, and dull.",
    "A copy of anyone: how near it comes to people it never heard is among the numbers.",
)


def make_card(made: Path, *, numbers: Path | None, notes: Sequence[str]) -> dict[str, Any]:
    """From the folder of `myxtts base train`, and what the benchmark wrote."""
    try:
        facts = read_json(made / CORPUS_FACTS)
        measured = None if numbers is None else read_json(numbers)
    except (OSError, ValueError) as error:
        raise DataError(
            f"The facts for the card cannot be read: {error}", "the --out of `myxtts base train`"
        ) from error
    checkpoint = CheckpointStore(made / "run" / "checkpoints").latest(("ema",))
    if checkpoint is None:
        raise DataError(f"{made / 'run'} has no whole checkpoint yet.", "train for longer")
    config = checkpoint.state["config"]
    begun = config["training"].get("init_from")
    return {
        "name": "MyXTTS base voice",
        "size": config["model"]["size"],
        "steps": checkpoint.step,
        "licence": "Apache-2.0, as MyXTTS",
        "heard": facts["sources"],
        "notes": list(notes),
        "made": {
            "myxtts": __version__,
            "espeak_ng": facts["espeak_ng"],
            "corpus": facts["settings"],
            "after_steps": 0 if begun is None else load_voice(begun).step,
            "sharpness": config["training"].get("sharpness", 0.0),
            "dropout": config["training"].get("dropout", 0.0),
            "augment_speed": config["data"].get("augment_speed", 0.0),
            "augment_colour_db": config["data"].get("augment_colour_db", 0.0),
            "seed": config["training"]["seed"],
            "learning_rate": config["training"]["learning_rate"],
            "batch_frames": config["data"]["batch_frames"],
            "planned_steps": config["training"]["max_steps"],
            "device": _device(made / "run"),
        },
        "numbers": measured or {},
        "not": [*NOT, _not_native(facts["sources"])],
    }


def _device(run: Path) -> str:
    """The kind of device that trained it, as the run says."""
    started = (e for e in read_events(run / EVENTS_FILE) if e["kind"] == "started")
    device = next(started, {}).get("values", {}).get("devices", {}).get("model_device", "")
    return str(device).strip("/").partition(":")[0] or "not known"


def _not_native(sources: Mapping[str, Any]) -> str:
    people = {
        tag
        for name, heard in sources.items()
        if name != SYNTHETIC
        for tag in heard.get("languages", ())
    }
    spoken = " and ".join(LANGUAGES[tag] for tag in sorted(people))
    but = f"all but {spoken} it heard" if spoken else "all of them it heard"
    return f"A speaker of every language like a native: {but} from espeak-ng alone."
