"""The base of every config section: checked at every assignment, refused in sentences."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from typing_extensions import Self

from myxtts.errors import ConfigError


class Settings(BaseModel):
    """A group of settings. A misspelt one is refused, not ignored."""

    model_config = ConfigDict(
        extra="forbid", validate_assignment=True, allow_inf_nan=False, defer_build=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads `yes` as true, and true would pass for the number 1."""
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and "bool" not in str(field.annotation):
            raise ValueError("must not be true or false")
        return value

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _in_sentences(error, type(self)) from error

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            raise _in_sentences(error, type(self)) from error

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from plain values, as a YAML file gives them."""
        return cls(**values)


class PresetSettings(Settings):
    """Settings of which one names a preset for others; those given explicitly win."""

    @classmethod
    def preset(cls) -> tuple[str, dict[str, dict[str, Any]]]:
        """The name of the preset's field, and the table."""
        raise NotImplementedError

    def __init__(self, **values: Any) -> None:
        field, table = self.preset()
        chosen = values.get(field, type(self).model_fields[field].default)
        super().__init__(**{**table.get(str(chosen), {}), **values})

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        field, table = self.preset()
        if name == field:
            for key, preset_value in table[value].items():
                super().__setattr__(key, preset_value)


def _in_sentences(error: ValidationError, owner: type[BaseModel]) -> ConfigError:
    problems = []
    for detail in error.errors():
        labelled = any(map(_is_label, detail["loc"]))
        if labelled and detail["type"] in ("tuple_type", "int_type"):
            continue  # one value or several: what was given is of the other kind
        inner = detail.get("ctx", {}).get("error")
        name = ".".join(str(part) for part in detail["loc"] if not _is_label(part))
        if isinstance(inner, ConfigError):  # a section already said it in words
            problems.append(_prefixed(inner.problem, name))
        elif detail["type"] in ("extra_forbidden", "no_such_attribute"):
            problems.append(_unknown(name, owner))
        else:
            rule = detail["msg"].replace("Input should be", "must be").removeprefix("Value error, ")
            problems.append(f"{name} {rule}, and is {detail['input']!r}.")
    return ConfigError(
        "\n".join(problems), "correct the value; `myxtts train --print-config` lists all"
    )


def _is_label(part: int | str) -> bool:
    """Whether this is pydantic's name for one of several kinds, such as `constrained-int`."""
    return isinstance(part, str) and ("-" in part or "[" in part)


def _prefixed(problem: str, section: str) -> str:
    return "\n".join(f"{section}.{line}" for line in problem.splitlines())


def _unknown(name: str, owner: type[BaseModel]) -> str:
    known = list(owner.model_fields)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}."
    return f"{name} is not a known setting{hint}"
