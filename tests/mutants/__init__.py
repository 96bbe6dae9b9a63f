"""Planted lies: one wrong line at a time in instruments and ledger, and the tests that must notice."""
