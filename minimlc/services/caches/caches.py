"""The one way into the caches above object files: whole libraries, functions, schedules.

`kept` has libraries by module, `stubs` functions that were scheduled and compiled before, and
`schedules` functions that instances of one library have in common.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.module import IRModule, Pass, pass_name, run_passes
from minimlc.loops.values.target import Target
from minimlc.services.caches.kept import kept
from minimlc.services.caches.schedules import Schedules
from minimlc.services.caches.stubs import Linked, with_stubs
from minimlc.services.runtime.cache import Entries
from minimlc.services.runtime.library import Library


class Caches(NamedTuple):
    """The caches of one build: the `entries` that it reads and writes, and for the instances of a
    library with symbolic sizes the `schedules` that they share.
    """

    entries: Entries
    schedules: Schedules | None

    @classmethod
    def of(cls, folder: bool, symbolic: bool) -> "Caches":
        """Caches in the cache folder, if that may be used, and in memory for symbolic sizes."""
        return cls(Entries(folder, {} if symbolic else None), Schedules() if symbolic else None)

    def library(
        self, mod: IRModule, target: Target, steps: Sequence[Pass], build: Callable[[], Library]
    ) -> Library:
        """The library that `build` returns for a module and a pipeline, from the folder if it has
        an equal one.
        """
        if not self.entries.folder:
            return build()
        return kept(mod, target, " ".join(map(pass_name, steps)), build)

    def compiled(
        self, mod: IRModule, target: Target, steps: Sequence[Pass], link: Linked, repeatable: bool
    ) -> Library:
        """The library of a module after a pipeline. Where that is `repeatable`, functions in the
        entries are neither scheduled nor compiled; else the schedules of other instances are taken.
        """
        if self.entries and repeatable:
            return with_stubs(mod, target, steps, link, self.entries)
        steps = self.schedules.remembered(steps) if self.schedules else steps
        return link(verify(run_passes(mod, steps)), None)
