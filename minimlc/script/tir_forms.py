"""The names of the loop language: how each construct is called, by where it stands."""

from minimlc.dtypes import DTYPES
from minimlc.script.constructs import Form, forms
from minimlc.tir.intrinsics import INTRINSICS
from minimlc.tir.nodes import ITER_KINDS, LOOP_KINDS, IterKind, LoopKind

BUFFER = Form('T.Buffer(shape, dtype="float32", scope="global")')
VALUES = forms(
    "T.max(a, b)",
    "T.min(a, b)",
    "T.floordiv(a, b)",
    "T.floormod(a, b)",
    "T.if_then_else(condition, a, b)",
    "T.Select(condition, a, b)",
    "T.cast(value, dtype)",
    "T.infinity(dtype)",
    "T.min_value(dtype)",
    "T.max_value(dtype)",
    *(record.usage for record in INTRINSICS.values()),
    *(f"T.{name}(value)" for name in DTYPES),
)
LOOPS = forms(
    "T.serial(extent, stop=None, annotations=None)",
    "T.parallel(extent, stop=None, annotations=None)",
    "T.vectorized(extent, stop=None, annotations=None)",
    "T.unroll(extent, stop=None, annotations=None)",
    "T.thread_binding(extent, stop=None, thread=None, annotations=None)",
    "T.grid(*extents)",
    "range(extent, stop=None, step=None)",
)
LOOP_KIND_OF: dict[str, LoopKind] = {spelling: kind for kind, spelling in LOOP_KINDS.items()}
ACTIONS = forms(
    "T.where(condition)",
    "T.block_attr(attributes)",
    "T.reads(*regions)",
    "T.writes(*regions)",
)
FUNC_ATTR = forms("T.func_attr(attributes)")
ALLOCS = forms(
    'T.alloc_buffer(shape, dtype="float32", scope="global")',
    'T.decl_buffer(shape, dtype="float32", data=None, strides=None, elem_offset=None, '
    'scope="global")',
)
AXIS_KIND_OF: dict[str, IterKind] = {
    **{f"T.axis.{kind}": kind for kind in ITER_KINDS},
    **{spelling: kind for kind, spelling in ITER_KINDS.items()},
}
AXES = forms(
    "T.axis.remap(kinds, loops)", *(f"{name}(extent, value)" for name in sorted(AXIS_KIND_OF))
)
MATCH = forms('T.match_buffer(handle, shape, dtype="float32", scope="global")')
CONTEXTS = forms("T.block(name)", "T.init()")

FORMS = {
    "value": VALUES,
    "action": {**ACTIONS, **FUNC_ATTR},
    "assign": {**ALLOCS, **AXES, **MATCH},
    "with": CONTEXTS,
}
