"""LoopNest: its steps, what happens at once, smaller sizes, its text, and what it refuses."""

import pytest
from minimlc_widgets import LoopNest, loop_nest

import minimlc as mlc
from minimlc.loops.te import te
from minimlc.loops.values.errors import CompileError
from tests.widgets.values import module, product

TRANSPOSE = mlc.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((2, 3), "float32"), B: T.Buffer((3, 2), "float32")):
        for j, i in T.grid(3, 2):
            with T.block("B"):
                vj, vi = T.axis.remap("SS", [j, i])
                B[vj, vi] = A[vi, vj]
""")

EMPTY = mlc.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        pass
""")


def touched(view: LoopNest, number: int) -> list[tuple]:
    """A step as (buffer, "r" or "w", elements)."""
    store, _, _, *rest = view.steps[number]
    found = []
    for touch in rest[len(view.stores[store]["loops"]) :]:
        buffer, written, *runs = view.touches[touch]
        elements = [
            first + n
            for first, count in zip(runs[::2], runs[1::2], strict=True)
            for n in range(count)
        ]
        found.append((view.buffers[buffer]["name"], "rw"[written], elements))
    return found


def test_steps_follow_the_loops():
    view = LoopNest(TRANSPOSE)
    assert len(view.steps) == 6
    for number in range(6):
        j, i = divmod(number, 2)
        assert touched(view, number) == [("A", "r", [3 * i + j]), ("B", "w", [2 * j + i])]
    assert [loop["name"] for loop in view.loops] == ["j", "i"]


def test_lines_are_those_of_the_script():
    view = LoopNest(product(4))
    lines = ["".join(line[1::2]) for line in view.lines]
    stored = [lines[store["line"]].strip() for store in view.stores]
    assert stored == ["C[vi, vj] = T.float32(0)", "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"]
    assert {lines[loop["line"]].strip() for loop in view.loops} == {
        "for i, j, k in T.grid(4, 4, 4):"
    }


def test_a_schedule_changes_the_order_and_nothing_else():
    plain = LoopNest(product(8))
    tiled = LoopNest(product(8).split("i", factors=[None, 4]).reorder("i_0", "k", "j", "i_1"))
    steps = [
        [tuple(map(str, touched(view, n))) for n in range(len(view.steps))]
        for view in (plain, tiled)
    ]
    assert steps[0] != steps[1] and sorted(steps[0]) == sorted(steps[1])


def test_lanes_and_threads_are_at_once():
    view = LoopNest(product(8).split("j", factors=[None, 4]).vectorize("j_1").parallel("i"))
    assert len(view.steps) == (8 * 8 * 8 + 8 * 8) // 4 // 2
    assert touched(view, 0) == [("C", "w", [0, 1, 2, 3, 32, 33, 34, 35])]
    assert view.steps[0][:3] == [0, 4, 2]
    alone = LoopNest(product(8).parallel("i"), threads=1)
    assert touched(alone, 0) == [("C", "w", [0])]


def test_a_large_program_is_shown_smaller_and_says_so():
    view = LoopNest(product(1024))
    assert view.note == (
        "at smaller sizes: A 8 × 8 for 1024 × 1024, B 8 × 8 for 1024 × 1024, "
        "C 8 × 8 for 1024 × 1024"
    )
    assert len(view.steps) == 8 * 8 * 8 + 8 * 8
    assert view.note in view.text() and view.note in view.static_html()


def test_what_cannot_be_smaller_is_shown_in_part_and_says_so(monkeypatch):
    monkeypatch.setattr(loop_nest, "smaller", lambda func, strength: None)
    prime = te.placeholder((10007,), "float32", name="A")
    func = te.create_prim_func([prime, te.compute((10007,), lambda i: prime[i] + 1.0, name="B")])
    view = LoopNest(func)
    assert (len(view.steps), view.note) == (6000, "the beginning of a longer run")
    monkeypatch.setattr(loop_nest, "NUMBERS", 1400)
    assert 100 <= len(LoopNest(func).steps) < 200
    view = LoopNest(module(8), steps=20)
    assert (len(view.steps), view.note) == (20, "the beginning of a longer run")


def test_the_text_tells_the_first_steps():
    text = LoopNest(TRANSPOSE).text()
    assert text.startswith("@T.prim_func\ndef main(")
    assert text.splitlines()[-7:-4] == [
        "6 steps of main",
        "  0  j = 0, i = 0: reads A[0, 0]; writes B[0, 0]",
        "  1  j = 0, i = 1: reads A[1, 0]; writes B[0, 1]",
    ]
    lanes = LoopNest(mlc.Schedule(TRANSPOSE).vectorize("i")).text()
    assert "j = 2, i = 0: reads A[0, 2], A[1, 2]; writes B[2, 0…1]" in lanes
    assert "0 2 4\n1 3 5" in LoopNest(TRANSPOSE).static_html()


def test_neighbours_over_the_end_of_a_row_are_told_apart():
    func = mlc.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((3, 2), "float32")):
        for i in T.vectorized(4):
            A[i // 2, i % 2] = T.float32(0)
""")
    assert LoopNest(func).text().splitlines()[-1] == "  0  i = 0: writes A[0, 0] … A[1, 1]"


def test_data_decides_what_runs():
    func = mlc.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            if A[i] == 0:
                B[A[i]] = T.float32(0)
""")
    assert [touched(LoopNest(func), n) for n in (0, 3)] == [
        [("A", "r", [0]), ("B", "w", [0])],
        [("A", "r", [3]), ("B", "w", [0])],
    ]


def test_wrong_input_is_refused():
    for call, words in (
        (lambda: LoopNest("text"), "got str"),
        (lambda: LoopNest(module(), name="mian"), 'no function is called "mian"'),
        (lambda: LoopNest(module(), steps=0), "steps must be within"),
        (lambda: LoopNest(module(), threads=0), "threads must be"),
        (lambda: LoopNest(mlc.IRModule.of({})), "no primitive function"),
        (lambda: LoopNest(EMPTY), "stores nothing"),
    ):
        with pytest.raises(CompileError, match=words):
            call()
