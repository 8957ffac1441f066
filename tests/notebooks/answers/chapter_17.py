"""Wrong answers to chapter 17."""

import numpy as np

import minimlc as mlc
from minimlc import te
from minimlc.script import I, R, T


def wrong(chapter):
    def log_sum(formula):
        X = te.placeholder(chapter.SIZE, name="X")
        return mlc.IRModule.of({"log_sum": te.create_prim_func([X, formula(X)])})

    def summed(X, top):
        j = te.reduce_axis((0, X.shape[1]), "j")
        return te.compute((X.shape[0],), lambda i: te.sum(T.exp(X[i, j] - top(i)), axis=j))

    def without_maximum(X):
        total = summed(X, lambda i: T.float32(0))
        return te.compute(total.shape, lambda i: T.log(total[i]), name="Y")

    def two_passes(X):
        j = te.reduce_axis((0, X.shape[1]), "j")
        top = te.compute((X.shape[0],), lambda i: te.max(X[i, j], axis=j), name="top")
        total = summed(X, lambda i: top[i])
        return te.compute(total.shape, lambda i: top[i] + T.log(total[i]), name="Y")

    def attends(bias):
        """Causal attention with a bias, a function of how far back a key lies."""
        shape = R.Tensor((1, 12, 2, 8), "float32")
        q, k, v = params = [mlc.Var(name, shape) for name in "qkv"]
        places = mlc.op.arange(start=0, stop=12, dtype="int32")
        back = mlc.op.subtract(mlc.op.expand_dims(places, axis=1), places)
        return built(params, mlc.op.attention(q, k, v, bias(back), causal_mask="TopLeft"))

    def built(params, value):
        bb = mlc.BlockBuilder()
        with bb.function("main", params):
            bb.emit_func_output(bb.emit(value))
        return bb.get()

    def within(width):
        def bias(back):
            near = mlc.op.less(back, mlc.constant(np.int32(width)))
            return mlc.op.where(near, *map(mlc.constant, np.float32([0, -np.inf])))

        return bias

    @I.ir_module
    class Greedy:
        @R.function
        def main(
            scores: R.Tensor((1, 32), "float32"),
            temperature: R.Tensor((), "float32"),
            key: R.Tensor((2,), "uint32"),
        ):
            return R.argmax(scores, axis=1)

    @I.ir_module
    class Lukewarm:
        """Forgets the temperature."""

        @R.function
        def main(
            scores: R.Tensor((1, 32), "float32"),
            temperature: R.Tensor((), "float32"),
            key: R.Tensor((2,), "uint32"),
        ):
            bar = R.strided_slice(R.sort(scores), begin=29, end=30, axes=1)
            low = R.const(float("-inf"), "float32")
            high = R.where(R.greater_equal(scores, bar), scores, low)
            u = R.random.uniform(key, shape=(1, 32))
            return R.argmax(high - R.log(R.negative(R.log(u))), axis=1)

    return {
        "cache_bytes": [
            (2**30, f"{2**30} is too small. Keys and values"),
            (2**32, f"{2**32} is too large. Keys and values"),
        ],
        "seen_tiles": [
            (256, "256 is too small. A tile counts"),
            (512, "512 is too large. A tile counts"),
        ],
        "one_pass": [
            (lambda: log_sum(without_maximum), "of numbers up to 1000 comes inf"),
            (log_sum(two_passes), "X is read in 2 places of the program"),
            (chapter.plain(4, 4), "the function is to be called log_sum"),
        ],
        "window": [
            (chapter.Attention, "CallError"),
            (attends(within(12)), "for these inputs: element [0, 4, 0, 0] is"),
            (lambda: attends(within(3)), "for these inputs: element [0, 3, 0, 0] is"),
        ],
        "top_three": [
            (chapter.Draw, "a letter came that is not among the three"),
            (lambda: Greedy, "in 300 draws, only 1 of the three came"),
            (Lukewarm, "they came ["),
        ],
        "rooms": [
            ([64, 128, 256, 512, 1024], "800,416 positions; at most 740,000 wanted"),
            ([512], "no room holds 1024 positions"),
            ([256.0, 1024.0], "the sizes are whole numbers"),
            (lambda: list(range(64, 1025, 64)), "877,056 positions"),
        ],
    }
