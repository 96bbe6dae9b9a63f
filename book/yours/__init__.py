"""The chapter *Yours*: functions for a reader's text, vectors, model or run."""
