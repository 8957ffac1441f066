"""Index maps: text and functions in, shapes, one-to-one or not, inverses."""

import numpy as np
import pytest

from minimlc.loops.proofs.points import evaluate
from minimlc.services.layouts.index_map import IndexMap
from tests.helpers import refuses


def values_of(layout: IndexMap, extents: tuple[int, ...]) -> np.ndarray:
    """All outputs, one row per input in row-major order."""
    grids = np.indices(extents).reshape(len(extents), -1)
    columns = [evaluate(o, dict(zip(layout.inputs, grids, strict=True))) for o in layout.outputs]
    return np.stack([np.broadcast_to(c, grids.shape[1]) for c in columns], axis=1)


def test_a_function_and_its_text_are_one_map():
    layout = IndexMap.of(lambda i, j: (i // 4, j, i % 4))
    assert str(layout) == "i, j -> i // 4, j, i % 4"
    assert str(IndexMap.of(str(layout))) == str(layout)
    assert str(IndexMap.of(lambda i: 2 * (i + 1) - 3)) == "i -> 2 * (i + 1) - 3"
    assert repr(IndexMap.of(" i ,j->j,\ti,")) == "IndexMap('i, j -> j, i')"


def test_the_shape_is_the_smallest_that_holds_all():
    assert IndexMap.of("i, j -> i // 4, j, i % 4").shape((10, 6)) == (3, 6, 4)
    assert IndexMap.of("i, j -> i * 33 + j").shape((8, 32)) == (7 * 33 + 32,)
    assert IndexMap.of("i -> 7 - i").shape((8,)) == (8,)
    refuses("E146", lambda: IndexMap.of("i -> 6 - i").shape((8,)), "negative", "-1")
    refuses(
        "E146", lambda: IndexMap.of("i -> " + "i * 2000000000" + " * 2000000000" * 3).shape((9,))
    )


INVERTIBLE = [
    ("i, j -> j, i", (3, 5)),
    ("i, j -> i // 4, j, i % 4", (8, 5)),
    ("i, j -> i // 4, j, i % 4", (10, 5)),
    ("i, j -> (i * 8 + j) // 16, (i * 8 + j) % 16", (6, 8)),
    ("i, j -> i * 9 + j", (4, 6)),
    ("i, j -> i + j, j", (4, 6)),
    ("i, j, k -> k * 2 + i % 2, 5 - j, i // 2", (4, 6, 3)),
    ("i -> i % 2, i // 2 % 3, i // 6", (20,)),
    ("i, j -> 3 - i + 4 * j", (4, 2)),
    ("i, j -> (i * 12 + j) // 16, (i * 12 + j) % 16", (16, 12)),
    ("i, j, k -> (i * 30 + j * 6 + k) // 10, (i * 30 + j * 6 + k) % 10", (4, 5, 6)),
    ("i, j -> (i + j) % 16, j", (16, 12)),
    ("i, j -> i, (j + 5 - i) % 6", (4, 6)),
    ("i -> (i + 3) // 4, (i + 3) % 4", (10,)),
    ("i -> (i + 3) % 10 // 2, (i + 3) % 10 % 2", (10,)),
]


@pytest.mark.parametrize(("text", "extents"), INVERTIBLE)
def test_the_inverse_gives_the_inputs_back(text: str, extents: tuple[int, ...]):
    layout = IndexMap.of(text)
    layout.check_one_to_one(extents)
    back = layout.inverse(extents)
    assert back is not None
    outputs = values_of(layout, extents)
    at = dict(zip(back.inputs, outputs.T, strict=True))
    inputs = np.stack([np.broadcast_to(evaluate(o, at), len(outputs)) for o in back.outputs], 1)
    np.testing.assert_array_equal(inputs, np.indices(extents).reshape(len(extents), -1).T)
    assert layout.is_onto(extents) == (len(outputs) == np.prod(layout.shape(extents)))


def test_random_maps_are_called_one_to_one_only_if_they_are():
    rng = np.random.default_rng(0)
    kept = 0
    for _ in range(300):
        extents = tuple(int(n) for n in rng.integers(1, 9, 2))
        pieces = ["i", "j", "i // 2", "i % 2", "j // 3", "j % 3", "i * 3 + j", "i + j", "j * 4"]
        pieces += ["(i * 5 + j) // 4", "(i * 5 + j) % 4", "(i + j) % 7", "(i + 2 * j) % 3"]
        chosen = rng.choice(pieces, rng.integers(1, 4))
        layout = IndexMap.of("i, j -> " + ", ".join(chosen))
        outputs = values_of(layout, extents)
        apart = len(np.unique(outputs, axis=0)) == len(outputs)
        if apart:
            layout.check_one_to_one(extents)
            kept += layout.inverse(extents) is not None
        else:
            assert layout.inverse(extents) is None
            refuses("E146", lambda: layout.check_one_to_one(extents), "would both become")  # noqa: B023
        assert (outputs < layout.shape(extents)).all()
    assert kept > 50


def test_two_elements_that_meet_are_shown():
    error = refuses("E146", lambda: IndexMap.of("i, j -> i + j").check_one_to_one((4, 4)))
    assert error.example == "elements [0, 1] and [1, 0] would both become [1]"
    large = IndexMap.of("i, j -> i * 3 + j * 2")
    refuses("E146", lambda: large.check_one_to_one((2**12, 2**12)), "is not known")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i, j", ('"->"',)),
        ("i, i -> i", ("twice",)),
        ("i, 2 -> i", ("an input is a name",)),
        ("row, col -> rwo", ('did you mean "row"', "^^^")),
        ("i -> i, i / 2", ("+ - * // %", "       ^")),
        ("i -> __import__('os').system('true')", ("+ - * // %",)),
        ("i -> i // 0", ("constant >= 1",)),
        ("i, j -> i * j", ("constant side",)),
        ("i -> i +", ("not expressions",)),
        ("i -> ", ("after the arrow",)),
        ("i -> i, (lambda: 1)", ("+ - * // %",)),
        ("i -> " + "(" * 5000 + "i", ("not expressions",)),
        ("i -> 99999999999999999999", ("+ - * // %",)),
    ],
)
def test_wrong_text_is_marked(text: str, words: tuple[str, ...]):
    refuses("E145", lambda: IndexMap.of(text), *words)


def test_wrong_functions_are_told_so():
    refuses("E145", lambda: IndexMap.of(lambda *indices: indices), "one argument per dimension")
    refuses("E145", lambda: IndexMap.of(lambda i: (i, 1.5)), "not an index")
    refuses("E145", lambda: IndexMap.of(lambda i: i.nothing), "AttributeError")
    refuses("E108", lambda: IndexMap.of(lambda i: i / 2), "use //")
    refuses("E145", lambda: IndexMap.of(lambda i: ()), "at least one")
    refuses("E145", lambda: IndexMap.of(7), "got int")  # type: ignore[arg-type]


def test_maps_do_not_change():
    layout = IndexMap.of("i -> i")
    with pytest.raises(AttributeError):
        layout.inputs = ()  # type: ignore[misc]
