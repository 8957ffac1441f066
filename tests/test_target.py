"""Features that a target may declare, and the sizes of caches from the system."""

import pytest

import minimlc as mlc
from minimlc.loops.values.target import _linux_caches
from tests.helpers import refuses
from tests.recipes.programs import arguments, interpreted, matmul, run


@pytest.mark.parametrize(
    "size", [{"vector_bits": 0}, {"vector_bits": 96}, {"l1": 0}, {"l3": -1}, {"cores": 0}], ids=str
)
def test_machines_that_cannot_be_are_refused(size):
    ((name, value),) = size.items()
    refuses("E501", lambda: mlc.Target(**size), f"{name}={value} is")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"l1": "a"}, "l1='a' is not an integer"),
        ({"cores": 2.5}, "cores=2.5 is not an integer"),
        ({"vector_bits": "256"}, "vector_bits='256' is not an integer"),
        ({"cores": True}, "cores=True is not an integer"),
        ({"cpu": 3}, "cpu=3 is not a string"),
        ({"features": ["+avx2"]}, "is not a string"),
    ],
    ids=str,
)
def test_values_of_another_kind_are_refused(given, word):
    refuses("E501", lambda: mlc.Target(**given), word)


@pytest.mark.parametrize("features", ["avx2", "+fma,avx2", "+fma, +avx2", "+fma,"])
def test_features_are_added_or_taken_away(features):
    refuses("E509", lambda: mlc.Target("llvm", "x86-64", features), "begins with neither + nor -")


def test_a_recipe_copes_with_caches_of_a_byte():
    mod = matmul(20, 34, 40)
    tiny = mlc.Target("llvm", "x86-64", "+sse2", l1=1, l2=1, l3=1, cores=64)
    made = mlc.recipes.apply(mod, tiny)
    assert made is not mod
    arrays = arguments(mod)
    wanted = interpreted(mod, arrays)
    assert abs(interpreted(made, arrays) - wanted).max() < 1e-4
    assert abs(run(made, arrays) - wanted).max() < 1e-4


def test_caches_without_a_size_are_not_taken(tmp_path):
    """Virtual machines may list them so; a usual size is then the better guess."""
    given = [
        ("Data", "1", "0K"),
        ("Instruction", "1", "32K"),
        ("Unified", "2", "1M"),
        ("x", "3", ""),
    ]
    for number, parts in enumerate(given):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in zip(("type", "level", "size"), parts, strict=True):
            (folder / name).write_text(f"{text}\n")
    assert _linux_caches(tmp_path.glob("index*")) == {2: 1024 * 1024}
