"""The chapter *Yours*: the doors for a text, vectors, a model or a run of the reader's."""
