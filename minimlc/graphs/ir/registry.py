"""Python functions that a module calls by name, in destination-passing style.

    @register_func("env.linear")
    def linear(x, w, b, out):
        out[:] = x @ w.T + b

The registry is the one table that outlives a call: names are the caller's, so a module stays data.
"""

from collections.abc import Callable
from typing import Any

from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.parts import Hook

Function = Callable[..., Any]
_FUNCTIONS: dict[str, Function] = {}
LIBRARIES = Hook[Any]("libraries")
"""Parts that register functions of other libraries, at the latest when one is looked up."""
_PREFIXES = ("numpy.", "torch.")
"""The prefixes of their names."""


def register_func(name: str, func: Function | None = None, *, override: bool = False) -> Any:
    """Make `func` callable as `name` from `R.call_dps_packed`; also a decorator.

    It is called with the input arrays, then with the output arrays, which it fills. It must leave
    the inputs as they are: they are the caller's own memory, not copies. `CompileError` for a
    name that is taken, unless `override` is set or the same definition ran again, as when a
    notebook cell is repeated.
    """
    if not isinstance(name, str):
        why = "a registered function needs a name"
        raise CompileError(why, code="E614", hint='@mlc.register_func("env.linear")')

    def register(function: Function) -> Function:
        if not callable(function):
            why = f'"{name}" must be a function, got {function!r:.60}'
            raise CompileError(why, code="E614", hint=f'@mlc.register_func("{name}")')
        taken = _FUNCTIONS.get(name)
        if taken is not None and not override and not _same_source(taken, function):
            hint = f'register_func("{name}", override=True) replaces it'
            raise CompileError(f'a function "{name}" is registered already', code="E615", hint=hint)
        _FUNCTIONS[name] = function
        return function

    return register if func is None else register(func)


def _same_source(old: Function, new: Function) -> bool:
    """Whether `new` is `old` defined once more, as when a notebook cell is run again."""
    names = ("__module__", "__qualname__")
    return all(getattr(old, n, old) == getattr(new, n, new) for n in names)


def get_function(name: str) -> Function:
    """The function registered as `name`; `CompileError` with near misses for an unknown name."""
    if name not in _FUNCTIONS and name.startswith(_PREFIXES):
        list(LIBRARIES)  # whose functions are registered then
    if name not in _FUNCTIONS:
        hint = did_you_mean(name, _FUNCTIONS) or f'@mlc.register_func("{name}")'
        raise CompileError(f'no function is registered as "{name}"', code="E614", hint=hint)
    return _FUNCTIONS[name]


def registered() -> tuple[str, ...]:
    """The names of all registered functions, in order of registration."""
    return tuple(_FUNCTIONS)
