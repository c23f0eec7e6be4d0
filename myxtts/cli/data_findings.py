"""Prints what an audit found: each finding, some of its clips, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from myxtts.cli.output import echo
from myxtts.messages import harmless

if TYPE_CHECKING:
    from myxtts.recordings.audit import Finding

EXAMPLES = 3
NAME_LENGTH = 40


def print_findings(findings: Iterable[Finding]) -> None:
    """A line each, its examples and its remedy."""
    for finding in findings:
        names = ", ".join(harmless(name)[:NAME_LENGTH] for name in finding.clips[:EXAMPLES])
        echo(f"Warning: {harmless(finding.detail)}" + (f" For example {names}" if names else ""))
        for sentence in finding.say:
            echo(f"    {sentence}")
        echo(f"  try: {finding.remedy}")
