"""What acts on programs: writing, rewriting, scheduling, building and timing them.

Its names are minimlc's own: `mlc.build` is `minimlc.compiler.build`.
"""

import minimlc.passes as passes
import minimlc.recipes as recipes
import minimlc.schedule as schedule
from minimlc.graph import op
from minimlc.graph.builder import BlockBuilder
from minimlc.graph.mutator import Mutator
from minimlc.machine.peaks import Peaks, machine_peaks
from minimlc.run import interpret
from minimlc.runtime.build import build
from minimlc.runtime.cache import cache_dir
from minimlc.runtime.parallel import num_threads, set_num_threads
from minimlc.runtime.timing import Timing, time
from minimlc.schedule import Schedule, TensorIntrin, Trace, register_intrin
from minimlc.target import Target
from minimlc.tir import te

__all__ = [
    "BlockBuilder",
    "Mutator",
    "Peaks",
    "Schedule",
    "Target",
    "TensorIntrin",
    "Timing",
    "Trace",
    "build",
    "cache_dir",
    "interpret",
    "machine_peaks",
    "num_threads",
    "op",
    "passes",
    "recipes",
    "register_intrin",
    "schedule",
    "set_num_threads",
    "te",
    "time",
]
