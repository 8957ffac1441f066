"""Lowered functions as Python source."""
