"""The kernel of tied embeddings: what the chapters on this paper draw."""
