"""Where scripts may stand: files, notebook cells, functions, classes of one name."""

from __future__ import annotations

import linecache
from itertools import count
from textwrap import dedent
from typing import Any

import pytest

from minimlc import IRModule, ScriptError, parse, structural_equal
from minimlc.loops.values.errors import MAX_LINES
from minimlc.script import I, R, T

_numbers = count(1)
SIZE = 4


def run_cell(text: str, names: dict[str, Any]) -> str:
    """Run a text as a notebook runs a cell: compiled under a name that only linecache knows."""
    filename, text = f"<cell {next(_numbers)}>", dedent(text).lstrip("\n")
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec", dont_inherit=True), names)
    return filename


def fresh() -> dict[str, Any]:
    return {"I": I, "T": T, "R": R, "__name__": "__main__"}


@I.ir_module
class Same:
    @T.prim_func
    def f(A: T.Buffer((SIZE,), "float32")):
        A[0] = 1.0


first = Same


@I.ir_module
class Same:
    @T.prim_func
    def f(A: T.Buffer((SIZE,), "float32")):
        A[0] = 2.0


def test_classes_of_one_name() -> None:
    assert "T.float32(1)" in first.script()
    assert "T.float32(2)" in Same.script()


def make(size: int, offset: int) -> IRModule:
    @I.ir_module
    class Same:
        @T.prim_func
        def f(A: T.Buffer((size,), "float32")):
            for i in range(size - offset):
                A[i + offset] = 0.0

    return Same


def test_enclosing_functions_and_postponed_annotations() -> None:
    assert "(8,)" in make(8, 1).script()
    assert "range(6)" in make(9, 3).script()


def test_a_function_inside_a_function_alone() -> None:
    size = 6

    @T.prim_func
    def f(A: T.Buffer((size,), "float32")):
        A[size - 1] = 0.0

    @R.function()
    def g(x: R.Tensor((size,), "float32")):
        return R.exp(x)

    assert f.params[0].shape == (6,)
    assert g.attrs == (("global_symbol", "g"),)


CELL = """
    n = {size}

    @I.ir_module
    class Module:
        @T.prim_func
        def f(A: T.Buffer((n,), "float32")):
            for i in range(n):
                A[i] = {value}
"""


def test_cells() -> None:
    names = fresh()
    run_cell(CELL.format(size=4, value="1.0"), names)
    one = names["Module"]
    run_cell(CELL.format(size=5, value="2.0"), names)
    assert "range(4)" in one.script()
    assert "range(5)" in names["Module"].script()


def test_two_classes_of_one_name_in_one_cell() -> None:
    names = fresh()
    text = dedent(CELL)
    both = text.format(size=3, value="1.0") + "first = Module\n" + text.format(size=7, value="2.0")
    run_cell(both, names)
    assert "range(3)" in names["first"].script()
    assert "range(7)" in names["Module"].script()


def cell_error(text: str) -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        run_cell(text, fresh())
    shown = str(caught.value)
    assert len(shown.split("\n")) <= MAX_LINES
    assert caught.value.span is not None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value


@pytest.mark.parametrize(
    ("annotation", "token", "word"),
    [
        ('T.Bufer((4,), "float32")', "Bufer", "Buffer"),
        ('T.Buffer((4,), "flot32")', '"flot32"', "float32"),
        ('T.Buffer((4,), dtyp="float32")', "dtyp", "dtype"),
    ],
)
def test_errors_in_annotations_that_python_evaluates(
    annotation: str, token: str, word: str
) -> None:
    error = cell_error(
        f"""
        @I.ir_module
        class Module:
            @T.prim_func
            def f(A: T.Buffer((4,), "float32"),
                  B: {annotation}):
                A[0] = 0.0
        """
    )
    assert error.span is not None
    assert error.span.line == 5
    assert error.span.text[error.span.column : error.span.end_column] == token
    assert word in str(error)


@pytest.mark.parametrize(
    ("annotation", "word"),
    [
        ('R.Tensr((4,), "float32")', "Tensor"),
        ('R.Tensor((4,), "flot32")', "float32"),
        ('R.Tensor((4,), dtyp="float32")', "dtyp"),
        ('R.Tensor((4.5,), "float32")', "integer"),
        ("R.Tuple(3)", "type"),
    ],
)
def test_errors_in_types_that_python_evaluates(annotation: str, word: str) -> None:
    error = cell_error(f"@R.function\ndef f(x: {annotation}):\n    return x")
    assert error.span is not None
    assert error.span.line == 2
    assert error.span.text[error.span.column : error.span.end_column] in annotation
    assert word in str(error)


def test_a_misspelt_decorator() -> None:
    error = cell_error("@I.ir_modul\nclass M:\n    pass")
    assert '"ir_module"' in str(error)
    error = cell_error("@I.ir_module\nclass M:\n    @T.primfunc\n    def f():\n        pass")
    assert '"prim_func"' in str(error)


def test_python_without_source() -> None:
    with pytest.raises(ScriptError, match=r"kept no source") as caught:
        exec("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    pass", fresh())
    assert "mlc.parse" in str(caught.value)


def test_the_text_of_python_c_is_not_that_of_an_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since 3.13 it is kept under the name that `exec` gives to every string."""
    text = "import minimlc"
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, [text], "<string>"))
    test_python_without_source()


def test_objects_and_modules_give_constants() -> None:
    names = {**fresh(), "config": type("Config", (), {"width": 6})()}
    run_cell(
        """
        import math
        import minimlc.script as S

        @S.T.prim_func
        def f(A: S.T.Buffer((config.width, 2), "float32")):
            A[0, 0] = S.T.exp(math.inf)
        """,
        names,
    )
    assert names["f"].params[0].shape == (6, 2)


def test_options_of_decorators() -> None:
    names = fresh()
    run_cell(
        """
        @I.ir_module()
        class M:
            @T.prim_func(private=True)
            def f(A: T.Buffer((4,))):
                A[0] = 0.0

        @I.ir_module(check_well_formed=False)
        class N:
            @T.prim_func(private=True, check_well_formed=False, pure=True)
            def f(A: T.Buffer((4,))):
                A[0] = 0.0
            @R.function(pure=False, private=True, check_well_formed=True)
            def main(x: R.Tensor((4,))):
                return x

        @R.function(pure=False)
        def alone(x: R.Tensor((4,))):
            return x
        """,
        names,
    )
    assert isinstance(names["M"], IRModule)
    assert list(names["N"].functions) == ["f", "main"]
    assert parse(names["N"].script()).entries[0][0] == "f"
    with pytest.raises(ScriptError, match="has no argument 'check_wellformed'"):
        parse("@I.ir_module(check_wellformed=True)\nclass M:\n    pass")


def test_in_ipython() -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell.instance()
    try:
        shell.push(fresh())
        result = shell.run_cell(dedent(CELL.format(size=4, value="1.0")))
        assert result.error_in_exec is None
        wrong = shell.run_cell(dedent(CELL.format(size=4, value="x")), store_history=True)
        shown = str(wrong.error_in_exec)
        assert "E122" in shown and "cell In[" in shown
        assert structural_equal(shell.user_ns["Module"], shell.user_ns["Module"])
    finally:
        shells.InteractiveShell.clear_instance()


def test_cells_have_their_number_also_where_no_history_is_kept() -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    wrong = dedent(CELL.format(size=4, value="x"))
    try:
        for kept in (True, False):
            shell = shells.InteractiveShell.instance()
            shell.push(fresh())
            shell.run_cell("first = 1", store_history=kept)
            error = shell.run_cell(wrong, store_history=kept).error_in_exec
            assert "cell In[2], line" in str(error)
            shells.InteractiveShell.clear_instance()
    finally:
        shells.InteractiveShell.clear_instance()
