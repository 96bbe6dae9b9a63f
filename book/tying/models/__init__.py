"""Small encoders that fill in a masked symbol or token, one at a time or side by side; tied or not."""
