"""Every HTML page, its charts, and its words in both languages."""
