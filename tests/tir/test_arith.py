"""Bounds of index expressions from what guards say; sums of quotients and remainders."""

import random
from functools import reduce
from itertools import pairwise, product
from operator import add, floordiv, mod, mul, sub

import pytest

from minimlc.loops.ir.nodes import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    index,
    substitute,
)
from minimlc.loops.proofs.arith import EVERYTHING, expression, linear, recombined
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.simplify import simplify

OPERATORS = {"+": add, "-": sub, "*": mul, "//": floordiv, "%": mod}


def test_a_guard_on_a_sum_bounds_each_of_its_variables():
    i, j = Var("i"), Var("j")
    ranges = Ranges({i: 8, j: 4}).assume(Binary("<", i * 4 + j, index(10)))
    assert ranges.bounds(i) == (0, 2)
    assert ranges.bounds(j) == (0, 3)
    assert ranges.bounds(i * 4 + j) == (0, 9)


def test_a_guard_from_below_does_too():
    i, j = Var("i"), Var("j")
    ranges = Ranges({i: 8, j: 4}).assume(Binary(">=", i * 4 - j, index(5)))
    assert ranges.bounds(i) == (2, 7)


def test_a_guard_bounds_multiples_of_its_sum_beside_other_terms():
    i, j, k = Var("i"), Var("j"), Var("k")
    ranges = Ranges({i: 8, j: 32, k: 4}).assume(Binary("<", i * 32 + j, index(250)))
    assert ranges.bounds(i * 128 + j * 4 + k) == (0, 249 * 4 + 3)
    assert ranges.bounds(7 - k - j * 4 - i * 128) == (7 - 3 - 249 * 4, 7)
    assert ranges.bounds(i * 128 + j * 5 + k) == (0, 7 * 128 + 31 * 5 + 3)
    assert ranges.bounds(i * 48 + j + k * 2)[1] == 7 * 48 + 31 + 6


def test_bounds_from_guards_hold_for_all_values():
    draw = random.Random(0)
    i, j, k = Var("i"), Var("j"), Var("k")
    for _ in range(300):
        p, q, limit, *form = (draw.randint(-6, 6) for _ in range(6))
        ranges = Ranges({i: 5, j: 4, k: 3}).assume(Binary("<", i * p + j * q, index(limit)))
        low, high = ranges.bounds(i * form[0] + j * form[1] + k * form[2])
        for a, b, c in product(range(5), range(4), range(3)):
            if p * a + q * b < limit:
                assert low <= form[0] * a + form[1] * b + form[2] * c <= high


def test_a_guard_on_sums_that_may_wrap_tells_of_those_sums_alone():
    i = Var("i")
    a = Load(Buffer("A", (4,), "int64"), (index(0),))
    ranges = Ranges({i: 4})
    for guard in (Binary(">=", a, index(0)), Binary("<", a * 4, index(10))):
        ranges = ranges.assume(guard)
    assert ranges.bounds(a * 4 + i) == EVERYTHING
    assert ranges.bounds(a * 4) == (EVERYTHING[0], 9)


def test_many_guards_are_looked_through_once():
    names = [Var(f"x{n}") for n in range(40)]
    ranges = Ranges(dict.fromkeys(names, 100))
    for var, other in pairwise(names):
        ranges = ranges.assume(Binary("<", var + other, index(10)))
    total = reduce(add, names)
    assert ranges.bounds(total)[0] == 0


def test_a_sum_with_a_variable_of_which_nothing_is_known_may_wrap_and_bounds_none_of_them():
    i, k = Var("i"), Var("k")
    ranges = Ranges({i: 8}).assume(Binary("<", i + k, index(3)))
    assert ranges.bounds(i) == (0, 7)
    assert ranges.bounds(k) == EVERYTHING
    assert ranges.bounds(i + k) == (EVERYTHING[0], 2)
    assert Ranges({i: 8}).assume(Binary("<", k, index(3) + i)).bounds(k) == (EVERYTHING[0], 9)


def value(expr: Expr, var: Var, number: int) -> int:
    """The value of an expression of one variable for a number, by Python's own arithmetic."""
    match expr:
        case Const(constant):
            return constant
        case Binary(op, a, b):
            return OPERATORS[op](value(a, var, number), value(b, var, number))
    assert expr is var
    return number


SUMS = [
    (lambda x: x // 4 * 4 + x % 4, "x"),
    (lambda x: x // 4 % 3 * 4 + x % 4, "x % 12"),
    (lambda x: x % 4 * 5 + x // 4 % 3 * 20, "x % 12 * 5"),
    (lambda x: x // 20 * 20 + x // 5 % 4 * 5 + x % 5, "x"),
    (lambda x: x // 60 * 60 + x // 20 % 3 * 20 + x // 5 % 4 * 5 + x % 5 - 7, "x - 7"),
    (lambda x: (x + 3) // 6 % 2 * -6 - (x + 3) % 6, "(x + 3) % 12 * -1"),
    (lambda x: (x + 1) // 4 * 4 + x % 4, None),
    (lambda x: x * 2 // 4 * 4 + x % 4, None),
    (lambda x: x // 4 % 3 * 4 + x % 3, None),
    (lambda x: x // 4 % 3 * 4 + x % 4 * 2, None),
    (lambda x: x // 4 % 3 * 5 + x % 4, None),
    (lambda x: x // -4 * -4 + x % -4, None),
    (lambda x: x // 4 % -3 * 4 + x % 4, None),
]


@pytest.mark.parametrize(("make", "text"), SUMS, ids=[str(text) for _, text in SUMS])
def test_a_quotient_meets_its_remainder(make, text):
    x = Var("x")
    expr = make(x)
    form = linear(expr)
    combined = expression(recombined(form))
    assert combined.script() == text if text else recombined(form) is form
    for number in range(-150, 150):
        assert value(combined, x, number) == value(expr, x, number)


def test_sums_of_drawn_digits_keep_their_value():
    rng, x = random.Random(0), Var("x")
    folded = 0
    for _ in range(300):
        parts: list[Expr] = []
        below = 1
        for size in rng.choices(range(2, 7), k=rng.randint(2, 4)):
            digit = x // below % size if below > 1 else x % size
            parts.append(digit * (below * rng.choice((1, 1, 1, 1, 2))))
            below *= size
        parts += [x // below * below] * rng.randint(0, 1)
        rng.shuffle(parts)
        expr = reduce(add, parts)
        combined = expression(recombined(linear(expr)))
        folded += len(linear(combined).terms) == 1
        for number in [*range(-90, 90), *(rng.randint(-(10**6), 10**6) for _ in range(30))]:
            assert value(combined, x, number) == value(expr, x, number)
    assert folded > 50


def test_a_condition_that_may_wrap_bounds_nothing():
    i = Var("i")
    ranges = Ranges({i: 64}).assume(Binary("<", i * 6364136223846793005, index(2**62)))
    assert ranges.bounds(i) == (0, 63)
    assert ranges.prove(Binary("<", i % 3, index(3)))
    assert simplify(i % 3, ranges).script() == "i % 3"
    assert not Ranges({i: 4}).assume(Binary("<", i * 2**62, index(5))).is_empty()


def test_bounds_are_exact_beyond_the_integers_of_float64():
    i = Var("i")
    ranges = Ranges({i: 2})
    assert ranges.bounds(i * 2**53 + 1) == (1, 2**53 + 1)
    wanted = "(i * 9007199254740992 + 1) // 9007199254740993"
    assert simplify((i * 2**53 + 1) // (2**53 + 1), ranges).script() == wanted


def test_where_a_sum_may_wrap_any_value_is_possible():
    i = Var("i")
    ranges = Ranges({i: 4})
    assert ranges.bounds(i * 2**62) == EVERYTHING
    assert ranges.bounds(i * 2**62 // 2**62)[0] < 0
    assert ranges.bounds(i * 2**62 % 5) == (0, 4)
    assert ranges.prove(Binary("<", i, i * 2**62)) is None
    assert not ranges.is_exact(i * 2**62)
    assert ranges.is_exact(i * (2**61 - 1) - 3)


def test_the_rest_of_a_division_may_wrap_where_its_sum_does_not():
    i = Var("i")
    expr = (i * (2**62 + 2) - i * 2**62) % 4
    assert simplify(expr, Ranges({i: 8})).script() == "i % 2 * 2"


def test_the_else_of_a_choice_knows_that_its_condition_failed():
    i = Var("i")
    mirrored = Select(Binary("<", i, index(3)), 3 - i, i - 3)
    assert Ranges({i: 11}).bounds(mirrored) == (0, 7)
    either = Unary("not", Binary("or", Binary("<", i, index(2)), Binary(">", i, index(5))))
    assert Ranges({i: 11}).assume(either).bounds(i) == (2, 5)


def test_narrow_integers_have_their_own_bounds():
    a = Load(Buffer("A", (4,), "uint8"), (index(0),))
    assert Ranges().bounds(Cast("int64", a) * 2) == (0, 510)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda i, j: (i * 2 + j) // 2, "i + j // 2"),
        (lambda i, j: (i * 112 + j + 60) // 56, "i * 2 + (j + 4) // 56 + 1"),
        (lambda i, j: (i * 12 + j // 2) // 4, "i * 3 + j // 8"),
        (lambda i, j: (j - i * 6) // 3, "i * -2 + j // 3"),
        (lambda i, j: (i * 3 + j) // 2, "(i * 3 + j) // 2"),
    ],
)
def test_multiples_of_a_divisor_leave_the_quotient(make, text):
    i, j = Var("i"), Var("j")
    ranges = Ranges({i: (-50, 50), j: (-70, 70)})
    simple = simplify(make(i, j), ranges)
    assert simple.script() == text
    for a in range(-50, 51, 7):
        for b in range(-70, 71):
            given = {i: index(a), j: index(b)}
            before, after = (simplify(substitute(e, given)) for e in (make(i, j), simple))
            assert before.value == after.value


def test_a_rest_that_may_wrap_stays_in_the_quotient():
    i, j = Var("i"), Var("j")
    ranges = Ranges({i: (0, 2), j: (0, 2**62)})
    assert "//" in simplify((i * 2 + j * 3) // 2, ranges).script()


def test_a_quotient_of_multiples_and_a_small_rest_is_one_of_the_multiples():
    i, j = Var("i"), Var("j")
    ranges = Ranges({i: 8, j: 32})
    for given, expected in (
        ((i * 32 + j) // 64, "i // 2"),
        ((i * 96 + j + 32) // 64, "(i * 3 + 1) // 2"),
        ((i * 32 + j + 1) // 64, "(i * 32 + j + 1) // 64"),
        ((i * 24 + j) // 64, "(i * 24 + j) // 64"),
        ((i * 32 + j) % 64, "i % 2 * 32 + j"),
        ((i * 32 + j) // 64 * 64 + (i * 32 + j) % 64, "j + i * 32"),
    ):
        assert simplify(given, ranges).script() == expected


def test_coarser_quotients_are_the_same_for_all_values():
    draw = random.Random(1)
    i, j, k = Var("i"), Var("j"), Var("k")
    for _ in range(400):
        sizes = [draw.randint(1, 6) for _ in range(3)]
        p, q, by = (draw.choice((1, 2, 3, 4, 6, 8, 12, 24)) for _ in range(3))
        given = i * p + j * draw.choice((q, -q)) + k + draw.randint(-5, 5)
        given = given // by if draw.random() < 0.5 else given % by
        new = simplify(given, Ranges(dict(zip((i, j, k), sizes, strict=True))))
        for values in product(*map(range, sizes)):
            at = {var: index(value) for var, value in zip((i, j, k), values, strict=True)}
            want, got = (simplify(substitute(expr, at)) for expr in (given, new))
            assert want.value == got.value


def test_bounds_of_64_bits_without_a_sign():
    """0 - 7 is 2**64 - 7 there, beyond what indices hold."""
    low, high = Ranges({}).bounds(Cast("uint64", Var("i")) - Const(7, "uint64"))
    assert low <= 2**64 - 7 <= high
