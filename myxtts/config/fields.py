"""A setting and everything that is known of it, in one place: `setting()`.

The command line, `configs/config.yaml`, the reference in both languages and every command printed
for a user are made from it.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

Group = Literal["Data", "Batches", "Model", "Devices", "Buffers", "Training", "Run folder"]

# The headings under which flags are listed, in their order, with their Persian.
GROUPS: Final[dict[Group, str]] = {
    "Data": "داده",
    "Batches": "دسته‌ها",
    "Model": "مدل",
    "Devices": "دستگاه‌ها",
    "Buffers": "بافرها",
    "Training": "آموزش",
    "Run folder": "پوشهٔ اجرا",
}


class Switch(NamedTuple):
    """A flag without a value, which gives a setting one of its values."""

    value: Any
    flag: str
    help: str
    fa: str


def setting(
    default: Any,
    help: str,
    *,
    fa: str,
    flag: str = "",
    switches: tuple[Switch, ...] = (),
    group: Group | None = None,
    unit: str = "",
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """A field of a config section: its default, its help, and that in Persian.

    `flag` is what people type, with a name for its value where the type tells none: "--lr" or
    "--train-data DIR". A flag or a switch is listed under `group`.
    """
    known: dict[str, Any] = {"fa": fa, "flag": flag, "switches": switches}
    known |= {"group": group, "unit": unit}
    return Field(default, description=help, json_schema_extra=known, le=le, lt=lt)


@dataclass(frozen=True)
class Setting:
    """What is known of one setting."""

    name: str  # dotted: "data.batch_size"
    type: Any  # without None
    default: Any
    help: str
    fa: str
    flag: str
    metavar: str
    switches: tuple[Switch, ...]
    group: Group | None
    unit: str

    def read(self, config: BaseModel) -> Any:
        """Its value in a whole config."""
        section, field = self.name.split(".")
        return getattr(getattr(config, section), field)


def settings_of(config: type[BaseModel]) -> Iterator[Setting]:
    """Every setting of a config's sections, in order."""
    for section, outer in config.model_fields.items():
        assert isinstance(outer.annotation, type)
        assert issubclass(outer.annotation, BaseModel)
        for name, field in outer.annotation.model_fields.items():
            yield _describe(f"{section}.{name}", field)


def _describe(name: str, field: FieldInfo) -> Setting:
    known: dict[str, Any] = dict(field.json_schema_extra)  # type: ignore[arg-type]
    kind = _given_type(field.annotation)
    switches, (flag, _, metavar) = known["switches"], known["flag"].partition(" ")
    if kind is bool and flag:
        switches, flag = (Switch(True, flag, field.description or "", known["fa"]),), ""
    return Setting(
        name=name,
        type=kind,
        default=field.default,
        help=field.description or "",
        fa=known["fa"],
        flag=flag,
        metavar=metavar or known["unit"].upper() or _metavar(kind),
        switches=switches,
        group=known["group"],
        unit=known["unit"],
    )


def _given_type(annotation: Any) -> Any:
    """The type of a value that is given: `int` of `PositiveInt | None`, the last of several."""
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [part for part in get_args(annotation) if part is not types.NoneType]
        return _given_type(kinds[-1])  # of one or several, the several
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return {int: "N", float: "X"}.get(kind, "PATH")
