"""Wrong answers to chapter 09."""

import minimlc as mlc
from minimlc import te


def wrong(chapter):
    class Drops(mlc.Mutator):
        """Each sum becomes its first argument."""

        def visit_Call(self, call):
            return call.args[0] if call.op == "add" else call

    class Crashes(mlc.Mutator):
        def visit_Call(self, call):
            return call.no_such_name

    class AnyTurn(mlc.Mutator):
        """Takes every permutation for one that turns the one before back."""

        def visit_Call(self, call):
            return call.args[0] if call.op == "permute_dims" else call

    class AlwaysRight(mlc.Mutator):
        """Moves the brackets, whatever it costs."""

        def visit_Call(self, call):
            inner = self.lookup_binding(call.args[0])
            if call.op == "matmul" and isinstance(inner, mlc.Call):
                return mlc.op.matmul(inner.args[0], mlc.op.matmul(inner.args[1], call.args[1]))
            return call

    def one_after_the_other(values):
        return [sum(size for size, *_ in values[:at]) for at in range(len(values))]

    def my_add(x, b):
        return te.compute(x.shape, lambda i, j: x[i, j] + x[i, j])

    def their_add(x, b):
        return te.compute(x.shape, lambda i, j: x[i, j] + b[j])

    def overrides(formula):
        return {"add": lambda bb, call: bb.call_te(formula, *call.args)}

    return {
        "both_sides": [
            (chapter.MultiplyAdd(), "what is left of Sides is multiply, add, ewise_fma"),
            (Drops, "it is a value of type"),
            (Drops(), "for these inputs: element [0, 0] is"),
            (Crashes(), "AttributeError: "),
        ],
        "turned_twice": [
            (chapter.MultiplyAdd(), "what is left of Twice is permute_dims, permute_dims, relu, p"),
            (AnyTurn(), "the result is float32 (3, 4), not float32 (4, 3)"),
        ],
        "own_loops": [
            ({}, "main calls dense, add, relu, dense1, add1"),
            (lambda: overrides(their_add), "main calls dense, their_add, relu, dense1, their_add1"),
            (lambda: overrides(my_add), "for these inputs: element [0, 0] is"),
            (my_add, "TypeError: "),
        ],
        "how_many": [
            (8, "8 is too large. A group has one result"),
            (3, "3 is too small. A group has one result"),
        ],
        "brackets": [
            (chapter.MultiplyAdd(), "270,336 multiplications in Chain; at most 20,000 wanted"),
            (AlwaysRight(), "270,336 multiplications in Good; at most 16,384 wanted"),
        ],
        "all_places": [
            (lambda values: [0] * len(values), "values 0 and 4 share bytes at step 28"),
            (lambda values: [0], "1 offsets for 40 values"),
            (lambda values: [-64 * at for at, _ in enumerate(values)], "an offset is less than 0"),
            (one_after_the_other, "bytes in use"),
        ],
    }
