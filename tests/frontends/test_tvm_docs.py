"""The page for those who come from TVM: its programs run, its names are there."""

import re
from pathlib import Path
from pkgutil import resolve_name

import numpy as np

import minimlc as mlc
import minimlc.frontends.tvm as frontend
from minimlc.frontends.tvm.absent import Absent

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-tvm.md"
TEXT = PAGE.read_text("utf-8")
ROWS = [line.split("|")[1:4] for line in TEXT.splitlines() if line.startswith("| ")][1:]


def names(cell, root):
    """The dotted names in a cell, those in quotes left out."""
    return re.findall(rf'(?<!["\w.]){root}(?:\.\w+)+', cell)


def test_its_programs_run(tmp_path, capsys):
    source = tmp_path / "page.py"
    source.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)), "utf-8")
    scope = {}
    try:
        exec(compile(source.read_text("utf-8"), str(source), "exec"), scope)
    finally:
        frontend.uninstall()
    assert "tvm.auto_scheduler.SearchTask has no counterpart here" in capsys.readouterr().out
    np.testing.assert_allclose(scope["c"], scope["a"] @ scope["b"], rtol=1e-4)


def test_the_names_that_it_gives_are_there():
    assert len(ROWS) > 50
    for _, ours, _ in ROWS:
        for name in names(ours, "mlc"):
            assert resolve_name(name.replace("mlc.", "minimlc:", 1)) is not None, name
    for theirs, _, _ in ROWS:
        for root in ("tvm", "relax", "te"):
            for name in names(theirs, root):
                value = frontend
                for part in name.removeprefix("tvm.").split("."):
                    value = getattr(value, part)
                absent = name in ("relax.get_pipeline", "tvm.cuda")
                assert isinstance(value, Absent) is absent, name


def test_its_steps_are_methods():
    sch = mlc.Schedule(
        mlc.parse("@T.prim_func\ndef f(A: T.Buffer((4,), 'int32')):\n    A[0] = 1\n")
    )
    for _, ours, _ in ROWS:
        for name in names(ours, "sch"):
            assert hasattr(sch, name.removeprefix("sch.")), name
