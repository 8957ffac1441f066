import math

import pytest

import minimlc as mlc
from minimlc import te
from tests.helpers import assert_same, refuses
from tests.recipes.programs import matmul

MM = matmul(12, 8, 6)


def space(sch):
    """A tile of j, and a k that is written out or not."""
    i, j, k = sch.loops("C")
    sch, factors = sch.sample_perfect_tile(j, 2)
    sch = sch.split(j, factors)
    _, outer, inner, _ = sch.loops("C")
    sch = sch.reorder(i, outer, k, inner)
    sch, written = sch.sample_categorical(["no", "yes"], [0.25, 0.75], name="unroll")
    return sch.unroll(k) if written == "yes" else sch


def test_a_space_without_a_key_takes_first_choices():
    assert space(mlc.Schedule(MM)).trace.decisions == {"indices1": (8, 1), "unroll": "no"}


def test_the_same_key_decides_the_same_and_keys_differ():
    drawn = [space(mlc.Schedule(MM, check=False, key=key)) for key in range(12)]
    again = space(mlc.Schedule(MM, check=False, key=3))
    assert again.trace == drawn[3].trace
    assert {sch.trace.decisions["indices1"] for sch in drawn} == {(8, 1), (4, 2), (2, 4), (1, 8)}
    assert sum(sch.trace.decisions["unroll"] == "yes" for sch in drawn) > 6
    assert_same(MM, drawn[3].mod, func="mm")


def test_a_trace_with_decisions_replays_and_prints():
    sch = space(mlc.Schedule(MM, check=False, key=5))
    again = mlc.Schedule.replay(MM, sch.trace.to_json(), check=False)
    assert again.trace == sch.trace
    assert mlc.structural_equal(again.mod, sch.mod)
    assert '.apply("sample_perfect_tile", "indices1", 2, decision=' in repr(sch.trace)
    again = eval(repr(sch.trace), {"sch": mlc.Schedule(MM, check=False)})
    assert again.trace == sch.trace


def test_one_decision_is_changed_and_the_others_stay():
    sch = space(mlc.Schedule(MM, check=False, key=5))
    told = {**sch.trace.decisions, "indices1": (2, 4)}
    changed = space(mlc.Schedule(MM, check=False, decisions=told))
    assert changed.trace.decisions == told
    assert_same(MM, changed.mod, func="mm")


def test_decisions_of_one_name_are_numbered():
    sch = mlc.Schedule(MM, key=1)
    for _ in range(3):
        sch, _ = sch.sample_categorical([1, 2], name="n")
    assert list(sch.trace.decisions) == ["n", "n1", "n2"]


def test_tiles_keep_to_their_limits():
    sch = mlc.Schedule(matmul(96, 8, 6), check=False)
    for key in range(8):
        chance = mlc.Schedule(sch.mod, check=False, key=key)
        _, tile = chance.sample_perfect_tile("indices0", 3, 4)
        assert math.prod(tile) == 96 and tile[-1] <= 4 and len(tile) == 3
        _, tile = chance.sample_partitioned_tile("indices0", 3, 1, 16)
        assert math.prod(tile) == 96 and tile[1] * tile[2] % 16 == 0


def test_a_block_moves_where_it_may():
    a = te.placeholder((8, 8), "float32", name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * b[i, 7 - j], name="C")
    mod = mlc.IRModule.of({"main": te.create_prim_func([a, c])})
    places = set()
    for key in range(10):
        sch, place = mlc.Schedule(mod, check=False, key=key).sample_compute_location("B")
        places.add(place)
        assert_same(mod, (sch.compute_at("B", place) if place else sch).mod)
    assert places == {"", *mlc.Schedule(mod).loops("C")}


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda s: s.sample_categorical([]), "E163", ("no candidates",)),
        (lambda s: s.sample_categorical([1, 2], [0.0, 0.0]), "E163", ("weights",)),
        (lambda s: s.sample_categorical([1, 2], [1.0]), "E163", ("2 candidates",)),
        (lambda s: s.sample_perfect_tile("k", 0), "E163", ("n=0",)),
        (lambda s: s.sample_perfect_tile("k", 1, 4), "E163", ("innermost factor <= 4",)),
        (lambda s: s.sample_partitioned_tile("k", 2, 1, 4), "E163", ("multiple of 4",)),
        (lambda s: s.sample_perfect_tile("z", 2), "E105", ('"z"',)),
        (lambda s: s.sample_perfect_tile("k", 2, decision=[2, 2]), "E162", ("[2, 2]",)),
        (lambda s: s.sample_perfect_tile("k", "2"), "E118", ("an integer",)),
        (lambda s: mlc.Schedule(s.mod, key=-1), "E118", ("64 bits",)),
        (lambda s: mlc.Schedule(s.mod, decisions=[1]), "E118", ("by name",)),
        (lambda s: s.smaple_categorical([1]), "E105", ("sample_categorical",)),
    ],
)
def test_what_cannot_be_drawn(call, code, words):
    refuses(code, lambda: call(mlc.Schedule(MM)), *words)


def test_a_decision_that_is_no_choice_any_more():
    told = {"indices1": (5, 2)}
    refuses("E162", lambda: space(mlc.Schedule(MM, decisions=told)), "[8, 1], [4, 2]")
