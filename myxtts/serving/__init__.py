"""A server that speaks: the API of OpenAI's clients, and Wyoming for Home Assistant."""
