"""Every module and function printed anywhere in the tests must parse back structurally equal.

The fixture here watches the printer while a test runs, and checks at its end what was printed.
A module that `mlc.verify` refuses, as tests of refusals make, is exempt.
"""

from collections.abc import Iterator

import pytest

from minimlc import IRModule, structural_equal, structural_hash, verify
from minimlc.graphs.ir.nodes import Function
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.printer import script
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import Node, install_printer
from tests.roundtrip import reparsed

_checked: set[str] = set()


@pytest.fixture(autouse=True)
def everything_printed_parses_back() -> Iterator[None]:
    """Record what the test prints; parse it back when the test is over."""
    printed: dict[int, Node] = {}

    def recording(item: Node, full: bool = True, constants: str = "names") -> str:
        if isinstance(item, IRModule | PrimFunc | Function):
            printed[id(item)] = item
        return script(item, full, constants)

    install_printer(recording)
    yield
    install_printer(script)
    for item in printed.values():
        _check(item)


def _check(item: Node) -> None:
    key = structural_hash(item)
    if key in _checked:
        return
    try:
        same, why = structural_equal(reparsed(item), item), "it parses back to something else"
    except CompileError as error:
        same, why = False, str(error)
    if not same and well_formed(item):
        pytest.fail(f"printed, but does not parse back: {why}\n{item.script()}", pytrace=False)
    _checked.add(key)


def well_formed(item: Node) -> bool:
    """Whether `mlc.verify` accepts a module or a function."""
    mod = item if isinstance(item, IRModule) else IRModule.of({"main": item})
    try:
        verify(mod)
    except CompileError:
        return False
    return True
