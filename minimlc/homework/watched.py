"""Inputs of a submission that refuse the functions taken away, however they are spelled."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def watched(taken: Mapping[str, tuple[Any, Exception]]) -> type[np.ndarray]:
    """A class of arrays whose methods, operators and functions raise where they are `taken` away:
    numpy's, by name, each with the error for its callers. Results are such arrays, too.
    """
    known = {name: pair for name, pair in taken.items() if name.startswith("numpy.")}
    if not known:
        return np.ndarray

    def refuse(function: Any) -> None:
        for item, refusal in known.values():
            if item is function:
                raise refusal

    class Watched(np.ndarray):
        """An array. Numpy asks it before it computes with it: see numpy's NEP 13 and NEP 18."""

        def __array_ufunc__(
            self, ufunc: Any, method: str, *inputs: Any, out: tuple = (), **options: Any
        ) -> Any:
            refuse(ufunc)
            options = {name: _plain(value) for name, value in options.items()}
            if out:
                options["out"] = tuple(map(_plain, out))
            result = getattr(ufunc, method)(*map(_plain, inputs), **options)
            if out:
                return out[0] if len(out) == 1 else out
            return tuple(map(_seen, result)) if isinstance(result, tuple) else _seen(result)

        def __array_function__(self, func: Any, types: Any, args: Any, options: Any) -> Any:
            refuse(func)
            return super().__array_function__(func, types, args, options)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return self.view(np.ndarray).__reduce_ex__(protocol)

    def _plain(value: Any) -> Any:
        return value.view(np.ndarray) if isinstance(value, Watched) else value

    def _seen(value: Any) -> Any:
        return value.view(Watched) if type(value) is np.ndarray else value

    for name, (_, refusal) in known.items():
        last = name.rpartition(".")[2]
        if callable(getattr(np.ndarray, last, None)):
            setattr(Watched, last, _raising(refusal))
    return Watched


def _raising(refusal: Exception) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> None:
        raise refusal

    return method
