"""Automatic optimization: programs tried, measured and remembered."""

from minimlc.services.build import use_database as use
from minimlc.tune.database import Database, Record
from minimlc.tune.features import features
from minimlc.tune.measure import Runner
from minimlc.tune.outcome import Trial, Tuned
from minimlc.tune.records import Candidate, Result, TuneError
from minimlc.tune.search import search
from minimlc.tune.spaces import usual
from minimlc.tune.tasks import Task, TunedModel, search_model, tasks

__all__ = [
    "Candidate",
    "Database",
    "Record",
    "Result",
    "Runner",
    "Task",
    "Trial",
    "TuneError",
    "Tuned",
    "TunedModel",
    "features",
    "search",
    "search_model",
    "tasks",
    "use",
    "usual",
]
