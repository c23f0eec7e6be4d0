"""Makes tests/fixtures/small_voice, an ONNX export of a voice that was never trained.

    python -m tests.make_small_voice

Tests of what speaks without TensorFlow use it: converting takes half a minute. Make it anew when
the graphs change; a slow test compares it with TensorFlow.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from myxtts.inference.onnx_export import export_onnx
from myxtts.inference.voice_files import load_voice
from myxtts.models.xtts import XTTS
from myxtts.text.languages import LANGUAGES
from myxtts.text.tokenizers import PhonemeTokenizer
from tests.small_runs import hum, save_run
from tests.support import ROOT

FIXTURE = ROOT / "tests" / "fixtures" / "small_voice"


def save_phoneme_run(folder: Path, head: str = "regression", **how: Any) -> Path:
    """A run of every language, whose tokens last a few frames and are mostly voiced."""

    def tune(model: XTTS) -> None:
        # Untaught weights of a wide model ask for hundreds of frames a token, where the last bit of
        # a logarithm decides one of them.
        model.duration.out.kernel.assign(0.05 * model.duration.out.kernel)
        model.duration.out.bias.assign([1.6])
        model.pitch.out.bias.assign([0.0, 2.0])

    return save_run(
        folder,
        tokenizer=PhonemeTokenizer(),
        head=head,
        max_text_length=200,
        state={"languages": list(LANGUAGES)},
        tune=tune,
        **how,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run = save_phoneme_run(Path(folder) / "run")
        assert load_voice(run).languages
        export_onnx(run, FIXTURE, references=[(hum(), 22_050)])
