"""What a client is answered: headers, and errors as OpenAI's clients read them."""

from __future__ import annotations

import re

from starlette.responses import JSONResponse

from myxtts.errors import MyXTTSError
from myxtts.messages import harmless
from myxtts.serving.catalog import UnknownNameError
from myxtts.serving.formats import CONTENT_TYPES
from myxtts.serving.scheduler import QueueFullError
from myxtts.serving.speech import Speech

IGNORED_HEADER = "x-myxtts-ignored"
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def ignored_header(speech: Speech) -> dict[str, str]:
    """What was asked for in vain, where there is any."""
    listed = ", ".join(speech.ignored)
    text = harmless(listed)[:500].encode("ascii", "replace").decode()
    return {IGNORED_HEADER: text} if text else {}


def head_of(speech: Speech) -> tuple[str, dict[str, str]]:
    """The content type of the answer to a request, and further headers."""
    asked = speech.request
    kind = CONTENT_TYPES[asked.response_format]
    return ("text/event-stream" if asked.stream_format == "sse" else kind), ignored_header(speech)


def error_answer(status: int, problem: str, remedy: str, **headers: str) -> JSONResponse:
    """An error; flags in its remedy are named as the fields that they are here."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    remedy = _FLAG.sub(lambda match: f'"{match[1].replace("-", "_")}"', remedy)
    message = f"{problem} Try: {remedy}" if remedy else problem
    error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, headers=headers)


def answer_error(error: MyXTTSError) -> JSONResponse:
    """What a client is told of an error of its own making, or of a full queue."""
    if isinstance(error, QueueFullError):
        return error_answer(429, error.problem, error.remedy, **{"retry-after": "1"})
    return error_answer(
        404 if isinstance(error, UnknownNameError) else 400, error.problem, error.remedy
    )
