"""convert_layout: images in one order of axes, permuted where they come in and go out."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import constant
from minimlc.graphs.ops import call_op, evaluate, find_op
from minimlc.graphs.passes import convert_layout
from minimlc.services.passes.convert_layout import ELEMENTWISE
from tests.helpers import assert_same, random_array
from tests.passes.rewriting import module, operators, settled, tensor

RNG = np.random.default_rng(0)
IMAGE = tensor("x", (2, 6, 5, 3))


def weights(*shape, dtype="float32"):
    return constant(RNG.standard_normal(shape), dtype)


def conv(x, channels, size=3, **options):
    filters = weights(size, size, x.type.shape[3] // options.get("groups", 1), channels)
    return op.conv2d(x, filters, data_layout="NHWC", kernel_layout="HWIO", **options)


def block(x):
    """Operators between the convolutions of a network of images, all with channels last."""
    y = op.relu(op.bias_add(conv(x, 4, padding=1), weights(4), axis=-1))
    y = op.batch_norm(conv(y, 4, padding=1), *(abs_weights(4) for _ in range(4)), axis=3)
    y = op.add(y, conv(x, 4, 1))
    y = op.max_pool2d(op.clip(y, min=-1.0, max=3.0), pool_size=2, layout="NHWC")
    y = op.concat((y, op.multiply(op.sigmoid(y), weights(1, 4))), axis=-1)
    return op.softmax(op.mean(conv(y, 5, 1), axis=(1, 2)))


def abs_weights(size):
    return constant(np.abs(RNG.standard_normal(size)) + 0.5, "float32")


def test_images_are_permuted_at_the_ends_only():
    before = module([IMAGE], block)
    after = passes.fold_constants(settled(convert_layout, before))
    after = passes.eliminate_common_subexpr(after)
    assert operators(after).count("permute_dims") == 1, "the input; means have no image's axes"
    assert operators(after)[0] == "permute_dims"
    layouts = [
        value.attr(name)
        for value in (binding.value for binding in after["main"].bindings())
        for name in ("layout", "data_layout")
        if name in dict(value.attrs)
    ]
    assert set(layouts) == {"NCHW"} and len(layouts) == 5
    assert_same(before, after)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "HWNC", "CNHW"])
def test_any_order_of_axes_means_the_same(layout):
    before = module([IMAGE], block)
    after = settled(lambda mod: convert_layout(mod, layout), before)
    assert_same(before, after)
    x = random_array((2, 6, 5, 3), "float32", np.random.default_rng(1))
    results = [mlc.build(mod, cache=False)["main"](x) for mod in (before, after)]
    np.testing.assert_allclose(*results, atol=1e-5)


def test_what_is_in_the_layout_stays():
    before = module([IMAGE], block)
    after = passes.fold_constants(convert_layout(before, "NHWC"))
    assert operators(after) == operators(before), "weights alone were permuted"
    first = convert_layout(before)
    assert convert_layout(first) is first


def test_images_that_go_out_are_as_they_were():
    def both(x):
        y = op.relu(conv(x, 4))
        return y, op.exp(y)

    before = passes.eliminate_common_subexpr(module([IMAGE], both))
    after = passes.fold_constants(settled(convert_layout, before))
    names = operators(after)
    assert names.count("permute_dims") == 3 and names.index("relu") < names.index("exp")
    assert_same(before, after)


@pytest.mark.parametrize(
    ("formula", "permuted"),
    [
        (lambda x, y: op.add(conv(x, 3, 1), y), 2),  # y is another image: it would be permuted
        (lambda x, y: op.add(conv(x, 3, 1), conv(y, 3, 1)), 3),
        (lambda x, y: op.add(op.mean(conv(x, 3, 1), axis=-1, keepdims=True), y), 2),
        (lambda x, y: op.sum(conv(x, 3, 1), axis=(0, 3)), 1),
        (lambda x, y: op.max(conv(x, 3, 1), axis=1), 2),
        (lambda x, y: op.reshape(conv(x, 3, 1), (2, -1)), 2),
        (lambda x, y: op.permute_dims(conv(x, 3, 1), (0, 3, 1, 2)), 1),
        (lambda x, y: op.adaptive_avg_pool2d(y, output_size=1, layout="NHWC"), 0),  # no convolution
        (lambda x, y: op.layer_norm(conv(x, 3, 1), weights(3), weights(3)), 2),
        (lambda x, y: conv(op.rms_norm(conv(x, 3, 1), weights(3)), 3, 1), 2),
        (lambda x, y: op.ewise_fma(weights(3), conv(x, 3, 1), y), 2),
        (lambda x, y: op.where(op.greater(conv(x, 3, 1), 0.0), 1.0, weights(3)), 2),
    ],
)
def test_where_permutations_are_left(formula, permuted):
    other = tensor("y", (2, 6, 5, 3))
    before = module([IMAGE, other], formula)
    after = passes.fold_constants(settled(convert_layout, before))
    assert operators(after).count("permute_dims") == permuted, after.script()
    assert_same(before, after)


@pytest.mark.parametrize(("data", "kernel", "out"), [("NCHW", "HWIO", ""), ("NHWC", "", "NCHW")])
def test_weights_and_results_in_another_layout(data, kernel, out):
    """An image that is as it should be needs no permutation."""
    params = [tensor("x", (2, 3, 3, 3)), tensor("w", (2, 2, 3, 4))]
    layouts = {"data_layout": data, "kernel_layout": kernel, "out_layout": out}
    before = module(params, lambda x, w: op.conv2d(x, w, **layouts))
    after = settled(convert_layout, before)
    (moved, *more, name) = operators(after)
    assert (moved, name) == ("permute_dims", "conv2d") and len(more) == (data == "NHWC")
    assert_same(before, after)


def test_networks_with_channels_last_are_those_with_channels_first():
    """By default: the same primitive functions, once the image is permuted."""
    filters = RNG.standard_normal((4, 3, 3, 3))

    def last(x):
        w = constant(filters.transpose(2, 3, 1, 0), "float32")
        y = op.conv2d(x, w, data_layout="NHWC", kernel_layout="")
        return op.mean(op.relu(y), axis=(1, 2))

    def first(x):
        return op.mean(op.relu(op.conv2d(x, constant(filters, "float32"))), axis=(2, 3))

    both = module([IMAGE], last), module([tensor("x", (2, 3, 6, 5))], first)
    built = [mlc.run_passes(mod, passes.default_pipeline) for mod in both]
    names = [[name for name, func in mod.entries if "conv2d" in name] for mod in built]
    assert names[0] == names[1]
    assert mlc.structural_equal(*(mod[name[0]] for mod, name in zip(built, names, strict=True)))


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_operators_that_are_called_elementwise_are(name):
    """Permuting what goes in permutes what comes out."""
    record = find_op(name)
    attrs = {"dtype": "float16"} if name == "cast" else {}
    attrs |= {"min": 0.2, "max": 0.7} if name == "clip" else {}
    dtypes = dict(record.param_dtypes)
    arrays = [
        random_array((2, 3, 4), dtypes.get(param, record.dtypes)[0], np.random.default_rng(at))
        for at, param in enumerate(record.params[: record.required])
    ]
    there = [array.transpose(2, 0, 1) for array in arrays]
    results = [
        evaluate(call_op(name, *map(constant, each), **attrs), each) for each in (arrays, there)
    ]
    np.testing.assert_array_equal(results[0].transpose(2, 0, 1), results[1])


@pytest.mark.parametrize("layout", ["NCH", "nhwc", 3, None])
def test_another_layout_is_refused(layout):
    with pytest.raises(mlc.CompileError, match=r"E230.*is no layout of images"):
        convert_layout(module([IMAGE], op.relu), layout)
