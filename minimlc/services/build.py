"""`build`: a module becomes a library of callable functions."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from minimlc.graphs.ir.nodes import JOINTS, Call, Function, reached
from minimlc.graphs.passes import default_pipeline, for_target, scheduling
from minimlc.graphs.plan import Plan, plan
from minimlc.loops.ir.arguments import parameters_of
from minimlc.loops.ir.nodes import PrimFunc, SymbolicFunc
from minimlc.loops.llvm.kernel import NativeCode, backend, machine_of
from minimlc.loops.llvm.value import symbol
from minimlc.loops.lower.bounds import Site
from minimlc.loops.proofs.verify import verify, warn_of_races
from minimlc.loops.values.errors import BuildError, check_flags, did_you_mean, shown
from minimlc.loops.values.module import (
    RESERVED,
    IRModule,
    Pass,
    not_a_module,
    pass_list,
    run_passes,
)
from minimlc.loops.values.node import Node, nodes_of
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.process import collector_paused
from minimlc.loops.values.target import TARGETS, Target
from minimlc.services.caches.caches import Caches
from minimlc.services.native.entry import entry_symbol
from minimlc.services.native.entry_points import entry_texts
from minimlc.services.native.in_place import sharing
from minimlc.services.native.native import Jobs, Unit, code_name, compile_native, units_of
from minimlc.services.runtime.executable import (
    Kernel,
    NativeGraph,
    SteppedGraph,
    functions_of,
    library,
    to_read,
)
from minimlc.services.runtime.foreign import missing_features
from minimlc.services.runtime.library import C_TEXTS, Library, Stored
from minimlc.services.sizes.kernels import family
from minimlc.services.sizes.specialize import instance_of
from minimlc.services.sizes.symbolic_graphs import is_family

BOUNDS = ("check",)


@collector_paused()
def build(
    mod: IRModule | PrimFunc | SymbolicFunc | Function,
    target: str | Target = "llvm",
    *,
    bounds: str | None = None,
    recipes: bool = True,
    cache: bool = True,
    pipeline: Sequence[Pass] | None = None,
    database: Any = None,
) -> Library:
    """Compile a module (or one function, then called "main") for a target.

    Primitive functions are compiled as they are. Where graph functions contain operators,
    `pipeline` (the default one, if None) lowers them first, with recipes for the target, and leaves
    out what nothing calls then; `recipes=False` leaves out its schedules. `bounds="check"` makes an
    access outside a buffer an `IndexError`, at a cost. Target "c" compiles with the system's C
    compiler. `cache=False` neither reads nor writes the compile cache. With a `database` (or one in
    use for the whole process: `mlc.tune.use`), functions without a schedule get the best one that
    was recorded for this target and machine, else a recipe's. A function of symbolic sizes is
    compiled for each choice of them that a call needs, less what does not depend on them; at the
    ninth choice there is a warning, `mlc.ManySizes`. Raises `BuildError`.
    """
    chosen = Target.of(target)
    if bounds is not None and bounds not in BOUNDS:
        hint = did_you_mean(str(bounds), BOUNDS)
        raise BuildError(f'unknown bounds mode "{bounds}"', code="E505", hint=hint)
    check_flags(BuildError, "E505", "mlc.build(mod", recipes=recipes, cache=cache)
    module, check = _as_module(mod), bounds == "check"
    warn_of_races(module, stacklevel=3)
    symbolic = any(is_family(func) for _, func in module.entries)
    builder, options = _builder(chosen.name), (check, recipes, pipeline, database)
    return Request(chosen, builder, *options, Caches.of(bool(cache), symbolic)).library(module)


class Request(NamedTuple):
    """The options of a build, for all parts of the module. Instances of its functions find in the
    `caches` what does not depend on their sizes.
    """

    target: Target
    builder: "Builder"
    check: bool
    recipes: bool
    pipeline: Sequence[Pass] | None
    database: Any
    caches: Caches

    def library(self, module: IRModule, check: Pass = verify) -> Library:
        """The library of a module, from the cache where it is there; else `check` verifies it."""
        if not self.is_repeatable or not _has_operators(module):
            return self.new_library(check(module))
        steps = _passes(default_pipeline, self.recipes, self.target, ())
        return self.caches.library(
            module, self.target, steps, lambda: self.new_library(check(module))
        )

    @collector_paused()
    def instance(self, module: IRModule) -> Library:
        """The library of an instance, which is verified already."""
        return self.library(module, lambda mod: mod)

    def new_library(self, module: IRModule) -> Library:
        """The library of a module; instances of its symbolic functions are built as calls need
        them: for graph functions as separate modules, from the original functions. So the
        functions that these call stay in the module, and their names are reserved.
        """
        families = {name: f for name, f in module.entries if is_family(f)}
        if not families:
            return self._checked(self.compiled(module))
        needed = reached(module.functions, families, *JOINTS)
        used = {name: f for name, f in module.entries if name in needed}
        rest = _without_families(module, families)
        library = self.compiled(rest.with_attr(RESERVED, tuple(used)))
        functions = {name: library[name] for name in library.names()}
        functions |= {name: family(name, module, self.instance, self.linked) for name in families}
        whole = partial(_with_families, library, {**families, **used}, module)
        return self._checked(library.of(whole, functions))

    def _checked(self, library: Library) -> Library:
        if self.check:
            library.checked = True
        return library

    @property
    def tuned(self) -> Sequence[Pass]:
        """The pass that schedules by a database's records, where there is one."""
        return _tuned(self.database, self.target)

    def compiled(self, module: IRModule) -> Library:
        """The library of a module without symbolic functions, by its pipeline."""
        if self.pipeline is None and not _has_operators(module):
            tuned = self.tuned
            steps = _passes(scheduling, self.recipes, self.target, tuned) if tuned else ()
            return self.linked(verify(run_passes(module, steps)) if steps else module)
        chain = default_pipeline if self.pipeline is None else pass_list(self.pipeline)
        steps = _passes(chain, self.recipes, self.target, self.tuned)
        return self.caches.compiled(module, self.target, steps, self.linked, self.is_repeatable)

    @property
    def is_repeatable(self) -> bool:
        """Whether earlier schedules may be reused: not with a database, whose records may change
        between two builds.
        """
        native = self.builder is _build_native and not self.check
        return native and self.pipeline is None and not self.tuned and sys.platform != "win32"

    def linked(self, module: IRModule, jobs: Jobs | None = None) -> Library:
        """The library of functions of loops, and of graphs that call them."""
        if self.builder is _build_native:
            return _build_native(module, self.target, self.check, self.caches, jobs)
        return self.builder(module, self.target, self.check, self.caches.entries.folder)


def _with_families(library: Library, others: Mapping[str, Node], module: IRModule) -> IRModule:
    """The module of a library, with functions of another module that it has not."""
    there = library.mod.functions
    added = {name: f for name, f in others.items() if name not in there}
    return IRModule({**there, **added}, module.attrs)


def _without_families(module: IRModule, families: Mapping[str, Node]) -> IRModule:
    """The module without its families, and with the instances that its other functions call."""
    rest: dict[str, Node] = {}
    for name, func in module.entries:
        if name not in families:
            alone = not isinstance(func, Function)
            rest |= {name: func} if alone else instance_of(module, name).functions
    return module.with_functions(rest)


Functions = Mapping[str, Callable[..., Any]]
Builder = Callable[[IRModule, Target, bool, bool], Library]
"""The builder for a target: takes a module, the target, and whether to check accesses and cache."""

_ENTERED: dict[str, Builder] = {}


def register_target(name: str, builder: Builder) -> None:
    """Enter a target of your own: `build(mod, target=name)` then calls `builder`.

    `BuildError` for a name that is taken.
    """
    if name in TARGETS:
        raise BuildError(f'there is a target "{name}" already', code="E501")
    TARGETS.append(name)
    _ENTERED[name] = builder


HARDWARE = Hook[Callable[[Mapping[str, PrimFunc], Target], Target]]("hardware")
"""Hooks that take from a target the features of this machine that do not work."""


def _builder(target: str) -> Builder:
    """The builder for a target: LLVM's is here, the others are registered or in `targets`."""
    if target == "llvm":
        return _build_native
    if target in _ENTERED:
        return _ENTERED[target]
    build = Hook[Builder](f"target {target}").first
    if build is None:
        raise BuildError(f'target "{target}" is not installed', code="E502")
    return build


def _as_module(mod: IRModule | PrimFunc | SymbolicFunc | Function) -> IRModule:
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, PrimFunc | SymbolicFunc | Function):
        return IRModule.from_expr(mod)
    raise not_a_module(mod, "build", error=BuildError)


def _has_operators(module: IRModule) -> bool:
    graphs = [func for _, func in module.entries if isinstance(func, Function)]
    return any(call.op not in JOINTS for func in graphs for call in nodes_of(func, Call))


def _passes(
    pipeline: Sequence[Any], scheduled: bool, target: Target, tuned: Sequence[Pass]
) -> Sequence[Pass]:
    """A pipeline's passes; scheduling is by records, by recipes for the target, or left out."""
    steps: list[Pass] = []
    for step in pipeline:
        if step not in scheduling:
            steps += for_target(target, [step])
            continue
        steps += tuned
        if scheduled:
            steps += for_target(target, [step])
    return steps


_USED: list[Any] = []


def use_database(database: Any) -> None:
    """Have every `build` of this process use a database; None for none, as at the start."""
    _tuned(database, Target.host())
    _USED[:] = [] if database is None else [database]


def _tuned(database: Any, target: Target) -> Sequence[Pass]:
    """The pass that schedules by the records of a database, else of the one in use."""
    chosen = [database] if database is not None else _USED
    for item in chosen:
        if not callable(getattr(item, "scheduled", None)):
            why = f"database is a mlc.tune.Database, got {shown(item)}"
            raise BuildError(why, code="E505", hint='mlc.tune.Database("tuning.db")')
    return [partial(item.scheduled, target=target) for item in chosen]


def _build_native(
    module: IRModule,
    target: Target,
    check: bool,
    cache: bool | Caches,
    jobs: Jobs | None = None,
) -> Library:
    """A library of machine code, some of which the caches may have. With `jobs`, code that is being
    compiled, a function's code goes by a name made from what it does, for every module.
    """
    shared = jobs is not None
    caches = Caches.of(cache, False) if isinstance(cache, bool) else cache
    kernels = functions_of(module)
    for trusted in HARDWARE:
        target = trusted(kernels, target)
    graphs = [name for name, func in module.entries if isinstance(func, Function)]
    plans = {name: plan(module, name, in_place=True) for name in graphs}
    over = {name for steps in plans.values() for name in steps.in_place}
    kernels = {name: sharing(f) if name in over else f for name, f in kernels.items()}
    entries = {name: steps for name, steps in plans.items() if steps.native}
    sources = _native_sources(kernels, entries, target, check)
    backend()
    missing = missing_features(target)
    if missing:
        return to_read(module, target, missing, sources)
    named = {name: code_name(f, target) if shared else name for name, f in kernels.items()}
    symbols = {name: symbol(alias) for name, alias in named.items()}
    symbols |= {name: entry_symbol(name) for name in entries}
    codes = {named[name]: f for name, f in kernels.items()}
    extra = entry_texts(entries, named, check)
    exports = list(dict.fromkeys(symbols.values()))
    native = compile_native(
        codes,
        target,
        exports,
        extra=extra,
        check=check,
        entries=caches.entries,
        apart=shared,
        jobs=jobs or {},
    )
    sites, at = native.sites if check else None, native.addresses
    compiled = {
        name: Kernel(name, parameters_of(func), at[symbols[name]], sites, native.library)
        for name, func in kernels.items()
    }

    graph = partial(_graph, {name: at[entry_symbol(name)] for name in entries}, native, sites)
    by_code = dict(zip(codes, native.entries, strict=False))
    stored = None
    if shared:
        about = {n: (code, by_code[code], n in over) for n, code in named.items()}
        stored = Stored(module, native.entries, symbols, about)
    kind = partial(Library, stored=stored)
    return library(module, target, compiled, graph, sources, kind, plans)


def _graph(
    entries: Mapping[str, int],
    code: NativeCode,
    sites: Sequence[Site] | None,
    name: str,
    func: Function,
    plan: Plan,
    known: Functions,
) -> Callable[..., Any]:
    """A graph function: by its entry point's address where it has one, else step by step."""
    if name not in entries:
        return SteppedGraph(name, func, plan, known)
    return NativeGraph(name, func, plan, entries[name], sites, code.library)


def _native_sources(
    kernels: dict[str, PrimFunc], entries: Mapping[str, Plan], target: Target, check: bool
) -> dict[str, Callable[[], str]]:
    """The writers of the code to be read, by language, with the functions' own names."""

    def units(apart: bool) -> list[Unit]:
        extra = entry_texts(entries, {name: name for name in kernels}, check)
        return units_of(kernels, extra, check) if apart else [Unit(kernels, extra)]

    c = {"c": lambda: "".join([write(kernels) for write in C_TEXTS])}
    return {
        "llvm": lambda: units(False)[0].emitted(target, check=check).text,
        "asm": lambda: "\n".join(_assembly(unit, target, check) for unit in units(True)),
        **(c if C_TEXTS.is_filled else {}),
    }


def _assembly(unit: Unit, target: Target, check: bool) -> str:
    text = unit.emitted(target, check=check).text
    return str(backend().compile_assembly(text, machine_of(target)))
