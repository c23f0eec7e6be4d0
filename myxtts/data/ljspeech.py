"""The published name of `myxtts.data.manifests`: data sets in LJSpeech's format, and others."""

from myxtts.data.list_forms import Clip
from myxtts.data.list_lines import DELIMITERS
from myxtts.data.manifests import Manifest, read_manifest

__all__ = ["DELIMITERS", "Clip", "Manifest", "read_manifest"]
