"""Wrong answers to chapter 08."""

from minimlc.script import T


def wrong(chapter):
    def on_loops():
        """The larger of each pair, described and implemented by the same loop."""

        @T.prim_func
        def larger(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("larger"):
                    vi = T.axis.spatial(8, i)
                    c[vi] = T.max(c[vi], a[vi])

        return larger, larger

    def of_sums():
        """A unit that adds."""

        @T.prim_func
        def total(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
            for i in T.vectorized(8):
                with T.block("total"):
                    vi = T.axis.spatial(8, i)
                    c[vi] = c[vi] + a[vi]

        return total, total

    def unlike():
        return on_loops()[0], of_sums()[0]

    return {
        "unit_for_maxima": [
            (on_loops, "the implementation has no 8 lanes"),
            (of_sums, "ScheduleError: E156"),
            (unlike, "the implementation computes something else"),
            (lambda: on_loops()[:1], "two functions are wanted; there are 1"),
            (lambda: (1, 2), "Error"),
        ],
        "same_program": [
            ({"B transposed", "a square"}, "6 of 7 are judged right"),
            ({"factors swapped", "sum swapped"}, "2 of 7 are judged right"),
        ],
        "which_implementations": [
            ({"one lane less", "sum left out"}, "5 of 6 are judged right"),
            ({"backwards", "lanes"}, "1 of 6 are judged right"),
        ],
        "how_often": [
            ((64, 8192), "How many multiplications"),
            ((8192, 16), "How many multiplications"),
        ],
        "whole_tiles": [
            (lambda sch: chapter.in_tiles(sch), "E155"),
            (lambda sch: sch.pad_einsum("C", [4, 8, 1]), "outer_4x8 is not used"),
            (
                lambda sch: chapter.in_tiles(sch.pad_einsum("C", [16, 16, 16])),
                "numbers in copies; at most 2,944 wanted",
            ),
        ],
    }
