"""Tying embeddings and the distributional hypothesis: what the chapters on this paper draw."""
