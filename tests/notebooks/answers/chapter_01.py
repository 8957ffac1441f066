"""Wrong answers to chapter 01."""

import minimlc as mlc
from minimlc.script import I, R


def wrong(chapter):
    def one_layer(n):
        @I.ir_module
        class OneLayer:
            @R.function
            def main(x: R.Tensor((n, 64), "float32"), w: R.Tensor((64, 10), "float32")):
                return R.matmul(x, w)

        return OneLayer

    def mistyped():
        @I.ir_module
        class Mistyped:
            @R.function
            def main(x: R.Tensor((1, 64), "float32")):
                return R.sotfmax(x)

        return Mistyped

    def constant():
        """Small, and no better than a guess."""

        @I.ir_module
        class Constant:
            @R.function
            def main(x: R.Tensor((1, 64), "float32")):
                return R.softmax(x)

        return Constant

    fused = mlc.run_passes(chapter.Digits, chapter.pipeline)
    return {
        "probabilities": [
            (chapter.Digits, "for these inputs: element [0, 0] is"),
            (chapter.bound, "CallError: E6"),
            (mistyped, "ScriptError: E"),
            (lambda: chapter.Digits.script(), "returns a value of type str, not IRModule"),
        ],
        "all_at_once": [
            (lambda n: chapter.Digits, "CallError: E6"),
            (one_layer, "CallError: E6"),
            (lambda: chapter.Digits, "TypeError: "),
        ],
        "unfused": [
            (chapter.bound, "main still calls an operator"),
            (fused, "that is more than one operator"),
            (mlc.passes.legalize(chapter.Digits), "CallError: E6"),
        ],
        "which_calls": [
            ({"two images", "a row", "float64"}, "5 of 6 are judged right"),
            (set(), "2 of 6 are judged right"),
            ("float64", "a set of names is wanted, not 'float64'"),
        ],
        "smaller": [
            (chapter.bound, "9,610 numbers; at most 3,000 wanted"),
            (constant, "of the images named rightly; at least 0.9 wanted"),
        ],
    }
