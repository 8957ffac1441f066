"""minimlc: a machine-learning compiler that fits in a head."""

from minimlc.node import Mutator, Visitor, structural_equal, structural_hash
from minimlc import printer as _printer  # noqa: F401 (installs itself)
from minimlc.module import History, IRModule, Step, run_passes
