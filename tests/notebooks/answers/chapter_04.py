"""Wrong answers to chapter 04."""

import minimlc as mlc
from minimlc.script import I, R


def wrong(chapter):
    def another():
        @I.ir_module
        class Softmax:
            @R.function
            def main(x: R.Tensor((1, 10), "float32")):
                return R.call_dps_packed("chapter04.max", (x,), out=R.Tensor((1, 10), "float32"))

        return Softmax

    def by_operator():
        @I.ir_module
        class Softmax:
            @R.function
            def main(x: R.Tensor((1, 10), "float32")):
                return R.softmax(x)

        return Softmax

    def one_layer(sizes):
        x, w, b = (chapter.tensor(*each) for each in (("x", 1, 64), ("w", 64, 10), ("b", 10)))
        bb = mlc.BlockBuilder()
        with bb.function("main", [x, w, b]):
            bb.emit_func_output(bb.emit_te(chapter.te_linear, x, w, b))
        return bb.get()

    def unfinished(sizes):
        bb = mlc.BlockBuilder()
        with bb.function("main", [chapter.tensor("x", 1, sizes[0])]):
            pass
        return bb.get()

    return {
        "own_softmax": [
            (by_operator, "main does not call chapter04.softmax"),
            (another, "main does not call chapter04.softmax"),
            (chapter.softmax, "TypeError: "),
        ],
        "any_depth": [
            (one_layer, "CallError: E6"),
            (unfinished, "CompileError: "),
            (lambda sizes: [*sizes], "returns a value of type list, not IRModule"),
        ],
        "second_layer": [
            (chapter.ByHand, "main takes x, w1, b1, w2, b2"),
            (
                mlc.passes.bind_params(chapter.ByHand, {"w1": chapter.w1}),
                "main takes x, b1, w2, b2",
            ),
            (
                lambda: mlc.passes.bind_params(
                    chapter.ByHand, {"w2": chapter.w2 * 2, "b2": chapter.b2}
                ),
                "for these inputs: element [0, 0] is",
            ),
            (lambda: mlc.passes.bind_params(chapter.ByHand, {"w3": chapter.w2}), "Error: E"),
        ],
        "how_many_notes": [
            (3, "3 is too large. Which of"),
            (1, "1 is too small. Which of"),
            ("two", "a number is wanted, not 'two'"),
        ],
        "two_calls": [
            (chapter.ByHand, "3 calls in main; at most 2 wanted"),
            (mlc.passes.bind_params(chapter.ByHand, chapter.named), "CallError: E6"),
        ],
    }
