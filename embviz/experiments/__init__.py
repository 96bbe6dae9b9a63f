"""Experiments: one file a paper, each holding configurations, cells and findings."""
