"""Random projections resize a transformer: what the chapters on this paper draw."""
