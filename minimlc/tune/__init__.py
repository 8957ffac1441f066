"""Automatic optimization: programs tried, measured and remembered."""

from minimlc.tune.features import features
from minimlc.tune.records import Candidate, Result
from minimlc.tune.search import Trial, Tuned, search
from minimlc.tune.spaces import usual
from minimlc.tune.tasks import Task, TunedModel, search_model, tasks

__all__ = [
    "Candidate",
    "Result",
    "Task",
    "Trial",
    "Tuned",
    "TunedModel",
    "features",
    "search",
    "search_model",
    "tasks",
    "usual",
]
