"""Configuration: models with defaults that run, checked in sentences."""
