"""Files of models: weights by name in any format, read an array at a time, and GGUF with its tokens."""
