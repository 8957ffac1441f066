"""Which thread touches which element: what Threads records, its size, and what it refuses."""

import json

import numpy as np
import pytest
from minimlc_widgets import Threads

import minimlc as mlc
from minimlc.loops.values.errors import CompileError
from minimlc.targets.gpu.kernels import Barrier
from tests.gpu.programs import product_shared, twice
from tests.gpusim import programs


def touched(view: Threads, step: int, block: int) -> dict[tuple[str, bool], list[int]]:
    """The elements by thread, decoded from the state as the page does it."""
    numbers = iter(view.steps[step][2:])
    found = {}
    for buffer in numbers:
        written, blocks = next(numbers), next(numbers)
        pairs = [(next(numbers), next(numbers)) for _ in range(blocks)]
        pattern, lowest = pairs[block]
        name = view.buffers[buffer]["name"]
        spans = view.patterns[pattern] if pattern >= 0 else []
        elements = [
            first + k * apart
            for count, first, apart in zip(*[iter(spans)] * 3, strict=True)
            for k in range(count)
        ]
        found[name, bool(written)] = [e + lowest if e >= 0 else -1 for e in elements]
    return found


def test_a_copy_is_one_step_of_eight_blocks():
    view = Threads(programs.copy("b * 128 + t + 1", 1025))
    assert len(view.steps) == 1 and view.kernels[0]["launch"] == "8 blocks of 128 threads"
    for block in (0, 7):
        first = 128 * block
        assert touched(view, 0, block) == {
            ("A", False): list(range(first + 1, first + 129)),
            ("B", True): list(range(first, first + 128)),
        }


def test_a_transpose_writes_what_it_reads_by_other_threads():
    view = Threads(programs.transpose(64, row=33))
    assert [isinstance(moment.stmt, Barrier) for moment in view.moments].index(True) == 4
    there, back = touched(view, 1, 2), touched(view, 5, 2)  # of block x = 0, y = 1
    rows = np.arange(40, 48)[:, None] * 64 + np.arange(32)
    assert there["A", False] == rows.ravel().tolist()
    thread = 32 * 3 + 5  # x = 5, y = 3
    assert there["tile", True][thread] == (8 + 3) * 33 + 5
    assert (back["tile", False][thread], back["B", True][thread]) == (5 * 33 + 3, 3 * 64 + 32 + 5)


def test_threads_that_a_condition_keeps_out_touch_nothing():
    view = Threads(programs.tree(), buffer="part")
    step = next(n for n, m in enumerate(view.moments) if len(m.touches) == 3)
    stored = touched(view, step, 0)["part", True]
    assert stored == [*range(128), *[-1] * 128]
    assert "128 threads store 128 of part[0] … part[127]" in view.text()


def test_two_kernels_and_the_memory_between():
    view = Threads(twice())
    assert [kernel["name"] for kernel in view.kernels] == ["main_0", "main_1"]
    assert [b["name"] for b in view.buffers] == ["A", "R", "C"]
    assert {step[0] for step in view.steps} == {0, 1}


def test_data_decides_what_is_touched():
    gather = mlc.parse("""
@T.prim_func
def main(I: T.Buffer((32,), "int32"), A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        B[t] = A[I[t]]
""")
    order = np.arange(32, dtype="int32")[::-1].copy()
    arrays = [order, np.ones(32, "float32"), np.full(32, 7, "float32")]
    view = Threads(gather, "main", ["A"], *arrays)
    assert touched(view, 0, 0) == {("A", False): order.tolist()}
    assert arrays[2][0] == 7  # what was passed stays as it is


def test_large_programs_show_a_part_and_say_so():
    view = Threads(programs.product(128))
    assert "the first 16 of 64 blocks; of A 64 × 64 elements at once" in view.note
    long = Threads(product_shared(64), buffer="A_shared")
    assert len(json.dumps([long.steps, long.patterns])) < 400_000
    several = Threads(programs.vectors("u * 128 + v"), "main", "tile")
    assert several.note == "of tile 64 × 32 elements at once"
    loop = "for r in range(2000):\n                B[0] = A[r % 32]"
    text = f"""
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((1,), "float32")):
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(1, thread="threadIdx.x"):
            {loop}
"""
    cut = Threads(mlc.parse(text))
    assert len(cut.steps) == 400 and cut.note == "the first 400 steps of more"


def test_the_static_form_tells_who_touches_what():
    html = Threads(programs.copy("b * 128 + t")).static_html()
    assert "128 threads load 128 of A[0] … A[127]" in html
    assert "   0    1    2" in html and "the thread of block 0 that first touches" in html


def test_wrong_input_is_refused():
    mod = programs.copy("b * 128 + t")
    idle = mlc.parse(
        '@T.prim_func\ndef main(A: T.Buffer((0,), "float32")):\n'
        '    for t in T.thread_binding(32, thread="threadIdx.x"):\n'
        "        if t < 0:\n            A[t] = 1.0\n"
    )
    for call, words in (
        (lambda: Threads(3), "got int"),
        (lambda: Threads(mod, "other"), 'no function is called "other"'),
        (lambda: Threads(mod, buffer="Z"), 'memory is called "Z"'),
        (lambda: Threads(mod, "main", None, np.zeros(3)), r"takes 2 argument\(s\)"),
        (lambda: Threads(idle), "no thread of main accesses memory"),
    ):
        with pytest.raises(CompileError, match=words):
            call()
