"""Sizes that a call tells: their arithmetic is that of the integers they stand for."""

import itertools
import operator

import pytest

from minimlc.sizes import Size, cut, names_in, sample, size_at, size_of
from minimlc.tir import te
from tests.helpers import refuses

TEXTS = ("n", "n * 2 + 1", "m * n - 3", "(n + 1) // 2", "n % 3 * 4", "-n + 7", "5")
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
    assert n != m and n != 61 and n != int(n) and n + 0 == n
    assert size_of(te.var("n") * 2 + 1) == n * 2 + 1 and names_in((n, (m, 3))) == ["n", "m"]
    assert (n * 2 + 1).linear() == ("n", 2, 1) and (n * m).linear() is None


@pytest.mark.parametrize(
    "part",
    [slice(1, None), slice(0, 5), slice(None, None, -1), slice(-3, -1), slice(None, None, 3)],
)
def test_a_cut_axis_has_as_many_elements_as_a_range(part):
    found = cut(part, size_of("n"))
    for n in (5, 7, 64):
        places = range(*part.indices(n))
        assert size_at(found, {"n": n}) == (places.start, places.step, len(places))


def test_questions_are_answered_for_large_primes_that_differ_from_one_sample_to_another():
    n = size_of("n")
    with sample(1):
        other = int(n)
    assert n > 31 and n % 2 != 0 and int(n) != other and isinstance(n, Size)


@pytest.mark.parametrize("text", ["", "n +", "n ** 2", "f(n)", "n / 2", "1.5", "n // 0", "True"])
def test_what_is_no_size_is_refused(text):
    refuses("E136", lambda: size_of(text))
