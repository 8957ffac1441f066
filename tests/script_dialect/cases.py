"""Programs as people write them for other compilers, and what they compute."""

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

import minimlc as mlc
from tests.helpers import copies, random_args
from tests.roundtrip import assert_round_trips

Case = tuple[str, str, Callable[..., Any]]
"""Parameters, body, and the numpy function that gives the last parameter's content of all."""


def vectors(dtype: str, size: int = 16) -> str:
    """The parameters A and B, one-dimensional."""
    return f'A: T.Buffer(({size},), "{dtype}"), B: T.Buffer(({size},), "{dtype}")'


def module(params: str, body: str) -> mlc.IRModule:
    """The module of one function, `main`."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return mlc.parse(f"@T.prim_func\ndef main({params}):\n{lines}\n")


def numbered(cases: dict[str, list[Case]]) -> list[Any]:
    """Each construct has at least three programs; the cases of all, each with its construct."""
    assert all(len(programs) >= 3 for programs in cases.values())
    return [(f"{name}-{n}", *case) for name, all_ in cases.items() for n, case in enumerate(all_)]


def check(params: str, body: str, expected: Callable[..., Any]) -> mlc.IRModule:
    """The program is read, prints as text that means the same, and computes what numpy does; the
    interpreter and LLVM agree to the bit.
    """
    mod = module(params, body)
    assert_round_trips(mod)
    mlc.verify(mod)
    args = random_args(mod["main"], np.random.default_rng(0))
    check_call(mod, args, expected)
    return mod


def check_call(mod: mlc.IRModule, args: list[Any], expected: Callable[..., Any]) -> None:
    """`main` of a module, called with `args`, gives what numpy does, interpreted and built."""
    native, result = copies(args), np.broadcast_to(expected(*copies(args)), args[-1].shape)
    mlc.interpret(mod, "main", *args)
    mlc.build(mod)["main"](*native)
    for mine, other in zip(args, native, strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(args[-1], result.astype(args[-1].dtype))
