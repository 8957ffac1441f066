"""One order of axes for all images of a function."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from minimlc.graphs.ir.nodes import Call, Constant, Expr, Function, TensorType, Tuple
from minimlc.graphs.ir.scope import refuse
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import OPS, call_op
from minimlc.graphs.ops.checks import axes_of
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.networks.window import IMAGE, KERNEL
from minimlc.services.passes.simplify import axes_order

LAYOUTS = {op.name: a for op in OPS.values() for a, _ in op.attrs if a in ("layout", "data_layout")}
"""The attribute that names the layout of an operator's image, by operator."""
REDUCTIONS = {"all", "any", "max", "mean", "min", "prod", "std", "sum", "variance"}
ALONG = {
    **dict.fromkeys(
        ("batch_norm", "bias_add", "concat", "log_softmax", "prelu", "softmax"), "axis"
    ),
    **dict.fromkeys(REDUCTIONS, "axis"),
    **dict.fromkeys(("layer_norm", "rms_norm"), "axes"),
}
"""The attribute that names the image axes along which an operator works, by operator; its other
arguments have none of the other axes.
"""
ELEMENTWISE = {
    op.name
    for op in OPS.values()
    if op.formula.__module__.rpartition(".")[2] in ("activation", "broadcast", "elementwise")
    and "axis" not in dict(op.attrs)
}


@module_pass
def convert_layout(mod: IRModule, layout: str = IMAGE) -> IRModule:
    """Let convolutions and pools take and give images whose axes are in the order of `layout`.

        lv = R.conv2d(x, w, data_layout="NHWC")         lv = R.permute_dims(x, axes=(0, 3, 1, 2))
        lv1 = R.relu(lv)                         -->    lv1 = R.conv2d(lv, w, ...)
        lv2 = R.max_pool2d(lv1, layout="NHWC")          lv2 = R.relu(lv1)
                                                        lv3 = R.max_pool2d(lv2, layout="NCHW")
                                                        lv4 = R.permute_dims(lv3, axes=(0, 2, 3, 1))

    In functions with convolutions, images are permuted where they come in and go out: what lies
    between two such operators element by element, along an axis, or as a reduction, is done on the
    permuted image. Weights come to OIHW. What nothing uses then is for `remove_unused`, permuted
    constants for `fold_constants`.
    Legal because each element is computed as before: sums are added in the same order, or stay.
    `CompileError` E230 if `layout` is no order of NCHW.
    """
    if not isinstance(layout, str) or sorted(layout) != sorted(IMAGE):
        why = f"convert_layout: {layout!r} is no layout of images"
        refuse(why, "E230", f"layout: an order of {IMAGE}, NHWC for example")
    return _Convert(layout)(mod)


class Moved(NamedTuple):
    """A value that is `source` with its axes in the order `axes`."""

    source: Expr
    axes: tuple[int, ...]


class _Convert(Mutator):
    def __init__(self, layout: str):
        self.layout = layout

    def rewrite_function(self, func: Function) -> Function:
        """Pools alone are not worth two permutations."""
        values = [binding.value for binding in func.bindings()]
        if any(isinstance(value, Call) and value.op == "conv2d" for value in values):
            return super().rewrite_function(func)
        return func

    def visit_Call(self, call: Call) -> Expr:
        if call.op in LAYOUTS:
            return self.converted(call)
        if call.op == "permute_dims" and self.moved(call.args[0]):
            return self.permuted(call.args[0], axes_order(call))
        if call.op in ELEMENTWISE:
            return self.elementwise(call)
        if call.op in ALONG:
            return self.along(call)
        return call

    def converted(self, call: Call) -> Expr:
        """An operator of images, which are permuted before it and after it."""
        name = LAYOUTS[call.op]
        attrs: dict[str, Any] = dict(call.attrs)
        layout, kernel = attrs[name], attrs.get("kernel_layout", KERNEL)
        kernel = kernel or ("HWIO" if layout == "NHWC" else KERNEL)
        out = attrs.get("out_layout") or layout
        if layout == out == self.layout and kernel == KERNEL:
            return call
        wanted = {name: self.layout, "kernel_layout": KERNEL, "out_layout": ""}
        attrs |= {key: value for key, value in wanted.items() if key in attrs}
        image, *weights = call.args
        weights = [self.permuted(w, [kernel.index(axis) for axis in KERNEL]) for w in weights]
        image = self.permuted(image, [layout.index(axis) for axis in self.layout])
        new = self.builder.emit(call_op(call.op, image, *weights, **attrs))
        return self.permuted(new, [self.layout.index(axis) for axis in out])

    def elementwise(self, call: Call) -> Expr:
        """An elementwise operator, applied to the sources of its permuted images."""
        pairs = [(arg, self.moved(arg)) for arg in call.args]
        whole = [(arg, moved) for arg, moved in pairs if arg.shape == call.shape]
        axes = next((moved.axes for _, moved in whole if moved), None)
        others = [arg for arg, moved in whole if not moved or moved.axes != axes]
        if axes is None or not all(isinstance(arg, Constant) for arg in others):
            return call  # there is another image, which would have to be permuted
        sources = []
        for arg, moved in pairs:
            if moved and moved.axes == axes and arg.shape == call.shape:
                sources.append(moved.source)
            elif arg.shape == ():
                sources.append(arg)
            else:
                sources.append(self.permuted(self.spread(arg, len(axes)), _inverse(axes)))
        return self.permuted(self.again(call, sources), axes)

    def along(self, call: Call) -> Expr:
        """An operator along an axis, or over some, applied to the source of its permuted image."""
        first = call.args[0]
        fields = first.fields if isinstance(first, Tuple) else (first,)
        moved = [self.moved(field) for field in fields]
        if not all(moved) or len({item.axes for item in moved if item}) != 1:
            return call
        sources, axes = [item.source for item in moved if item], moved[0].axes  # type: ignore[union-attr]
        name = ALONG[call.op]
        over = axes_of(call.attr(name), len(axes))
        there: Any = tuple(axes[axis] for axis in over)
        if list(there) != sorted(there) or (name == "axes" and len(there) > 1):
            return call  # it would add in another order; or take weights of several axes
        image = tuple(sources) if isinstance(first, Tuple) else sources[0]
        value = there if name == "axes" or call.op in REDUCTIONS else there[0]
        new = self.again(call, [image, *call.args[1:]], **{name: value})
        if call.op in REDUCTIONS and not call.attr("keepdims"):
            axes = tuple(axis for axis in axes if axis not in there)
            axes = tuple(sorted(axes).index(axis) for axis in axes)
        return self.permuted(new, axes)

    def again(self, call: Call, args: Sequence[Any], **attrs: Any) -> Expr:
        return self.builder.emit(call_op(call.op, *args, **{**dict(call.attrs), **attrs}))

    def moved(self, value: Expr) -> Moved | None:
        """The source and axes of a value that is another one permuted; None for any other."""
        call = self.lookup_binding(value)
        if isinstance(call, Call) and call.op == "permute_dims":
            return Moved(call.args[0], axes_order(call))
        return None

    def permuted(self, value: Expr, axes: Sequence[int]) -> Expr:
        """`value` with its axes in another order, in one step."""
        before = self.moved(value)
        if before:
            value, axes = before.source, [before.axes[axis] for axis in axes]
        if list(axes) == sorted(axes):
            return value
        return self.builder.emit(call_op("permute_dims", value, axes=tuple(axes)))

    def spread(self, value: Expr, ndim: int) -> Expr:
        """`value` with axes of size 1 in front, up to `ndim`."""
        assert isinstance(value.type, TensorType)
        more = ndim - len(value.type.shape)
        if not more:
            return value
        return self.builder.emit(call_op("expand_dims", value, axis=tuple(range(more))))


def _inverse(axes: Sequence[int]) -> list[int]:
    return [axes.index(axis) for axis in range(len(axes))]
