"""Automatic optimization: programs tried, measured and remembered."""

from minimlc.runtime.build import use_database as use
from minimlc.tune.database import Database, Record
from minimlc.tune.measure import Runner
from minimlc.tune.records import Candidate, Result, TuneError

__all__ = ["Candidate", "Database", "Record", "Result", "Runner", "TuneError", "use"]
