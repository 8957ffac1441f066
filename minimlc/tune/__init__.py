"""Automatic optimization: programs tried, measured and remembered."""

from minimlc.tune.features import features
from minimlc.tune.records import Candidate, Result
from minimlc.tune.search import Trial, Tuned, search
from minimlc.tune.spaces import usual

__all__ = ["Candidate", "Result", "Trial", "Tuned", "features", "search", "usual"]
