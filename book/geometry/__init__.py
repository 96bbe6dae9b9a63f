"""Steered gradients, attention without queries, weight trajectories: what the chapters on this paper draw."""
