"""Samples of operators that others give: (shapes, attributes) of each, for `op_cases`."""

from typing import Any

Samples = list[tuple[list[Any], dict[str, Any]]]

ONE: Samples = [([(7,)], {}), ([()], {})]
TWO: Samples = [([(7,), (7,)], {}), ([(3, 1), (1, 11)], {})]
SCAN: Samples = [
    ([(7,)], {"axis": 0}),
    ([(2, 5, 3)], {"axis": 1, "exclusive": True}),
    ([(4, 1)], {"axis": -1, "reverse": True}),
    ([(9,)], {"axis": 0, "exclusive": True, "reverse": True}),
    ([(0, 2)], {"axis": 0, "exclusive": True}),
]
ROUNDED_UP = {"ceil_mode": True, "count_include_pad": True}
LOSS: Samples = [([(7,), (7,)], {}), ([(2, 3), (2, 3)], {"reduction": "none"})]
CLASSES: Samples = [
    ([(4, 5), (4,)], {}),
    ([(3, 4), (3,), (4,)], {"reduction": "sum"}),
    ([(2, 3, 2), (2, 2), (3,)], {"ignore_index": 1}),
    ([(2, 3), (2,)], {"reduction": "none", "ignore_index": 0}),
]
_ELEMENTWISE = (
    *("tan", "atan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "log1p"),
    *("exp2", "log2", "log10", "reciprocal", "identity", "trunc", "signbit", "bitwise_not"),
    *("mish", "log_sigmoid", "softsign", "tanh_shrink", "hard_swish"),
)
_PAIRS = (
    *("atan2", "copysign", "fmod", "mod", "floor_divide", "trunc_divide", "logaddexp"),
    *("left_shift", "right_shift"),
)
SAMPLES: dict[str, Samples] = {
    **dict.fromkeys(_ELEMENTWISE, ONE),
    **dict.fromkeys(_PAIRS, TWO),
    "elu": [([(7,)], {}), ([()], {"alpha": 0.5})],
    "celu": [([(7,)], {}), ([()], {"alpha": 2.0})],
    "hard_sigmoid": [([(7,)], {}), ([(3,)], {"alpha": 0.2})],
    "thresholded_relu": [([(7,)], {}), ([(3,)], {"alpha": 0.5})],
    "hard_shrink": [([(7,)], {}), ([(3,)], {"lambd": 1.0})],
    "soft_shrink": [([(7,)], {}), ([(3,)], {"lambd": 1.0})],
    "swish": [([(7,)], {}), ([(3,)], {"beta": 1.5})],
    "masked_fill": [([(7,), (7,)], {"value": 1}), ([(2, 3), (3,)], {"value": 0})],
    "norm": [
        ([(7,)], {}),
        ([(2, 3, 4)], {"axis": (0, -1), "p": 1, "keepdims": True}),
        ([(3, 5)], {"axis": 1, "p": 3.0}),
        ([(3, 5)], {"axis": 0, "p": float("inf")}),
        ([(3, 5)], {"axis": -1, "p": float("-inf")}),
    ],
    "logsumexp": [([(7,)], {}), ([(2, 3, 4)], {"axis": (0, 2), "keepdims": True})],
    "hardmax": [([(7,)], {}), ([(2, 3, 4)], {"axis": 1})],
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), SCAN),
    **dict.fromkeys(("mse_loss", "l1_loss", "binary_cross_entropy_with_logits"), LOSS),
    **dict.fromkeys(("kl_div", "binary_cross_entropy"), LOSS),
    "huber_loss": [([(7,), (7,)], {"delta": 0.5}), ([(3,), (3,)], {"reduction": "sum"})],
    **dict.fromkeys(("nll_loss", "cross_entropy"), CLASSES),
}
SAMPLES |= {
    "threefry2x32": [([(2,), (3,), (3,)], {}), ([(2,), (1, 2), (1, 2)], {})],
    "random_bits": [([(2,)], {"shape": (2, 3)}), ([(2,)], {"shape": (0,)})],
    "random_split": [([(2,)], {}), ([(2,)], {"num": 3})],
    "random_uniform": [([(2,)], {"shape": (2, 3)}), ([(2,)], {"shape": (), "low": -2.0})],
    "random_normal": [([(2,)], {"shape": (5,)})],
}
SAMPLES |= {
    "batch_norm": [
        ([(2, 3, 4), (3,), (3,), (3,), (3,)], {}),
        ([(2, 3), (3,), (3,), (3,), (3,)], {"axis": -1, "epsilon": 0.1}),
    ],
    "group_norm": [
        ([(2, 4, 3), (4,), (4,)], {"num_groups": 2}),
        ([(2, 5, 6), (6,), (6,)], {"num_groups": 3, "channel_axis": -1, "epsilon": 0.1}),
    ],
    "instance_norm": [
        ([(2, 3, 5), (3,), (3,)], {}),
        ([(2, 2, 4, 3), (3,), (3,)], {"channel_axis": -1}),
    ],
    "lp_normalize": [([(3, 5)], {}), ([(2, 3, 4)], {"p": 1, "axis": 1})],
    "local_response_norm": [
        ([(2, 5, 3)], {"size": 3}),
        ([(1, 4)], {"size": 5, "alpha": 0.5, "beta": 0.5, "bias": 2.0}),
    ],
    "one_hot": [
        ([(4,)], {"depth": 5}),
        ([(2, 3)], {"depth": 7, "axis": 1, "on_value": 2, "off_value": 1, "dtype": "int32"}),
        ([()], {"depth": 3, "dtype": "bool"}),
    ],
    "take_along_axis": [([(3, 5), (3, 2)], {}), ([(4, 2, 3), (6, 2, 3)], {"axis": 0})],
    "gather_nd": [
        ([(3, 4, 2), (5, 2)], {}),
        ([(2, 3, 4), (2, 5, 1)], {"batch_dims": 1}),
        ([(4, 3), (2, 1, 2)], {}),
    ],
    "scatter_elements": [
        ([(4, 3), (2, 3), (2, 3)], {}),
        ([(3, 4), (3, 6), (3, 6)], {"axis": 1, "reduction": "add"}),
        ([(7,), (4,), (4,)], {"reduction": "mul"}),
        ([(7,), (9,), (9,)], {"reduction": "max"}),
        ([(2, 3), (2, 4), (2, 4)], {"axis": -1, "reduction": "min"}),
        ([(3,), (0,), (0,)], {}),
    ],
    "scatter_nd": [
        ([(4, 3), (3, 1), (3, 3)], {}),
        ([(4, 3), (5, 2), (5,)], {"reduction": "add"}),
        ([(2, 3, 2), (2, 2, 2), (2, 2, 2)], {"reduction": "max"}),
    ],
    "argsort": [
        ([(7,)], {}),
        ([(3, 6)], {"axis": 0, "descending": True}),
        ([(2, 9)], {"descending": True}),
        ([(0, 3)], {}),
    ],
    "sort": [([(7,)], {}), ([(5, 3)], {"axis": 0, "descending": True}), ([(3, 0)], {})],
    "first": [([(5, 2)], {"size": 3}), ([(4,), ()], {"size": 0}), ([(0, 3)], {"size": 0})],
    "searchsorted": [
        ([(7,), (9,)], {}),
        ([(9,), (2, 3)], {"right": True}),
        ([(0,), (3,)], {}),
        ([(1,), ()], {"right": True}),
    ],
    "padded_nonzero": [([(7,)], {}), ([(3, 4)], {}), ([(2, 1, 3)], {}), ([(0, 3)], {})],
    "padded_unique": [([(9,)], {}), ([(3, 4)], {}), ([()], {}), ([(0, 2)], {})],
    "topk": [([(7,)], {"k": 3}), ([(5, 3)], {"k": 2, "axis": 0, "largest": False})],
    "pad": [
        ([(3, 2)], {"pad_width": ((1, 2), (0, 1))}),
        ([(5,)], {"pad_width": ((2, 0),), "value": 1}),
        ([(2, 3)], {"pad_width": (1, 0, 0, 2)}),
        ([()], {"pad_width": ()}),
        ([(3, 4)], {"pad_width": ((2, 1), (3, 0)), "mode": "reflect"}),
        ([(3, 1)], {"pad_width": ((2, 1), (3, 0)), "mode": "edge"}),
        ([(3, 2)], {"pad_width": ((2, 1), (5, 3)), "mode": "wrap"}),
    ],
    "roll": [
        ([(5,)], {"shift": 2, "axis": 0}),
        ([(3, 4)], {"shift": (-1, 6), "axis": (0, -1)}),
        ([(0, 2)], {"shift": 1, "axis": 0}),
    ],
    "depth_to_space": [
        ([(1, 8, 2, 3)], {"block_size": 2}),
        ([(2, 4, 1, 3)], {"block_size": 2, "mode": "CRD"}),
    ],
    "space_to_depth": [([(1, 2, 4, 6)], {"block_size": 2})],
    "resize": [
        ([(1, 2, 4, 5)], {"size": (7, 3), "method": "nearest"}),
        (
            [(3, 5)],
            {
                "size": 8,
                "axes": -1,
                "method": "nearest",
                "rounding": "floor",
                "coordinates": "asymmetric",
            },
        ),
    ],
    "diagonal": [([(3, 4)], {}), ([(2, 4, 3)], {})],
    "einsum": [
        ([[(2, 3), (3, 4)]], {"subscripts": "ij,jk->ik"}),
        ([[(2, 3, 4), (2, 4, 5)]], {"subscripts": "bij, bjk"}),
        ([[(3, 3)]], {"subscripts": "ii"}),
        ([[(2,), (3,), (2,)]], {"subscripts": "i,j,i->ji"}),
        ([[(2, 1, 3), (4, 3)]], {"subscripts": "...i,ji->...j"}),
        ([[(3, 4), (4, 5), (5, 2)]], {"subscripts": "ij,jk,kl->il"}),
        ([[(3, 0), (0, 2)]], {"subscripts": "ij,jk->ik"}),
    ],
    "conv3d": [
        ([(1, 2, 4, 5, 4), (3, 2, 2, 3, 3)], {}),
        (
            [(1, 4, 5, 4, 3), (2, 2, 2, 2, 2)],
            {"groups": 2, "strides": (2, 1, 1), "padding": 1, "dilation": (2, 1, 1)},
        ),
    ],
    "conv2d_transpose": [
        ([(1, 2, 3, 4), (2, 3, 3, 2)], {}),
        (
            [(1, 4, 3, 2), (4, 1, 3, 3)],
            {"groups": 2, "strides": (2, 3), "padding": 1, "output_padding": 1},
        ),
        ([(1, 1, 6, 3), (1, 2, 2, 2)], {"dilation": 2, "padding": (3, 0)}),
    ],
    "conv3d_transpose": [
        ([(1, 2, 3, 2, 2), (2, 3, 2, 3, 2)], {}),
        (
            [(1, 4, 2, 3, 2), (4, 1, 3, 2, 3)],
            {"groups": 2, "strides": (2, 1, 2), "padding": 1, "output_padding": (1, 0, 1)},
        ),
        ([(1, 1, 4, 3, 3), (1, 2, 2, 2, 2)], {"dilation": (1, 2, 1), "padding": (1, 0, 1)}),
    ],
    "conv1d_transpose": [
        ([(1, 2, 5), (2, 3, 3)], {}),
        ([(1, 2, 4), (2, 1, 3)], {"strides": 2, "padding": 1, "output_padding": 1}),
    ],
    "gemm": [
        ([(3, 4), (4, 2)], {}),
        ([(4, 3), (2, 4), (2,)], {"trans_a": True, "trans_b": True, "alpha": 0.5, "beta": 2.0}),
    ],
    "rotary_embedding": [
        ([(2, 3, 8), (3, 4), (3, 4)], {}),
        ([(2, 6), (3,), (2, 3)], {"interleaved": True}),
    ],
    **{
        f"{kind}_pool1d": [
            ([(1, 2, 7)], {"pool_size": 3}),
            ([(2, 1, 6)], {"pool_size": 2, "strides": 1, "padding": (1, 0)}),
            ([(1, 2, 8)], {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True}),
        ]
        for kind in ("max", "avg")
    },
    **{
        f"{kind}_pool3d": [
            ([(1, 2, 4, 5, 4)], {"pool_size": 2}),
            ([(1, 1, 5, 4, 3)], {"pool_size": (3, 2, 2), "strides": (2, 1, 1), "padding": 1}),
            ([(1, 1, 6, 5, 4)], {"pool_size": 3, "strides": 2, "padding": 1, **ROUNDED_UP}),
        ]
        for kind in ("max", "avg")
    },
    **{f"adaptive_{kind}_pool1d": [([(1, 2, 7)], {"output_size": 3})] for kind in ("max", "avg")},
    "adaptive_max_pool2d": [
        ([(1, 2, 5, 7)], {"output_size": (2, 4)}),
        ([(1, 5, 3, 2)], {"output_size": 2, "layout": "NHWC"}),
    ],
    **{
        f"adaptive_{kind}_pool3d": [([(1, 1, 5, 3, 4)], {"output_size": (2, 3, 3)})]
        for kind in ("max", "avg")
    },
}
WITH_NAN = (*_ELEMENTWISE, *_PAIRS, "elu", "celu", "hard_shrink", "thresholded_relu")
WITH_NAN += ("searchsorted", "padded_nonzero", "padded_unique", "first")
WITH_NAN += ("argsort", "sort", "topk", "take_along_axis", "gather_nd", "roll")
"""Operators that are also given NaN and infinities."""

UNIT = ("binary_cross_entropy", "kl_div", "batch_norm", "quantize")
"""Operators of numbers between 0 and 1."""

SAMPLES |= {
    **{
        name: [
            ([(13,)], {}),
            ([(3, 5, 7)], {"axis": (0, -1), "keepdims": True}),
            ([(3, 5)], {"axis": 1, "correction": 1}),
        ]
        for name in ("variance", "std")
    },
    "slice_scatter": [
        ([(7, 2), (3, 2)], {"begin": 1, "end": 6, "stride": 2}),
        ([(3, 5), (3, 2)], {"begin": -2, "end": 9, "axis": -1}),
        ([(4,), (0,)], {"begin": 3, "end": 1}),
    ],
    "glu": [([(6,)], {}), ([(2, 4, 3)], {"axis": 1})],
    "eye_like": [([(3, 4)], {}), ([(2, 3, 3)], {"k": -1})],
    "attention": [
        ([(1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 3)], {}),
        ([(2, 3, 1, 2), (2, 3, 1, 2), (2, 3, 1, 2), (3, 3)], {"scale": 0.5}),
        ([(1, 3, 4, 2), (1, 5, 2, 2), (1, 5, 2, 2)], {"causal_mask": "BottomRight"}),
        ([(1, 4, 2, 2), (1, 4, 1, 2), (1, 4, 1, 3)], {"causal_mask": "TopLeft"}),
        ([(2, 5, 2, 3), (2, 2, 2, 3), (2, 2, 2, 3)], {"causal_mask": "BottomRight"}),
    ],
    "quantize": [
        ([(7,), (1,), (1,)], {"dtype": "uint8"}),
        ([(2, 3), (3,), (3,)], {"axis": -1}),
        ([(5,), ()], {"dtype": "int16"}),
    ],
    "dequantize": [([(7,), (1,), (1,)], {}), ([(2, 3), (2,), (2,)], {"axis": 0}), ([(5,), ()], {})],
    "fake_quantize": [([(7,)], {"scale": 0.05, "zero_point": 3, "low": 0, "high": 255})],
    "dynamic_quantize": [([(7,)], {}), ([(2, 3)], {})],
    "matmul_integer": [
        ([(3, 4), (4, 2)], {}),
        ([(2, 3, 4), (4, 2), (), ()], {}),
    ],
    "rnn": [([(4, 2, 3), (5, 3), (5, 5)], {}), ([(3, 1, 2), (2, 2), (2, 2), (2,), (1, 2)], {})],
    "lstm": [
        ([(3, 2, 3), (8, 3), (8, 2)], {}),
        ([(2, 1, 2), (12, 2), (12, 3), (12,), (1, 3), (1, 3)], {"reverse": True}),
    ],
    "gru": [
        ([(3, 2, 3), (6, 3), (6, 2)], {}),
        ([(2, 1, 2), (9, 2), (9, 3), (9,), (9,), (1, 3)], {"reverse": True}),
    ],
}
INDEX_RANGE = {"nll_loss": (0, 3), "cross_entropy": (0, 3)}
"""From where to where (exclusive) the indices go that an operator takes."""
