"""Automatic optimization: programs tried, measured and remembered."""

from minimlc.tune.records import Candidate, Result

__all__ = ["Candidate", "Result"]
