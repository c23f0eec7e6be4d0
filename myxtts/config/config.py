"""Everything a run can be told, with defaults that run: `XTTSConfig(model, data, training)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from typing_extensions import Self

from myxtts.config.data import DataConfig
from myxtts.config.model import ModelConfig
from myxtts.config.settings import Settings
from myxtts.config.training import TrainingConfig
from myxtts.errors import ConfigError

__all__ = ["DataConfig", "ModelConfig", "TrainingConfig", "XTTSConfig", "load_config"]


class XTTSConfig(Settings):
    """A whole run's settings."""

    model: ModelConfig = Field(default_factory=ModelConfig)
    data: DataConfig = Field(default_factory=DataConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a YAML file; what it leaves out keeps its default."""
        return cls.from_dict(read_yaml(path))

    def to_yaml(self, path: str | Path | None = None) -> str:
        """The settings as YAML text, also written to `path` if given."""
        import yaml

        text = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The sections of a YAML config file, not yet checked."""
    from myxtts.config import yaml_files  # not needed for a --help, which shall be quick

    try:
        values = yaml_files.read_yaml(path)
    except OSError as error:
        raise ConfigError(
            f"The config file {path} cannot be read: {error.strerror}", "check the path"
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"The config file {path} is not valid YAML: {error}",
            "`myxtts train --print-config` prints one",
        ) from error
    if values is None:
        return {}
    sections = list(XTTSConfig.model_fields)
    if not isinstance(values, dict) or not all(
        isinstance(key, str)
        and (value is None or (isinstance(value, dict) and all(isinstance(k, str) for k in value)))
        for key, value in values.items()
    ):
        raise ConfigError(
            f"The config file {path} does not consist of sections with settings.",
            f"write sections {', '.join(sections)}, as `myxtts train --print-config` does",
        )
    return {key: value or {} for key, value in values.items()}


def load_config(path: str | Path | None, overrides: dict[str, Any]) -> XTTSConfig:
    """A YAML file (or the defaults) with overrides like `{"data.batch_size": 8}` on top.

    An override of a preset's name replaces what the file says of the preset's settings: asking for
    `--model-size tiny` must not keep the file's widths.
    """
    values = read_yaml(path) if path is not None else {}
    for dotted, value in overrides.items():
        section, field = dotted.split(".")
        settings = values.setdefault(section, {})
        for preset in (ModelConfig.preset(), TrainingConfig.preset()):
            if field == preset[0]:
                for key in preset[1].get(str(value), {}):
                    settings.pop(key, None)
        settings[field] = value
    return XTTSConfig.from_dict(values)
