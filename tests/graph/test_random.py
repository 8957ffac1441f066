"""Random numbers by key: the published numbers of Threefry, the same bits on every target."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.ops import OPS
from tests.helpers import refuses

KNOWN = {
    ((0, 0), (0, 0)): (0x6B200159, 0x99BA4EFE),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF)): (0x1CB996FC, 0xBB002BE7),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)): (0xC4923A9C, 0x483DF7A0),
}
"""(key, counter) and result: threefry2x32, 20 rounds, in the Random123 library's `kat_vectors`."""

TEXT = """
@R.function
def main(key: R.Tensor((2,), "uint32"), x: R.Tensor((1,), "uint32"), y: R.Tensor((1,), "uint32")):
    pair = R.threefry2x32(key, x, y)
    keys = R.random.split(key, num=3)
    bits = R.random.bits(key, shape=(2, 3))
    uniform = R.random.uniform(key, shape=(5,), low=-1.0)
    return (pair, keys, bits, uniform)
"""


def words(*values: int) -> np.ndarray:
    return np.array(values, "uint32")


def arguments(known: tuple) -> list[np.ndarray]:
    key, counter = known
    return [words(*key), words(counter[0]), words(counter[1])]


@pytest.mark.parametrize("known", KNOWN)
def test_the_interpreter_gives_the_published_numbers(known):
    pair, *_ = mlc.interpret(mlc.parse(TEXT), "main", *arguments(known))
    assert tuple(int(each[0]) for each in pair) == KNOWN[known]


@pytest.mark.parametrize("target", ["llvm", pytest.param("c", marks=pytest.mark.requires("cc"))])
def test_every_target_has_the_same_bits(target):
    main = mlc.build(mlc.parse(TEXT), target, recipes=False)["main"]
    for known, expected in KNOWN.items():
        (a, b), *rest = main(*arguments(known))
        assert (int(a[0]), int(b[0])) == expected
        meant = mlc.interpret(mlc.parse(TEXT), "main", *arguments(known))[1:]
        for got, wanted in zip(rest, meant, strict=True):
            assert got.tobytes() == wanted.tobytes() and got.dtype == wanted.dtype


def drawn(name: str, **attrs) -> np.ndarray:
    return np.asarray(OPS[name].meaning(words(3, 4), **attrs))


def test_uniform_and_normal_numbers_look_like_such():
    """Means and variances of 40 000 numbers, within five of their standard deviations."""
    count = 40_000
    uniform = drawn("random_uniform", shape=(count,), low=0.0, high=1.0).astype(float)
    normal = drawn("random_normal", shape=(count,)).astype(float)
    assert uniform.min() >= 0 and uniform.max() < 1 and np.isfinite(normal).all()
    for values, mean, variance in ((uniform, 0.5, 1 / 12), (normal, 0, 1)):
        assert abs(values.mean() - mean) < 5 * (variance / count) ** 0.5
        assert abs(values.var() - variance) < 5 * variance * (2 / count) ** 0.5
    bits = np.unpackbits(drawn("random_bits", shape=(count,)).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / len(bits) ** 0.5


def test_keys_of_a_split_differ_and_numbers_do_not_depend_on_the_shape():
    keys = drawn("random_split", num=100)
    assert keys.shape == (100, 2) and len({*map(tuple, keys.tolist())}) == 100
    flat, square = (drawn("random_bits", shape=shape) for shape in ((9,), (3, 3)))
    np.testing.assert_array_equal(flat, square.ravel())


def test_the_names_are_those_of_the_field():
    key = mlc.Var("key", mlc.graphs.ir.nodes.TensorType((2,), "uint32"))
    assert op.random.normal(key, shape=(3,)).op == "random_normal"
    assert op.random.bits(key, shape=(3,)).dtype == "uint32"
    refuses("E202", lambda: op.random.bits(mlc.constant([1, 2]), shape=(3,)), "int64")
    refuses("E203", lambda: op.random.bits(mlc.constant(words(1)), shape=(3,)), "(1,)")
