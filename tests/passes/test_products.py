"""fold_transposes, combine_parallel_matmul, fold_batch_norm."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import constant
from minimlc.graphs.passes import (
    combine_parallel_matmul,
    fold_batch_norm,
    fold_constants,
    fold_transposes,
)
from tests.helpers import assert_same
from tests.passes.rewriting import keeps_bits, module, operators, settled, tensor

RNG = np.random.default_rng(0)
X, W = tensor("x", (3, 4)), tensor("w", (5, 4))


def weights(*shape, dtype="float32"):
    return constant(RNG.standard_normal(shape), dtype)


def built(mod, *inputs, **options):
    return mlc.build(mod, cache=False, **options)["main"](*inputs)


# fold_transposes


@pytest.mark.parametrize(
    ("params", "formula", "left"),
    [
        ([(3, 4), (5, 4)], lambda x, w: op.matmul(x, op.permute_dims(w)), "dense"),
        ([(2, 3, 4), (5, 4)], lambda x, w: op.matmul(x, op.permute_dims(w, (-1, 0))), "dense"),
        ([(3, 4), (4, 5)], lambda x, w: op.dense(x, op.permute_dims(w)), "matmul"),
        (
            [(4, 3), (5, 4)],
            lambda x, w: op.permute_dims(op.matmul(op.permute_dims(x), op.permute_dims(w))),
            "matmul",
        ),
        ([(3, 4), (5, 4)], lambda x, w: op.permute_dims(op.dense(x, w)), "dense"),
    ],
)
def test_products_read_matrices_as_they_lie(params, formula, left):
    for dtype in ("float32", "int8"):
        params_ = [tensor(name, shape, dtype) for name, shape in zip("xw", params, strict=True)]
        before = module(params_, formula)
        after = settled(fold_transposes, before)
        assert operators(after) == [left]
        assert_same(before, after, exact=dtype == "int8")


@pytest.mark.parametrize(
    "formula",
    [
        lambda x, w: op.matmul(op.permute_dims(x), op.permute_dims(w)),
        lambda x, w: op.matmul(x, w),
        lambda x, w: op.matmul(x, op.permute_dims(w, (0, 1))),
        lambda x, w: op.permute_dims(op.matmul(x, w)),
    ],
)
def test_other_transposes_stay(formula):
    mod = module((tensor("x", (4, 4)), tensor("w", (4, 4))), formula)
    after = fold_transposes(mod)
    assert operators(after).count("permute_dims") == operators(mod).count("permute_dims")
    assert_same(mod, after)


def test_batches_of_matrices_are_turned_as_before():
    params = tensor("x", (2, 3, 4)), tensor("w", (2, 5, 4))
    mod = module(params, lambda x, w: op.matmul(x, op.permute_dims(w, (0, 2, 1))))
    assert fold_transposes(mod) is mod


def test_the_dtype_of_sums_is_kept():
    params = tensor("x", (3, 4), "int8"), tensor("w", (5, 4), "int8")
    before = module(params, lambda x, w: op.matmul(x, op.permute_dims(w), out_dtype="int32"))
    after = settled(fold_transposes, before)
    assert after["main"].result.dtype == "int32"
    keeps_bits(before, after)


def test_a_product_that_others_use_is_not_computed_twice():
    def body(x, w):
        return op.permute_dims(op.dense(x, w)), op.relu(op.dense(x, w))

    mod = passes.eliminate_common_subexpr(module((X, W), body))
    assert fold_transposes(mod) is mod


def test_constant_weights_are_turned_at_compile_time_by_the_default_pipeline():
    x = tensor("x", (3, 4))
    mod = module((x,), lambda x: op.matmul(x, op.permute_dims(weights(5, 4))))
    mod = mlc.run_passes(mod, passes.default_pipeline[:5])
    assert operators(mod) == ["matmul"]


# combine_parallel_matmul


def attention(x, *matrices):
    return tuple(op.matmul(x, w) for w in matrices)


def test_products_of_one_input_are_one():
    params = [X, *(tensor(f"w{n}", (4, n)) for n in (5, 2, 3))]
    before = module(params, attention)
    after = settled(combine_parallel_matmul, before)
    assert operators(after) == ["concat", "matmul", *["strided_slice"] * 3]
    assert_same(before, after)
    integers = [tensor(p.name, p.shape, "int8") for p in params]
    keeps_bits(*(f(module(integers, attention)) for f in (lambda m: m, combine_parallel_matmul)))


def test_constants_are_joined_at_compile_time():
    before = module((X,), lambda x: attention(x, weights(4, 5), weights(4, 6)))
    after = settled(lambda mod: fold_constants(combine_parallel_matmul(mod)), before)
    assert operators(after) == ["matmul", "strided_slice", "strided_slice"]
    assert_same(before, after)
    x = np.ones((3, 4), np.float32)
    for a, b in zip(built(before, x), built(after, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_dense_is_combined_along_its_rows_with_batches_and_dtypes():
    params = tensor("x", (2, 3, 4), "int8"), *(tensor(n, (5, 4), "int8") for n in "uvw")
    before = module(params, lambda x, *ws: tuple(op.dense(x, w, out_dtype="int32") for w in ws))
    after = settled(combine_parallel_matmul, before)
    assert operators(after).count("dense") == 1
    keeps_bits(before, after)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, u, v: (op.matmul(x, u), op.matmul(op.relu(x), v)),
        lambda x, u, v: (op.matmul(x, op.relu(u)), op.matmul(x, v)),
        lambda x, u, v: (op.matmul(x, u), op.dense(x, v)),
        lambda x, u, v: (op.matmul(x, u), op.matmul(x, v, out_dtype="float64")),
        lambda x, u, v: op.matmul(x, u),
    ],
)
def test_what_has_no_partner_stays(body):
    mod = module([tensor(name, (4, 4)) for name in "xuv"], body)
    assert combine_parallel_matmul(mod) is mod


# fold_batch_norm


def batch_norm(y, shape, channels, dtype="float32"):
    """Inference: (y - mean) / sqrt(variance + epsilon) * gamma + beta."""
    parts = [constant(RNG.uniform(0.5, 2, channels).reshape(shape), dtype) for _ in range(4)]
    mean, variance, gamma, beta = parts
    normal = op.divide(op.subtract(y, mean), op.sqrt(op.add(variance, constant(1e-5, dtype))))
    return op.add(op.multiply(normal, gamma), beta)


CONVOLUTIONS = [
    ((2, 3, 6, 6), lambda x: op.conv2d(x, weights(8, 3, 3, 3), padding=1), (1, 8, 1, 1)),
    ((2, 3, 6, 6), lambda x: op.conv2d(x, weights(8, 3, 3, 3), padding=1), (8, 1, 1)),
    (
        (2, 6, 5, 3),
        lambda x: op.conv2d(x, weights(3, 3, 3, 8), data_layout="NHWC", kernel_layout=""),
        (8,),
    ),
    (
        (2, 3, 6, 6),
        lambda x: op.conv2d(x, weights(3, 8, 3, 3), kernel_layout="IOHW", out_layout="NHWC"),
        (1, 8),
    ),
    ((2, 4, 5, 5), lambda x: op.conv2d(x, weights(8, 2, 3, 3), groups=2), (8, 1, 1)),
    ((2, 3, 9), lambda x: op.conv1d(x, weights(8, 3, 3)), (8, 1)),
    ((5, 3), lambda x: op.dense(x, weights(8, 3)), (8,)),
    ((2, 5, 3), lambda x: op.matmul(x, weights(3, 8)), (1, 1, 8)),
    ((2, 5, 3), lambda x: op.matmul(x, weights(2, 3, 8)), (8,)),
]


@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
def test_a_normalization_becomes_weights_and_a_shift(case):
    shape, product, along = CONVOLUTIONS[case]
    x = tensor("x", shape)
    before = fold_constants(module((x,), lambda x: op.relu(batch_norm(product(x), along, 8))))
    after = settled(fold_batch_norm, before)
    assert len(operators(after)) == 3 and operators(after)[1:] == ["add", "relu"]
    assert_same(before, after, seed=case)


def test_a_bias_is_scaled_too():
    bias = weights(8)

    def body(x):
        return batch_norm(op.bias_add(op.conv2d(x, weights(8, 3, 1, 1)), bias), (8, 1, 1), 8)

    before = fold_constants(module((tensor("x", (1, 3, 4, 4)),), body))
    after = settled(fold_batch_norm, before)
    assert operators(after) == ["conv2d", "add"]
    assert_same(before, after)
    x = np.ones((1, 3, 4, 4), np.float32)
    np.testing.assert_allclose(built(before, x), built(after, x), rtol=1e-5, atol=1e-5)


@pytest.mark.requires("torch")
def test_it_is_what_torch_computes():
    import torch

    conv = torch.nn.Conv2d(3, 8, 3).eval()
    norm = torch.nn.BatchNorm2d(8).eval()
    with torch.no_grad():
        for value in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
            value.uniform_(0.5, 2)
        x = torch.randn(2, 3, 6, 6)
        wanted = norm(conv(x)).numpy()
    w, b = (constant(v.detach().numpy()) for v in (conv.weight, conv.bias))
    mean, variance, gamma, beta = (
        constant(v.detach().numpy().reshape(8, 1, 1))
        for v in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )

    def body(x):
        y = op.subtract(op.bias_add(op.conv2d(x, w), b), mean)
        scale = op.multiply(gamma, op.rsqrt(op.add(variance, np.float32(norm.eps))))
        return op.add(op.multiply(y, scale), beta)

    folded = fold_batch_norm(fold_constants(module((tensor("x", (2, 3, 6, 6)),), body)))
    result = mlc.interpret(folded, "main", x.numpy())
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: op.multiply(op.conv2d(x, weights(4, 3, 1, 1)), weights(5, 5)),
        lambda x: op.multiply(op.conv2d(x, weights(1, 3, 1, 1)), weights(4, 1, 1)),
        lambda x: op.multiply(op.relu(op.conv2d(x, weights(4, 3, 1, 1))), weights(4, 1, 1)),
        lambda x: op.multiply(weights(2, 1, 4, 1, 1), op.conv2d(x, weights(4, 3, 1, 1))),
        lambda x: op.divide(weights(4, 1, 1), op.conv2d(x, weights(4, 3, 1, 1))),
    ],
)
def test_what_is_no_factor_of_a_channel_stays(body):
    mod = module((tensor("x", (1, 3, 5, 5)),), body)
    assert fold_batch_norm(mod) is mod


ODD = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e38)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["divide", "multiply"])
@pytest.mark.parametrize("shift", [False, True])
def test_a_factor_that_makes_infinities_of_terms_stays(odd, name, shift):
    factor = np.array([1 / odd if (odd, name) == (1e38, "divide") else odd, 2], np.float32)
    w = constant(np.array([[300.0, 1], [-300.0, 1]], np.float32))
    b = constant(np.array([3.0, 1], np.float32))

    def body(x):
        product = op.matmul(x, w)
        product = op.add(product, b) if shift else product
        return getattr(op, name)(product, constant(factor))

    mod, x = module((tensor("x", (1, 2)),), body), np.ones((1, 2), np.float32)
    assert fold_batch_norm(mod) is mod
    with np.errstate(all="ignore"):
        wanted = mlc.interpret(mod, "main", x)
    np.testing.assert_array_equal(built(fold_batch_norm(mod), x), wanted)
    plain = passes.fold_constants(module((tensor("x", (1, 2)),), lambda x: body(x)))
    assert operators(plain) == operators(mod)


def test_a_convolution_that_others_use_keeps_its_weights():
    w = weights(4, 3, 1, 1)

    def body(x):
        return op.multiply(op.conv2d(x, w), weights(4, 1, 1)), op.relu(op.conv2d(x, w))

    mod = passes.eliminate_common_subexpr(module((tensor("x", (1, 3, 5, 5)),), body))
    assert operators(mod).count("conv2d") == 1
    assert fold_batch_norm(mod) is mod


def test_sums_in_another_dtype_are_scaled_there():
    x = tensor("x", (3, 4), "float16")

    def body(x):
        product = op.matmul(x, weights(4, 5, dtype="float16"), out_dtype="float32")
        return op.multiply(product, weights(5))

    mod = module((x,), body)
    assert fold_batch_norm(mod) is mod


def test_it_is_not_in_the_default_pipeline():
    assert not {fold_batch_norm, combine_parallel_matmul} & {*passes.default_pipeline}


def test_a_matrix_by_a_vector_has_no_channels():
    """A scale of each row is none of the vector's elements; by one of all, the sums could be."""
    before = module(
        (tensor("x", (4, 4)),), lambda x: op.multiply(op.matmul(x, weights(4)), weights(4))
    )
    assert fold_batch_norm(before) is before


@pytest.mark.parametrize("name", ["matmul", "dense"])
def test_products_of_a_vector(name):
    def body(v, w):
        turned = op.permute_dims(w, (1, 0))
        both = [getattr(op, name)(v, each) for each in (w, turned)]
        return op.add(*both)

    before = module((tensor("v", (4,)), tensor("w", (4, 4))), body)
    for transform in (fold_transposes, combine_parallel_matmul):
        assert_same(before, settled(transform, before))
