"""A module is a value: named functions of both levels. A pass takes one and returns one."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, NamedTuple, ParamSpec
from weakref import WeakKeyDictionary

import numpy as np

from minimlc.loops.values.constants import Attributed
from minimlc.loops.values.display import display, mimebundle
from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.node import Node, node, replace

Attrs = tuple[tuple[str, object], ...]


@node
class IRModule(Attributed):
    """Functions by name, in order: `IRModule({"main": func})`. `attrs` are constants by name."""

    entries: tuple[tuple[str, Node], ...]
    attrs: Attrs = ()

    def __init__(
        self,
        functions: Mapping[str, Node] | Iterable[tuple[str, Node]] = (),
        attrs: Attrs | Mapping[str, object] = (),
    ):
        pairs = functions.items() if isinstance(functions, Mapping) else functions
        if not isinstance(pairs, Iterable) or isinstance(pairs, str):
            raise not_a_module(functions, "mlc.IRModule", "functions by name")
        entries = tuple(pairs)
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in entries):
            raise not_a_module(functions, "mlc.IRModule", "functions by name")
        _refuse_modules(entries)
        object.__setattr__(self, "entries", entries)
        named = attrs.items() if isinstance(attrs, Mapping) else attrs
        object.__setattr__(self, "attrs", tuple(named))
        self.__post_init__()

    @classmethod
    def of(cls, functions: Mapping[str, Node]) -> "IRModule":
        """A module of these functions, in the mapping's order."""
        if not isinstance(functions, Mapping):
            why = f"IRModule.of takes functions by name, got {type(functions).__name__}"
            raise CompileError(why, code="E132", hint='mlc.IRModule.of({"main": func})')
        return cls(tuple(functions.items()))

    @classmethod
    def from_expr(cls, func: Attributed) -> "IRModule":
        """A module of one function, under its `global_symbol`, else "main"."""
        if not isinstance(func, Attributed) or isinstance(func, IRModule):
            raise not_a_module(func, "IRModule.from_expr", "a function")
        return cls({global_symbol(func): func})

    @property
    def functions(self) -> Mapping[str, Node]:
        """The functions by name (a read-only view)."""
        table = _TABLES.get(self)
        if table is None:
            table = _TABLES[self] = MappingProxyType(dict(self.entries))
        return table

    def __getitem__(self, name: str) -> Node:
        if isinstance(name, np.ndarray):
            why = "functions are looked up by name, got an array"
            hint = f"the name first: {', '.join(map(repr, self.functions))}"
            raise CompileError(why, code="E105", hint=hint)
        func = self.functions.get(name)
        if func is None:
            hint = did_you_mean(name, self.functions)
            raise CompileError(f'the module has no function "{name}"', code="E105", hint=hint)
        return func

    def __getattr__(self, name: str) -> Node:
        if name in ("_digest", "span") or name.startswith("__") or name not in self.functions:
            raise AttributeError(f"a module has no attribute {name!r}")
        raise AttributeError(f'functions are looked up by name: mod["{name}"]')

    def __contains__(self, name: object) -> bool:
        return name in self.functions

    def with_function(self, name: str, func: Node) -> "IRModule":
        """This module with `name` added, or replaced in its place."""
        return self.with_functions({**self.functions, name: func})

    def with_functions(self, functions: Mapping[str, Node]) -> "IRModule":
        """A module of other functions; this one if they are the very same, in the same order."""
        same = [*functions] == [*self.functions]
        same = same and all(functions[name] is func for name, func in self.entries)
        return self if same else IRModule(functions, self.attrs)

    def without(self, name: str) -> "IRModule":
        """This module less the function `name`."""
        self[name]
        return replace(self, entries=[(k, f) for k, f in self.entries if k != name])


def _refuse_modules(entries: tuple[tuple[str, Node], ...]) -> None:
    """Refuse a module among the functions: `CompileError` E132."""
    for name, func in entries:
        if isinstance(func, IRModule):
            why = f'mlc.IRModule takes functions by name, got a module as "{name}"'
            inner = next(iter(func.functions), "f")
            raise CompileError(why, code="E132", hint=f'mlc.IRModule({{"{name}": mod["{inner}"]}})')


RESERVED = "reserved names"
"""The attribute of a part of a module that names functions of the other part."""


def reserved_names(mod: IRModule) -> tuple[str, ...]:
    """The names that no new function of a module may have, besides those of its functions."""
    names: Any = dict(mod.attrs).get(RESERVED, ())
    return tuple(map(str, names))


def global_symbol(func: Attributed) -> str:
    """The name in a function's attribute `global_symbol`, "main" without one."""
    return str(dict(func.attrs).get("global_symbol", "main"))


_TABLES: WeakKeyDictionary[IRModule, Mapping[str, Node]] = WeakKeyDictionary()


def not_a_module(
    value: object, verb: str, takes: str = "a module or a function", error: type = CompileError
) -> CompileError:
    """The error for anything else in the place of a module."""
    why = f"{verb} takes {takes}, got {type(value).__name__}"
    hint = "mlc.parse(text) and @I.ir_module make modules"
    if isinstance(value, type):
        why, hint = f"{value.__name__} is a plain class", "put @I.ir_module above it"
    elif isinstance(getattr(value, "mod", None), IRModule):
        hint = f"{verb}(x.mod), where x is this {type(value).__name__}"
    elif isinstance(value, Node):
        hint = 'mlc.IRModule({"main": func})  # a module of one function'
    return error(why, code="E132", hint=hint)


Pass = Callable[[IRModule], IRModule]
Rest = ParamSpec("Rest")


def module_pass(
    transform: Callable[Concatenate[IRModule, Rest], IRModule],
) -> Callable[Concatenate[IRModule, Rest], IRModule]:
    """A pass that refuses anything but a module."""

    @wraps(transform)
    def checked(mod: IRModule, *args: Rest.args, **options: Rest.kwargs) -> IRModule:
        if not isinstance(mod, IRModule):
            raise not_a_module(mod, transform.__name__, "a module")
        return transform(mod, *args, **options)

    return checked


class Step(NamedTuple):
    """One step of a history: what was done, the module after it, and how long it took."""

    name: str
    mod: IRModule
    seconds: float


class History:
    """Every version of a module on the way through a pipeline or a schedule.

    Pass one as `run_passes(mod, passes, observe=history)` to fill it, then `history.show()`.
    """

    def __init__(self, steps: Iterable[Step] = ()):
        self.steps = list(steps)

    def __call__(self, name: str, before: IRModule, after: IRModule, seconds: float) -> None:
        if not self.steps:
            self.steps.append(Step("start", before, 0.0))
        self.steps.append(Step(name, after, seconds))

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, number: int) -> Step:
        return self.steps[number]

    def __repr__(self) -> str:
        lines = [f"{n:3}  {step.name}" for n, step in enumerate(self.steps)]
        return "\n".join(lines)

    show = display
    _repr_mimebundle_ = mimebundle


Observer = Callable[[str, IRModule, IRModule, float], None]


def run_passes(mod: IRModule, passes: Iterable[Pass], observe: Observer | None = None) -> IRModule:
    """Apply passes in order. `observe(name, before, after, seconds)` is called after each."""
    for transform in _checked(mod, passes):
        start = time.perf_counter()
        after = transform(mod)
        seconds = time.perf_counter() - start
        _check_returned(after, transform)
        if observe is not None:
            observe(pass_name(transform), mod, after, seconds)
        mod = after
    return mod


def _check_returned(value: object, transform: Pass) -> None:
    if not isinstance(value, IRModule):
        why = f'the pass "{pass_name(transform)}" returned {type(value).__name__}, not a module'
        raise CompileError(why, code="E132", hint="a pass ends with `return mod`")


def _checked(mod: object, passes: Any) -> list[Pass]:
    """The passes; refuses anything but a module and a list of functions."""
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "run_passes", "a module")
    return pass_list(passes)


def pass_list(passes: Any) -> list[Pass]:
    """The passes of a pipeline; `CompileError` E132 for anything but several functions."""
    several = isinstance(passes, Iterable) and not callable(passes) and not isinstance(passes, str)
    listed = list(passes) if several else [passes]
    for item in listed:
        if not (several and callable(item)):
            what = f"the function {pass_name(item)}" if callable(item) else repr(item)
            why = f"passes are a list of functions of a module, got {what}"
            hint = "mlc.run_passes(mod, [mlc.passes.legalize])"
            alone = " itself" if callable(item) else ""
            raise CompileError(f"{why}{alone}", code="E132", hint=hint)
    return listed


def pass_name(transform: Pass) -> str:
    """A pass's name: its function's, also behind `functools.partial`; `recipes.apply` in full."""
    inner = getattr(transform, "func", transform)
    name = getattr(inner, "__name__", type(inner).__name__)
    return f"{inner.__module__.rsplit('.', 1)[-1]}.apply" if name == "apply" else name
