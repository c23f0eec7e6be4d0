"""How speech is judged: by measures of the audio alone, never by the model's own parts."""
