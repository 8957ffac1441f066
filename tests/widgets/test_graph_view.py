"""Drawings of graph functions: nodes, groups, edges between scopes, profiles, what is refused."""

import time

import numpy as np
import pytest
from minimlc_widgets import GraphView
from minimlc_widgets.graphs import Drawing

import minimlc as mlc
from minimlc.graphs.passes import fuse_ops, legalize
from minimlc.loops.values.errors import CompileError
from tests.deploy.graphs import graph, mlp, op, transformer
from tests.widgets.values import net, timed


def edges(drawing: Drawing, scope: int = 0) -> list[tuple[str, str]]:
    """The edges of a scope by the names of values."""
    value = [node.value for node in drawing.nodes]
    return sorted((value[a], value[b]) for a, b in drawing.edges[scope])


def test_the_text_is_what_is_computed():
    assert GraphView(net()).text().splitlines() == [
        "main: 6 operators",
        "  a: float32[2, 4] = dense(x, w)",
        "    lv: float32[2, 4] = matmul(x, w)",
        "    lv1: float32[2, 4] = relu(lv)",
        "  b: float32[2, 4] = softmax(a, axis=-1)",
        "  d: float32[2, 4] = add(b, x)",
        "  c: float32[2, 4] = dense(d, w)",
        "    lv: float32[2, 4] = matmul(x, w)",
        "    lv1: float32[2, 4] = relu(lv)",
        "  result: float32[2, 4], float32[2, 4]",
    ]


def test_edges_are_what_reads_what():
    drawing = Drawing(net(), "main")
    assert edges(drawing) == [
        ("a", "b"),
        ("a", "result"),
        ("b", "d"),
        ("c", "result"),
        ("d", "c"),
        ("w", "a"),
        ("w", "c"),
        ("x", "a"),
        ("x", "d"),
    ]
    assert edges(drawing, 1) == edges(drawing, 2) == [("lv", "lv1"), ("w", "lv"), ("x", "lv")]


BLOCKS = """
@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        a = R.add(x, x)
        b = R.multiply(a, x)
        R.output(a, b)
    c = R.call_dps_packed("tests.graph_view", (b,), out_sinfo=R.Tensor((2,), "float32"))
    with R.dataflow():
        d = R.add(a, c)
        e = R.nn.relu(d)
        R.output(e)
    return e
"""


def test_blocks_are_groups_and_what_comes_in_has_an_entry():
    drawing = Drawing(mlc.parse(BLOCKS), "main")
    names = [drawing.nodes[group].value for group in drawing.parents[1:]]
    assert names == ["dataflow 0", "dataflow 2"]
    first, second = names
    assert set(edges(drawing)) == {
        ("x", first), (first, "c"), ("c", second), (first, second), (second, "result"),
    }  # fmt: skip
    assert set(edges(drawing, 1)) == {("x", "a"), ("x", "b"), ("a", "b")}
    assert edges(drawing, 2) == [("a", "d"), ("c", "d"), ("d", "e")]


def test_fields_of_tuples_are_told_apart():
    mod = mlc.parse(
        """
@R.function
def main(p: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))):
    a = R.add(p[0], p[1])
    t = (a, p[0])
    b = R.nn.relu(t[0])
    return b
"""
    )
    assert edges(Drawing(mod, "main")) == [("a", "b"), ("b", "result"), ("p", "a")]


def test_a_function_that_calls_itself_stays_closed():
    looped = mlc.IRModule({"dense": net()["main"]})  # its calls of "dense" are now of itself
    drawing = Drawing(looped, "dense")
    assert len(drawing.edges) == 1
    assert [n.kind for n in drawing.nodes if n.name == "dense"] == ["operator", "operator"]


@pytest.mark.parametrize("make", [mlp, transformer])
def test_nodes_of_models_are_their_calls(make):
    for mod in (make(), mlc.run_passes(make(), [legalize, fuse_ops])):
        drawing = Drawing(mod, "main")
        drawn = [
            n.value for n in drawing.nodes if n.scope == 0 and n.kind not in ("entry", "result")
        ]
        assert drawn == [b.var.name for b in mod["main"].bindings() if hasattr(b.value, "op")]
        for own, (layers, _) in drawing.layouts():
            assert set(range(len(own))) <= {at for layer in layers for at in layer}


def test_a_profile_gives_kernels_their_times():
    mod = mlc.run_passes(mlp(), [legalize, fuse_ops])
    names = [b.value.callee for b in mod["main"].bindings()]
    view = GraphView(mod, profile=timed(*names))
    known = {n["name"]: (n["seconds"], n["bytes"]) for n in view.nodes if "seconds" in n}
    assert known == {names[0]: (1e-6, 64), names[1]: (2e-6, 128)}
    assert "<td>1 µs</td><td>64</td>" in view.page
    assert "µs" not in view.static_html() + view.text(), "these are compared from run to run"


def test_a_library_and_its_own_profile():
    lib = mlc.build(mlp())
    profile = lib.profile("main", np.ones((3, 6), np.float32))
    view = GraphView(lib, profile=profile)
    assert [view.drawing.nodes[n].name for n in view.times] == [k.name for k in profile.kernels]
    assert len(view.times) == len(lib.plan("main").live) > 1


def test_groups_open_by_name():
    assert GraphView(net()).opened == []
    assert GraphView(net(), open=True).opened == GraphView(net(), open=["dense"]).opened
    with pytest.raises(CompileError, match='no group is called "dance"'):
        GraphView(net(), open="dance")


def test_refused():
    with pytest.raises(CompileError, match="which function to show") as error:
        GraphView(mlc.IRModule({"a": net()["dense"], "b": net()["dense"]}))
    assert error.value.code == "E105"
    with pytest.raises(CompileError, match='no graph function is called "mian"'):
        GraphView(net(), "mian")
    with pytest.raises(CompileError, match="no graph function to show"):
        GraphView(mlc.IRModule())
    with pytest.raises(
        CompileError, match="expected a module, a library or a graph function, got int"
    ):
        GraphView(3)
    with pytest.raises(CompileError, match="profile= takes a profile, got int"):
        GraphView(net(), profile=3)
    with pytest.raises(CompileError, match='the profile\'s kernels are not those of "main"'):
        GraphView(net(), profile=timed("dense", "sparse"))


def test_two_thousand_nodes():
    def make(x, emit):
        known = [x]
        for n in range(1999):
            known.append(emit(op.add(known[-1], known[-1 - (7 * n) % min(40, len(known))])))
        return op.nn.relu(known[-1])

    mod = graph((4, 4), make)
    start = time.process_time()
    view = GraphView(mod)
    assert time.process_time() - start <= 2, "half a second where nothing else runs"
    assert view.title == "main: 2,000 operators"
    assert "… and 1,801 more" in view.text() and view.text().count("\n") == 201
    assert view.static_html().count("<tr>") == 201
