"""Wrong answers to chapter 02."""

import minimlc as mlc
from minimlc import te
from minimlc.script import I, T


def wrong(chapter):
    def other_axis():
        @I.ir_module
        class OtherAxis:
            @T.prim_func
            def add(
                A: T.Buffer((4, 6), "float32"),
                B: T.Buffer((6,), "float32"),
                C: T.Buffer((4, 6), "float32"),
            ):
                for i, j in T.grid(4, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = A[vi, vj] + B[vi]

        return OtherAxis

    def not_all():
        @T.prim_func
        def add(
            A: T.Buffer((4, 6), "float32"),
            B: T.Buffer((6,), "float32"),
            C: T.Buffer((4, 6), "float32"),
        ):
            for i, j in T.grid(4, 5):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] + B[vj]

        return add

    def one_block():
        A, B = (te.placeholder((4, 16, 16), name=name) for name in "AB")
        k = te.reduce_axis((0, 16), name="k")
        C = te.compute((4, 16, 16), lambda n, i, j: te.sum(A[n, i, k] * B[n, k, j], axis=k))
        return te.create_prim_func([A, B, C])

    def convolution(at):
        image = te.placeholder((3, 9, 9), name="image")
        weight = te.placeholder((4, 3, 3, 3), name="weight")
        c, dy, dx = (te.reduce_axis((0, 3), name=name) for name in ("c", "dy", "dx"))
        result = te.compute(
            (4, 4, 4),
            lambda f, y, x: te.sum(
                image[c, at(y, dy), at(x, dx)] * weight[f, c, dy, dx], axis=[c, dy, dx]
            ),
        )
        return te.create_prim_func([image, weight, result])

    def fours_only():
        A = te.placeholder((64,), name="A")
        twos = te.compute((63,), lambda i: A[i] + A[i + 1])
        C = te.compute((57,), lambda i: twos[i] + twos[i + 2])
        return te.create_prim_func([A, C])

    return {
        "row_to_every_row": [
            (other_axis, "for whole numbers, interpreted: element [0, 1] is"),
            (not_all, "element [0, 5] is nan; expected"),
            (chapter.MyModule, "declare A as T.Buffer((4, 6)"),
        ],
        "batch_of_products": [
            (one_block, "for whole numbers, interpreted: element [0,"),
            (chapter.MyModule, "declare A as T.Buffer((4, 16, 16)"),
            (mlc.Schedule(chapter.MyModule), "it is a value of type Schedule, not IRModule or Pri"),
        ],
        "with_stride": [
            (lambda: convolution(lambda y, dy: y + dy), "for whole numbers, interpreted: element"),
            (lambda: convolution(lambda y, dy: y + 2 * dy), "for whole numbers, interpreted: ele"),
            (lambda: convolution(lambda y, dy: 2 * y + 2 * dy), "E"),
            (chapter.conv2d(3, 4, 9, 3), "result is float32 (4, 7, 7), not float32 (4, 4, 4)"),
        ],
        "which_error": [
            ("read", "not 'read'. What does the compiler know at that moment?"),
            ("called", "not 'called'. What"),
            (mlc.VerifyError, "What does the compiler know at that moment?"),
        ],
        "less_work": [
            (chapter.moving_sum, "1,425 accesses; at most 600 wanted"),
            (fours_only, "for whole numbers, interpreted: element [0] is"),
        ],
    }
