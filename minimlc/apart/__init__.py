"""Processes apart: what may crash, hang or flood runs in one of its own, within limits."""
