"""Processes apart: work that may crash, hang or flood runs in a separate one, within limits."""
