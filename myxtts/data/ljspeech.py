"""The published name of `myxtts.data.manifests`: data sets in LJSpeech's format, and others."""

from myxtts.data.manifests import DELIMITERS, Clip, Manifest, read_manifest

__all__ = ["DELIMITERS", "Clip", "Manifest", "read_manifest"]
