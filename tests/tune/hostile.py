"""A worker with a target "hostile", whose functions harm their process as their name states."""

import ctypes
import os
import sys
import time

import numpy as np

from minimlc.services.build import register_target
from minimlc.tune.serve import main


def segfault(*arrays):
    ctypes.string_at(0)


def endless_loop(*arrays):
    while True:
        pass


def memory_bomb(*arrays):
    np.ones(8 << 30, np.uint8)


def fork_bomb(*arrays):
    while True:
        os.fork()


def output_flood(*arrays):
    while True:
        os.write(1, b"x" * 65536)


def orphans(*arrays):
    """Leaves a process behind that has left its group, and ends well."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)


def noise(*arrays):
    sys.stdout.write("\udcff{}\n")


def build(module, target, check, cache):
    """A stand-in for a library: a function by the name of the last parameter."""
    kind = module["main"].params[-1].name
    return {"main": globals()[kind]}


if __name__ == "__main__":
    register_target("hostile", build)
    main()
