"""Questions about models that people use: Gemma 3 270M, MiniLM, GloVe 6B."""
