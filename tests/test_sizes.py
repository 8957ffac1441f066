"""Sizes known at the call: their arithmetic is that of the integers they stand for."""

import itertools
import math
import operator

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.te import te
from minimlc.services.sizes.polynomials import sampled
from minimlc.services.sizes.sizes import bounds_of, cut, generic, names_in, size_at, size_of
from tests.helpers import refuses

TEXTS = (
    "n",
    "-((n + 1) // 2) + 4",
    "n * 2 + 1",
    "m * n - 3",
    "(n + 1) // 2",
    "n % 3 * 4",
    "-n + 7",
    "5",
)
SIGNS = (operator.add, operator.sub, operator.mul)
VALUES = [{"n": n, "m": m} for n, m in itertools.product((0, 1, 2, 5, 64), (1, 3))]


@pytest.mark.parametrize("text", TEXTS)
def test_a_size_is_read_and_written(text):
    size = size_of(text)
    assert size_of(str(size)) == size
    for values in VALUES:
        assert size_at(size, values) == eval(text, {}, values)


@pytest.mark.parametrize(("a", "b"), [*itertools.combinations(TEXTS, 2)])
def test_what_is_computed_with_sizes_is_computed_with_their_numbers(a, b):
    one, other = size_of(a), size_of(b)
    for sign, values in itertools.product(SIGNS, VALUES):
        expected = sign(size_at(one, values), size_at(other, values))
        assert size_at(sign(one, other), values) == expected
        for by in (1, 2, 4):
            for divide in (operator.floordiv, operator.mod):
                assert size_at(divide(sign(one, other), by), values) == divide(expected, by)


def test_nothing_of_a_size_is_nothing():
    """As in the size of one window over a whole axis."""
    size = size_of("(h - 1) // 2 + 1")
    assert (0 // size, 0 % size, (size - size) // size) == (0, 0, 0)


def test_equal_sizes_are_equal_however_they_are_written():
    n, m = size_of("n"), size_of("m")
    assert (n + m) * (n - m) == n * n - m * m and hash(n + m) == hash(m + n)
    assert (n * 4 + 2) // 4 == n and (n * 4) % 2 == 0 and n - n == 0 and (n * m) // n == m
    assert n != m and n != 61 and n + 0 == n
    assert size_of(te.var("n") * 2 + 1) == n * 2 + 1 and names_in((n, (m, 3))) == ["n", "m"]
    assert (n * 2 + 1).linear() == ("n", 2, 1) and (n * m).linear() is None


@pytest.mark.parametrize(
    "part",
    [slice(1, None), slice(0, 5), slice(None, None, -1), slice(-3, -1), slice(None, None, 3)],
)
def test_a_cut_axis_has_as_many_elements_as_a_range(part):
    with sampled({"n": 1009}):
        found = cut(part, size_of("n"))
    for n in (5, 7, 64):
        places = range(*part.indices(n))
        assert size_at(found, {"n": n}) == (places.start, places.step, len(places))


ANSWERS = {
    "int": int,
    "float": float,
    "bool": bool,
    "index": lambda n: [0][n],
    "range": range,
    "less": lambda n: n < 64,
    "Python's min": lambda n: min(n, 64),
    "sorted": lambda n: sorted([n, 3]),
    "1 / n": lambda n: 1 / n,
    "n / 2": lambda n: n / 2,
    "n / m": lambda n: n / size_of("m"),
    "n * 0.5": lambda n: n * 0.5,
    "0.5 - n": lambda n: 0.5 - n,
    "n // 0.5": lambda n: n // 0.5,
    "n ** 0.5": lambda n: n**0.5,
    "sqrt": math.sqrt,
    "round": lambda n: round(n, 2),
    "numpy float": np.float32,
    "numpy int": np.int64,
    "numpy array": lambda n: np.zeros(n),
    "list": lambda n: [0] * n,
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("text", ["n", "n * 2 + 1", "min(n, 64)"])
def test_a_size_is_not_a_number_before_the_call(name, text):
    with pytest.raises(TypeError) as caught:
        ANSWERS[name](size_of(text))
    if name not in ("round", "list", "numpy array"):
        assert isinstance(caught.value, mlc.CompileError) and caught.value.code == "E236"


def test_samples_answer_what_a_rule_asks():
    n, m = size_of("n"), size_of("m")
    with sampled({"n": 1009, "m": 7}):
        assert n > 31 and n % 2 and int(n) == 1009 and n / 2 == 504.5 and max(m, 8) == 8
        assert n - m == 1002 and n != m
    with sampled({"n": 7, "m": 7}):
        assert n == m and 7 in (n,)
    assert n != m and n - m != 0


def test_a_rule_is_asked_about_sizes_above_all_its_numbers():
    """Then about others, where it refuses those; two of a kind must agree."""
    n, m = size_of("n"), size_of("m")
    seen: list[tuple[int, int]] = []
    generic(lambda: seen.append((int(n), int(m))), ((n, 256), (m, 3)))
    (a, b), (c, d) = seen
    assert min(seen[0] + seen[1]) > 16 * 256 and (a < b) != (c < d)

    def rule(text: str) -> str:
        if not eval(text, {}, {"n": n, "m": m}):
            raise mlc.OpError("not so", code="E203")
        return text

    for text in ("n % 12 == 0", "n == m", "n // 2 * 2 == m", "n < 8", "n > 4000"):
        assert generic(lambda text=text: rule(text), (n, m, 256)) == text
    with pytest.raises(mlc.OpError, match="not so"):
        generic(lambda: rule("n == 12"), (n,))
    with pytest.raises(mlc.OpError, match="differs"):
        generic(lambda: int(n), (n,))
    bounded = size_of(("n", 3, 90))
    assert generic(lambda: 3 <= int(bounded) <= 90, (bounded, 256))


def test_minima_are_sizes():
    n, m = size_of("n"), size_of("m")
    for text in ("min(n, 64)", "max(n, 64)", "min(n, m, 5) * 2", "max(n - 3, 0) // 2"):
        size = size_of(text)
        assert size_of(str(size)) == size
        for values in VALUES:
            assert size_at(size, values) == eval(text, {}, values)
    assert n.min(64) == size_of("min(64, n)") and n.max(64) == n + 64 - n.min(64)
    assert (
        n.min(0) == 0 and n.max(0) == n and (n + 1).min(n) == n and n.min(64).min(100) == n.min(64)
    )
    assert (n - m).max(n) == n and size_of(("n", 1, 8)).min(64) == n.min(64)


def test_bounds_are_declared_with_a_name():
    n = size_of(("n", 1, 512))
    assert n == size_of("n") and repr(n) == '"n"' and (n + 1 - 1).bounded == ("n", 1, 512)
    assert size_of(("n", 2)).bounded == ("n", 2) and not (n + 1).bounded
    assert bounds_of((n * 2, size_of("n + m"))) == {"n": (1, 512), "m": (0, math.inf)}
    refuses("E136", lambda: bounds_of((size_of(("n", 0, 4)), size_of(("n", 5)))), "all bounds")
    for wrong in (("n", 5, 1), ("n + 1", 1, 2), ("n", -1, 3), ("n", 1.5, 2), ("n", True)):
        refuses("E136", lambda wrong=wrong: size_of(wrong), "bounded size")


@pytest.mark.parametrize("text", ["", "n +", "n ** 2", "f(n)", "n / 2", "1.5", "n // 0", "True"])
def test_what_is_no_size_is_refused(text):
    refuses("E136", lambda: size_of(text))
