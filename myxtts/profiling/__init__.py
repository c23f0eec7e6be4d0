"""Measures a run's stages, and says what would make it faster."""
