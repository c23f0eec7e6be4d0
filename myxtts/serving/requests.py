"""What a client asks to be said, read from JSON that anybody may have sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from myxtts.documents import parse_json
from myxtts.errors import DataError
from myxtts.serving.formats import CONTENT_TYPES
from myxtts.text.lexicon import Lexicon

MOST_WORDS = 1000  # of a request's lexicon
STREAM_FORMATS = ("audio", "sse")
_KNOWN = {
    *("model", "input", "voice", "response_format", "speed", "stream_format", "stream", "times"),
    *("language", "force_language", "pitch_shift", "loudness", "seed", "lexicon"),
}


@dataclass(frozen=True, kw_only=True)
class SpeechRequest:
    """The fields of OpenAI's API, and ours."""

    text: str
    model: str | None = None
    voice: str | None = None
    response_format: str = "mp3"
    stream_format: str = "audio"
    stream: bool = True  # in chunks; else whole, with its length
    times: bool = False
    language: str | None = None
    lexicon: Lexicon | None = None
    how: Mapping[str, Any] = field(default_factory=dict)  # of the delivery
    ignored: tuple[str, ...] = ()


def read_request(body: bytes, *, max_characters: int) -> SpeechRequest:
    """A request, checked; what is wrong with it is a DataError."""
    try:
        fields = parse_json(body)
    except ValueError as error:  # bytes that are no UTF-8 too
        raise DataError(f"The body is not JSON: {error}.", '{"input": "Hello."}') from error
    if not isinstance(fields, dict):
        raise DataError("The body is not a JSON object.", '{"input": "Hello."}')
    text = _field(fields, "input", str, None)
    if not text or not text.strip():
        raise DataError("There is no input to say.", '"input": "Hello."')
    if len(text) > max_characters:
        raise DataError(
            f"The input has {len(text)} characters, and {max_characters} are let in.",
            "several requests, or serve --max-characters",
        )
    text = text.encode("utf-8", "replace").decode()  # JSON may name half of a character
    voice = fields.get("voice")
    if isinstance(voice, dict):  # OpenAI's custom voices
        voice = voice.get("id")
    how = {
        "speed": _field(fields, "speed", float, 1.0),
        "pitch_shift": _field(fields, "pitch_shift", float, 0.0),
        "loudness": _field(fields, "loudness", float, None),
        "seed": _field(fields, "seed", int, 0),
        "force_language": _field(fields, "force_language", bool, False),
    }
    return SpeechRequest(
        text=text,
        model=_field(fields, "model", str, None),
        voice=_field({"voice": voice}, "voice", str, None),
        response_format=_choice(fields, "response_format", "mp3", tuple(CONTENT_TYPES)),
        stream_format=_choice(fields, "stream_format", "audio", STREAM_FORMATS),
        stream=_field(fields, "stream", bool, True),
        times=_field(fields, "times", bool, False),
        language=_field(fields, "language", str, None),
        lexicon=_lexicon(fields.get("lexicon")),
        how=how,
        ignored=tuple(sorted(name[:40] for name in fields.keys() - _KNOWN))[:20],
    )


def _field(fields: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 1e9 else float("nan")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {str: "a string", float: "a number", int: "a whole number", bool: "true or false"}
        raise DataError(f'"{name}" is no {kind.__name__}.', names[kind])
    if isinstance(value, int) and kind is int and not 0 <= value < 2**31:
        raise DataError(f'"{name}" is out of range.', "from 0 to 2147483647")
    return value


def _choice(fields: Mapping[str, Any], name: str, default: str, choices: tuple[str, ...]) -> str:
    value: str = _field(fields, name, str, default)
    if value not in choices:
        raise DataError(f'"{name}" cannot be {value[:40]!r}.', f"one of {', '.join(choices)}")
    return value


def _lexicon(entries: Any) -> Lexicon | None:
    if entries is None or entries == {}:
        return None
    if not isinstance(entries, dict) or not all(
        isinstance(word, str) and isinstance(said, str) for word, said in entries.items()
    ):
        raise DataError('"lexicon" is not words with pronunciations.', '{"Nguyen": "/wˈɪn/"}')
    if len(entries) > MOST_WORDS:
        raise DataError(
            f"The lexicon has {len(entries)} words.", f"{MOST_WORDS} at most in a request"
        )
    return Lexicon(entries)
