"""The geometry paper: grokking under projected gradients, and attention without queries."""
