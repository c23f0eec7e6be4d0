"""A clip list as its lines: a regular file of bounded size, whatever its bytes."""

from __future__ import annotations

import codecs
import csv
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from myxtts.errors import DataError

DELIMITERS = {"pipe": "|", "tab": "\t", "comma": ","}
MAX_LIST_BYTES = 2 << 30  # some ten million clips
MAX_LINE = 1 << 20  # characters
SHOWN = 80  # characters of a line that cannot be read

_PEEKED = 1 << 16  # bytes looked at to find out how lines end
_NOT_UTF8 = "the row is not UTF-8"
_TOO_LONG = f"the row is longer than {MAX_LINE} characters"
_SPANS_LINES = "a quotation mark is opened and not closed on this line; a clip is one line"


class Line(NamedTuple):
    """A line without its end; one that cannot be read says why."""

    number: int  # from 1, as editors count
    text: str
    problem: str = ""


def open_regular(path: Path, *, what: str = "The clip list") -> io.BufferedReader:
    """Open a file; a pipe or device, which may never end, and one too large are refused."""
    try:
        # Not blocking, or opening a pipe that nobody writes to would wait for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        problem = f"{what} {path} cannot be read: {error.strerror}"
        raise DataError(problem, "check the path") from error
    state = os.fstat(handle)
    problem, remedy = "", ""
    if not stat.S_ISREG(state.st_mode):
        problem, remedy = "is no regular file", "write it into a file first"
    elif state.st_size > MAX_LIST_BYTES:
        problem = f"has {state.st_size >> 20} MB; at most {MAX_LIST_BYTES >> 20} MB are read"
        remedy = "check that it is not a recording, or split it"
    if problem:
        os.close(handle)
        raise DataError(f"{what} {path} {problem}.", remedy)
    return io.BufferedReader(io.FileIO(handle), _PEEKED)


def read_lines(path: Path) -> Iterator[Line]:
    """Every line that is not blank. Bytes that are no UTF-8 cost their line, not the list."""
    with open_regular(path) as file:
        begin = file.peek()
        if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise DataError(f"The clip list {path} is UTF-16.", "save it as UTF-8")
        end = "\r" if b"\r" in begin and b"\n" not in begin else "\n"  # as Excel for Mac may
        text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline=end)
        number = 0
        while line := text.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                yield Line(number, line[:SHOWN], _TOO_LONG)
                while line and not line.endswith(end):
                    line = text.readline(MAX_LINE)
            elif not line.isspace():
                problem = "" if line.isascii() or is_unicode(line) else _NOT_UTF8
                yield Line(number, line.rstrip("\r\n"), problem)


def split_line(line: Line, mark: str, *, quoted: bool) -> tuple[list[str], str]:
    """A line's columns, and what is wrong with it. Unless `quoted`, a quotation mark is text."""
    if not quoted or '"' not in line.text:
        return line.text.split(mark), line.problem
    try:
        cells = csv.reader([line.text], delimiter=mark, strict=True, skipinitialspace=True)
        return next(cells), line.problem
    except csv.Error as error:
        problem = _SPANS_LINES if "unexpected end" in str(error) else str(error)
        return line.text.split(mark), line.problem or problem


def is_unicode(text: str) -> bool:
    """Whether a text can be written: half a character, or a byte that was no UTF-8, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
