"""Writes a voice as ONNX graphs, for speaking without TensorFlow.

tf2onnx converts the functions that `Synthesizer` runs. Three graphs: `read` (text to durations),
`utter` (durations to a mel: only now is it known how long the speech is) and `listen` (a reference
to a voice). With the flow head `utter` only lays the frames out, and a fourth, `flow`, is called
for each step: written out, the steps would hold all weights 32 times. The vocoder is no graph: its
FFTs are quicker in NumPy than as products with matrices (2 to 4 times, measured on a CPU), and
onnxruntime inverts none of real numbers.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.errors import ConfigError
from myxtts.features.audio import NUM_MELS, SAMPLE_RATE
from myxtts.inference.export import README_FILE, check_target, write_folder
from myxtts.inference.references import read_references
from myxtts.inference.small.files import (
    CONFIG_FILE,
    ONNX_FORMAT,
    ONNX_FORMAT_NUMBER,
    graph_names,
    load_small,
    save_voice,
)
from myxtts.inference.speaker import Recordings
from myxtts.inference.voice_facts import config_checksum
from myxtts.inference.voice_files import VoiceFiles, load_voice
from myxtts.models.layers import Conv
from myxtts.models.reference import Voice
from myxtts.models.weights import assign_weights
from myxtts.models.xtts import XTTS, Text
from myxtts.text.languages import LANGUAGES

OPSET = 17
INSTALL_REMEDY = "pip install onnx tf2onnx onnxruntime"

_README = """# {name}

A voice trained with MyXTTS, as ONNX (opset {opset}): it speaks without TensorFlow.

| | |
|---|---|
| languages it was trained with | {languages} |
| size | {size}, {head} head |
| steps trained | {step} |
| text is read as | {reads} |
| audio | {rate} Hz, mono |
| voices inside | {voices} |

With the small package `myxtts-voice` (NumPy, onnxruntime, espeak-ng), or with MyXTTS itself:

```bash
myxtts-voice say {name} "Hello." --reference speaker.wav --output hello.wav
myxtts synthesize --model {name} --text "Hello." --reference speaker.wav --output hello.wav
```

`{config}` holds symbols, languages and checksums; no file holds code. It cannot be trained on.
"""


def export_onnx(
    source: str | Path, out: str | Path, *, references: Recordings | None = None
) -> Path:
    """Write the voice of a run or an export as ONNX; returns its folder.

    With references the export knows that speaker as `default`, and needs no recording to speak.
    """
    target = Path(out).expanduser().resolve()
    check_target(target)
    pieces = None if references is None else read_references(references)
    files = load_voice(source)
    graphs = _convert(files)
    voices: dict[str, Any] = {}
    contents = _contents(files, graphs, voices, target.name)
    if pieces is not None:
        from tempfile import TemporaryDirectory

        from myxtts.inference.small.voice import SmallVoice

        with TemporaryDirectory() as folder:  # heard by the graphs themselves
            for name, content in contents.items():
                Path(folder, name).write_bytes(content)
            heard = SmallVoice(load_small(folder)).listen_to_pieces(pieces)
        voices["default"] = save_voice(heard)
        contents = _contents(files, graphs, voices, target.name)
    write_folder(target, contents)
    return target


def _contents(
    files: VoiceFiles, graphs: dict[str, bytes], voices: dict[str, Any], name: str
) -> dict[str, bytes]:
    config: dict[str, Any] = {
        "format": ONNX_FORMAT,
        "format_number": ONNX_FORMAT_NUMBER,
        "opset": OPSET,
        "step": files.step,
        "size": files.model.size,
        "head": files.model.decoder_head,
        "voice_dim": files.model.voice_dim,
        "language": files.language,
        "languages": list(files.languages),
        "languages_known": list(LANGUAGES),
        "speakers": list(files.speakers),
        "sample_rate": SAMPLE_RATE,
        "max_text_length": files.max_text_length,
        "base": files.is_base,
        "files": {
            graph: {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
            for graph, raw in graphs.items()
        },
        "voices": voices,
        "tokenizer": files.tokenizer.to_dict(),
    }
    config["checksum"] = config_checksum(config)
    readme = _README.format(
        name=name,
        opset=OPSET,
        languages=", ".join(files.languages or (files.language,)),
        size=files.model.size,
        head=files.model.decoder_head,
        step=files.step,
        reads="phonemes of espeak-ng" if files.kind == "phonemes" else "characters",
        rate=SAMPLE_RATE,
        voices=", ".join(voices) or "none: it speaks in the voice of a recording",
        config=CONFIG_FILE,
    )
    text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    return {CONFIG_FILE: text.encode(), README_FILE: readme.encode(), **graphs}


def _convert(files: VoiceFiles) -> dict[str, bytes]:
    """The graphs by name."""
    tf2onnx = _converter()
    with tf.device("/CPU:0"):
        model = XTTS(files.model)
        assign_weights(model, files.weights)
    for layer in model._flatten_layers():
        if isinstance(layer, Conv):
            layer.is_direct = True
    found = {}
    names = graph_names(files.model.decoder_head)
    for name, (function, signature) in zip(names, _functions(model), strict=True):
        traced = tf.function(function, input_signature=signature, autograph=False)
        proto, _ = tf2onnx.convert.from_function(traced, input_signature=signature, opset=OPSET)
        found[name] = proto.SerializeToString()
    return found


def _functions(model: XTTS) -> list[tuple[Any, tuple[tf.TensorSpec, ...]]]:
    """What becomes a graph, with the names and shapes of what goes in; what comes out has names."""

    def read(tokens: Any, languages: Any, vector: Any, speeds: Any) -> dict[str, Any]:
        lengths = tf.reduce_sum(tf.ones(tf.shape(tokens)), axis=1)
        text, durations = model.read(tokens, lengths, languages, Voice(vector, None), speed=speeds)
        return {"hidden": text.hidden, "means": text.means, "durations": durations}

    def utter(
        hidden: Any, means: Any, durations: Any, vector: Any, log_pitch: Any, shifts: Any
    ) -> dict[str, Any]:
        text = Text(hidden, means, tf.ones_like(durations)[..., None])
        voice = Voice(vector, log_pitch)
        if has_flow:
            laid_out = model.lay_out(text, durations, voice, pitch_shift=shifts)
            return {"frames": laid_out.frames, "pitch": laid_out.pitch}
        said = model.utter(text, durations, voice, pitch_shift=shifts)
        return {"mels": said["mels"], "pitch": said["pitch"]}

    def flow(frames: Any, vector: Any, mels: Any, time: Any) -> dict[str, Any]:
        mask = tf.ones_like(frames[..., :1])
        return {"velocity": model.velocity(frames, vector, mask, mels, time)}

    def listen(mels: Any, lengths: Any, pitch: Any) -> dict[str, Any]:
        voice = model.listen(mels, lengths, pitch)
        return {"vector": voice.vector, "log_pitch": voice.log_pitch}

    config, has_flow = model.config, model.config.decoder_head == "flow"
    spec, real, whole = tf.TensorSpec, tf.float32, tf.int32
    vector = spec([1, config.voice_dim], real, "vector")
    drawing = (
        spec([1, None, config.encoder_dim], real, "hidden"),
        spec([1, None, NUM_MELS], real, "means"),
        spec([1, None], real, "durations"),
        vector,
        spec([1], real, "log_pitch"),
        spec([1, None], real, "shifts"),
    )
    reading = (
        spec([1, None], whole, "tokens"),
        spec([1], whole, "languages"),
        vector,
        spec([1, None], real, "speeds"),
    )
    listening = (
        spec([1, None, NUM_MELS], real, "mels"),
        spec([1], real, "lengths"),
        spec([1, None], real, "pitch"),
    )
    found = [(read, reading), (utter, drawing), (listen, listening)]
    if has_flow:
        width = model.decoder.project.kernel.shape[0] - NUM_MELS
        flowing = (
            spec([1, None, width], real, "frames"),
            vector,
            spec([1, None, NUM_MELS], real, "mels"),
            spec([1], real, "time"),
        )
        found.append((flow, flowing))
    return found


def _converter() -> Any:
    # NumPy 2 has no longer some names that tf2onnx still uses.
    for name, kind in {"bool": bool, "object": object, "float": float, "int": int}.items():
        if name not in np.__dict__:
            setattr(np, name, kind)
    try:
        import tf2onnx
    except ImportError as error:
        raise ConfigError("Writing ONNX needs its converter.", INSTALL_REMEDY) from error
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    return tf2onnx
