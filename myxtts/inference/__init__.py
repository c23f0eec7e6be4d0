"""Speaks: from a trained model to audio."""
