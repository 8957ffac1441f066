"""Which lines correspond, which changed, which moved."""

import random

from minimlc_widgets.diff import GAP, compare, counts, unified


def rebuilt(before: list[str], after: list[str], ops) -> list[str]:
    """The second script from the first one and the operations, up to indentation."""
    lines: dict[int, str] = {}
    for op in ops:
        match op:
            case ("=", i, j, n):
                lines |= {j + k: before[i + k].strip() for k in range(n)}
            case (">", i, j):
                lines[j] = before[i].strip()
            case ("~", _, j, _, _) | ("+", j):
                lines[j] = after[j].strip()
    return [lines[j] for j in range(len(after))]


def test_a_line_wrapped_in_a_loop_stays():
    before = ["for i in range(8):", "    C[i] = A[i]"]
    after = ["for i_0 in range(2):", "    for i_1 in range(4):", "        C[i] = A[i]"]
    ops = compare(before, after)
    assert ops[-1] == ("=", 1, 2, 1)
    assert counts(ops) == (2, 1)


def test_changed_words_are_marked():
    (op,) = compare(["for i in T.serial(128):"], ["for i in T.parallel(128):"])
    kind, i, j, left, right = op
    assert (kind, i, j) == ("~", 0, 0)
    assert "for i in T.serial(128):"[slice(*left)] == "serial"
    assert "for i in T.parallel(128):"[slice(*right)] == "parallel"


def test_a_reordered_loop_moves():
    before = ["for i in range(8):", "    for j in range(4):", "        S(i, j)"]
    after = ["for j in range(4):", "    for i in range(8):", "        S(i, j)"]
    kinds = [op[0] for op in compare(before, after)]
    assert sorted(kinds) == sorted("<=>=") and "~" not in kinds


def test_equal_scripts_have_one_run():
    assert compare(["a", "b"], ["a", "b"]) == [("=", 0, 0, 2)]
    assert counts(compare(["a"], ["a"])) == (0, 0)


def test_operations_rebuild_the_second_script():
    rng = random.Random(7)
    lines = [f"{' ' * (n % 5)}for i{n % 7} in range({n}):" for n in range(12)] + ["S(i)", "", "x"]
    for _ in range(200):
        before = [rng.choice(lines) for _ in range(rng.randrange(12))]
        after = [rng.choice(lines) for _ in range(rng.randrange(12))]
        ops = compare(before, after)
        assert rebuilt(before, after, ops) == [line.strip() for line in after]
        gone = sum(op[3] if op[0] == "=" else 1 for op in ops if op[0] in "=~-<")
        assert gone == len(before)


def test_unified_leaves_out_what_is_far_from_changes():
    before = [f"line {n}" for n in range(20)]
    after = [*before[:10], "new", *before[10:]]
    shown = unified(before, after, context=1)
    assert shown == [GAP, (" ", "line 9"), ("+", "new"), (" ", "line 10"), GAP]
