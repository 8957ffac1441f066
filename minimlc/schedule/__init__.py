"""Schedule primitives: as methods of an immutable `Schedule`, and as functions of a module."""

from minimlc.schedule.schedule import Schedule, on_module
from minimlc.schedule.tensor.intrin import TensorIntrin, find_intrin, intrins, register_intrin
from minimlc.schedule.trace import PRIMITIVES, Trace

split = on_module("split")
fuse = on_module("fuse")
reorder = on_module("reorder")
loop_partition = on_module("loop_partition")
merge = on_module("merge")
add_unit_loop = on_module("add_unit_loop")
parallel = on_module("parallel")
vectorize = on_module("vectorize")
unroll = on_module("unroll")
bind = on_module("bind")
compute_at = on_module("compute_at")
reverse_compute_at = on_module("reverse_compute_at")
compute_inline = on_module("compute_inline")
reverse_compute_inline = on_module("reverse_compute_inline")
decompose_reduction = on_module("decompose_reduction")
rfactor = on_module("rfactor")
decompose_sum = on_module("decompose_sum")
fuse_reduction_epilogue = on_module("fuse_reduction_epilogue")
decompose_padding = on_module("decompose_padding")
pad_einsum = on_module("pad_einsum")
cache_read = on_module("cache_read")
cache_write = on_module("cache_write")
cache_inplace = on_module("cache_inplace")
reindex = on_module("reindex")
set_scope = on_module("set_scope")
storage_align = on_module("storage_align")
transform_layout = on_module("transform_layout")
transform_block_layout = on_module("transform_block_layout")
reorder_block_iter_var = on_module("reorder_block_iter_var")
rolling_buffer = on_module("rolling_buffer")
blockize = on_module("blockize")
tensorize = on_module("tensorize")
annotate = on_module("annotate")
unannotate = on_module("unannotate")

__all__ = [
    "PRIMITIVES",
    "Schedule",
    "TensorIntrin",
    "Trace",
    "add_unit_loop",
    "annotate",
    "bind",
    "blockize",
    "cache_inplace",
    "cache_read",
    "cache_write",
    "compute_at",
    "compute_inline",
    "decompose_padding",
    "decompose_reduction",
    "decompose_sum",
    "find_intrin",
    "fuse",
    "fuse_reduction_epilogue",
    "intrins",
    "loop_partition",
    "merge",
    "pad_einsum",
    "parallel",
    "register_intrin",
    "reindex",
    "reorder",
    "reorder_block_iter_var",
    "reverse_compute_at",
    "reverse_compute_inline",
    "rfactor",
    "rolling_buffer",
    "set_scope",
    "split",
    "storage_align",
    "tensorize",
    "transform_block_layout",
    "transform_layout",
    "unannotate",
    "unroll",
    "vectorize",
]
