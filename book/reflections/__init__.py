"""Context vectors as reflections of word vectors: what the chapters on this paper draw."""
