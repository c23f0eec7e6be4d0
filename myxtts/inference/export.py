"""Writes a voice as a small folder that loads anywhere: weights, settings, and how to use it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from myxtts.base import CARD_FILE
from myxtts.documents import read_json
from myxtts.errors import DataError, MyXTTSError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.small.files import GRAPHS, is_onnx_export
from myxtts.inference.voice_files import (
    CONFIG_FILE,
    FORMAT,
    FORMAT_NUMBER,
    WEIGHTS_FILE,
    VoiceFiles,
    config_checksum,
    load_voice,
    read_export_config,
)
from myxtts.text.languages import LANGUAGES

README_FILE = "README.md"
_FILES = {CONFIG_FILE, WEIGHTS_FILE, README_FILE, CARD_FILE, *GRAPHS}

_README = """# {name}

A voice trained with MyXTTS: it speaks text in the voice of any recording it is given.

| | |
|---|---|
| language it was trained with | {language} |
| speakers heard in training | {speakers} |
| size | {size}, {parameters:.1f} million parameters |
| steps trained | {step} |
| text is read as | {reads} |
| audio | {sample_rate} Hz, mono |

On the command line, with MyXTTS installed{package}:

```bash
myxtts synthesize --model {name} --text "Hello." --reference speaker.wav --output hello.wav
```

In Python:

```python
import soundfile
from myxtts.inference import Synthesizer

synthesizer = Synthesizer.load("{name}")
wave = synthesizer.say("Hello.", references=["speaker.wav"])
soundfile.write("hello.wav", wave.clip(-1, 1), synthesizer.sample_rate)
```

A reference is a recording of one speaker, 2 seconds or longer, in any language. `{weights}` is
safetensors, `{config}` JSON with the checksum of the weights; neither holds code. Training on from
here: `myxtts train --init-from {name}`.
"""


def export_voice(
    source: str | Path, out: str | Path, *, card: dict[str, Any] | None = None
) -> Path:
    """Write the voice of a run, or of one checkpoint, as an export; returns its folder.

    With a card, or from one that has one, it is a base voice: in half precision, and the card lies
    beside. The folder is there whole or not at all. An earlier export is replaced; anything else
    is not.
    """
    target = Path(out).expanduser().resolve()
    check_target(target)
    voice = load_voice(source)
    if card is None and voice.is_base and (voice.folder / CARD_FILE).is_file():
        card = read_json(voice.folder / CARD_FILE)
    contents = _contents(voice, name=target.name, half=card is not None)
    if card is not None:
        del contents[README_FILE]  # the card says more
        contents[CARD_FILE] = (json.dumps(card, indent=1, ensure_ascii=False) + "\n").encode()
    write_folder(target, contents)
    return target


def write_folder(target: Path, contents: dict[str, bytes]) -> None:
    """Write the files of an export; the folder is there whole or not at all."""
    partial = target.with_name(f".tmp-{target.name}-{os.getpid()}")
    replaced = target.with_name(f".tmp-replaced-{target.name}-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(partial, contents)
        if target.is_dir() and any(target.iterdir()):
            os.rename(target, replaced)  # a folder cannot be renamed over a full one
        os.rename(partial, target)
    except OSError as error:
        if replaced.exists() and not target.exists():
            os.rename(replaced, target)
        raise MyXTTSError(
            f"The export could not be written to {target}: {error}",
            "free some space, or another folder",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # renamed by now, unless something failed
    shutil.rmtree(replaced, ignore_errors=True)


def check_target(target: Path) -> None:
    """Refuse to write over what is not an export."""
    if not target.exists() and not target.is_symlink():
        return
    if target.is_dir():
        names = {path.name for path in target.iterdir()}
        if not names or (names <= _FILES and (_is_export(target) or is_onnx_export(target))):
            return
    raise DataError(
        f"{target} exists already and is no exported voice, so it is left alone.",
        "a new folder",
    )


def _is_export(folder: Path) -> bool:
    try:
        read_export_config(folder)
    except DataError:
        return False
    return True


def _contents(voice: VoiceFiles, *, name: str, half: bool) -> dict[str, bytes]:
    # safetensors writes a strided array's memory as it lies, that is wrongly, without a word.
    arrays = {key: np.asarray(value, order="C") for key, value in sorted(voice.weights.items())}
    if half:
        arrays = {key: array.astype(np.float16) for key, array in arrays.items()}
    weights = save(arrays, metadata={"format": FORMAT})
    config: dict[str, Any] = {
        "format": FORMAT,
        "format_number": FORMAT_NUMBER,
        "step": voice.step,
        "language": voice.language,
        "languages": list(voice.languages),
        "speakers": [] if half else list(voice.speakers),  # the card counts them
        "sample_rate": SAMPLE_RATE,
        "max_text_length": voice.max_text_length,
        "model": voice.model.model_dump(mode="json"),
        "tokenizer": voice.tokenizer.to_dict(),
        "weights": {"size": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
    }
    if half or voice.is_base:  # speaks otherwise than a trained voice: see `timbre`
        config["base"] = True
    config["checksum"] = config_checksum(config)
    text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    phonemes = voice.kind == "phonemes"
    readme = _README.format(
        name=name,
        language=", ".join(
            f"{LANGUAGES[tag]} (`{tag}`)" for tag in voice.languages or (voice.language,)
        ),
        speakers=_list_some(voice.speakers),
        size=voice.model.size,
        parameters=sum(array.size for array in arrays.values()) / 1e6,
        step=voice.step,
        reads="phonemes of espeak-ng" if phonemes else "characters",
        sample_rate=SAMPLE_RATE,
        package=" and `pip install espeakng-loader`" if phonemes else "",
        weights=WEIGHTS_FILE,
        config=CONFIG_FILE,
    )
    return {WEIGHTS_FILE: weights, CONFIG_FILE: text.encode(), README_FILE: readme.encode()}


def _list_some(names: tuple[str, ...], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "not named") + more


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of a killed process that had our number
    folder.mkdir()
    for name, content in contents.items():
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
