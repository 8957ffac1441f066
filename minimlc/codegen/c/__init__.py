"""Lowered functions as C."""
