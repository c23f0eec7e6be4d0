"""Built-in corpora, spoken by espeak-ng."""
