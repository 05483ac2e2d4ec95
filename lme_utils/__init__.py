"""Helpers for the LongMemEval study: see the README for the map of modules."""
