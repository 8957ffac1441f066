"""Rare primitives, one file for each, called by its name."""
