"""Many processes that train one voice: who they are, how they start, and the one sum a step."""
