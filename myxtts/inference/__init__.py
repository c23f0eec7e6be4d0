"""From a trained model to speech: synthesis, vocoder, and how the result is judged."""
