"""Automatic optimization: programs tried, measured and remembered."""

from minimlc.runtime.build import use_database as use
from minimlc.tune.database import Database, Record
from minimlc.tune.features import features
from minimlc.tune.measure import Runner
from minimlc.tune.records import Candidate, Result, TuneError
from minimlc.tune.search import Trial, Tuned, search
from minimlc.tune.spaces import usual

__all__ = [
    "Candidate",
    "Database",
    "Record",
    "Result",
    "Runner",
    "Trial",
    "TuneError",
    "Tuned",
    "features",
    "search",
    "use",
    "usual",
]
