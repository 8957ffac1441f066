"""The composition root: which parts the hooks of the rings have, and what can be left out."""

from minimlc.loops.values.parts import hand

VERSION = "0.1.0"

PARTS = {
    "kinds of functions": (
        "services.sizes.families:FAMILY",
        "services.sizes.families:SYMBOLIC",
        "graphs.run:GRAPH",
    ),
    "printers": ("graphs.printer:GraphPrinter",),
    # Loops
    "checks of functions": ("services.checks.unwritten:check_written",),
    "constructs of T": ("services.checks.tir_declared", "services.spellings.tir_let"),
    "checks of blocks": ("services.checks.tir_declared:check_regions",),
    "views of buffers": ("services.spellings.tir_view",),
    "primitives": (
        *("services.layouts.reverse_inline", "services.layouts.layout", "services.primitives"),
        *("services.tensor", "services.net", "services.sampling"),
    ),
    "functions that scripts call": ("services.spellings.macros",),
    "index maps": ("services.layouts.index_map:IndexMap",),
    "preimages": ("services.layouts.preimage:preimage",),
    "races": ("services.checks.programs:race_of",),
    "padding of loops": ("services.layouts.tails:padded",),
    "checks of concurrent loops": ("services.checks.axes:check_thread_axes",),
    "notices": ("services.checks.dropped:warn_if_dropped",),
    "instructions": ("services.llvm.tensor_blocks:TensorBlocks",),
    "machine code": ("loops.llvm.machine",),
    "LLVM's text": ("loops.llvm.emit:emit_llvm",),
    "interruptions": ("services.threads.parallel:interruption",),
    "notes of loops": ("services.llvm.prefetch:prefetch",),
    "tile programs": ("tile:tile",),
    # Graphs
    "languages": ("graphs.text.graph:GRAPH_LEVEL",),
    "control flow": ("services.control.control",),
    "sizes": ("services.sizes.sizes",),
    "functions of operators": (
        "services.sizes.functions:first",
        "services.sizes.functions:match_cast",
        "services.sizes.functions:nonzero",
        "services.sizes.functions:unique",
    ),
    "families": ("services.sizes.symbolic_graphs",),
    "constructs of R": ("services.control.text",),
    "operators": (
        "services.networks.activation",
        "services.networks.attention",
        "services.arrays.einsum",
        "services.arrays.functions",
        "services.arrays.gather",
        "services.networks.image",
        "services.networks.loss",
        "services.networks.network",
        "services.networks.normalize",
        "services.networks.pool",
        "services.networks.quantize",
        "services.arrays.random",
        "services.networks.recurrent",
        "services.arrays.scan",
        "services.arrays.sets",
        "services.arrays.slicing",
        "services.networks.window",
    ),
    "passes": (
        "services.passes.bind_params:bind_params",
        "services.passes.combine_parallel_matmul:combine_parallel_matmul",
        "services.passes.convert_layout:convert_layout",
        "services.passes.eliminate_common_subexpr:eliminate_common_subexpr",
        "services.passes.fold_batch_norm:fold_batch_norm",
        "services.passes.fold_constants:fold_constants",
        "services.passes.fold_transposes:fold_transposes",
        "services.passes.fuse_attention:fuse_attention",
        "services.passes.inline:inline",
        "services.patterns.outline:outline",
        "services.passes.pack_constants:pack_constants",
        "services.patterns.partition:partition",
        "services.passes.remove_unused_outputs:remove_unused_outputs",
        "services.passes.remove_unused_parameters:remove_unused_parameters",
        "services.patterns.rewrite:rewrite",
        "services.passes.scan_by_doubling:scan_by_doubling",
        "services.passes.simplify:simplify",
        "services.passes.sort_long_axes:sort_long_axes",
        "services.passes.split_to_slices:split_to_slices",
        "services.passes.to_mixed_precision:to_mixed_precision",
        "services.control.unroll_recurrent:unroll_recurrent",
    ),
    "pipeline": (
        "services.control.unroll_recurrent:unroll_recurrent",
        "services.passes.convert_layout:convert_layout",
        "services.passes.fold_constants:fold_constants",
        "services.passes.sort_long_axes:sort_long_axes",
        "services.passes.scan_by_doubling:scan_by_doubling",
        "services.passes.simplify:simplify",
        "services.passes.fold_transposes:fold_transposes",
        "services.passes.split_to_slices:split_to_slices",
        "services.passes.eliminate_common_subexpr:eliminate_common_subexpr",
        "graphs.passes.remove_unused:remove_unused",
        "services.passes.fuse_attention:fuse_attention",
        "graphs.passes.legalize:legalize",
        "graphs.passes.fuse_ops:fuse_ops",
        "graphs.passes.fuse_tir:fuse_tir",
        "graphs.passes.remove_unused:remove_unused",
        "recipes:apply",
        "services.passes.pack_constants:pack_constants",
        "graphs.passes.remove_unused:remove_unused",
    ),
    "scheduling": ("recipes:apply",),
    **{
        f"target {name}": (f"targets.{name}.build:build",)
        for name in ("c", "python", "opencl", "cuda")
    },
    "target gpusim": ("gpusim.build:build",),
    **{f"deploy.{name}": (f"deploy.{name}",) for name in ("profile", "memory", "save")},
    "texts for GPUs": ("targets.gpu.texts:texts",),
    "recipes for GPUs": ("recipes.gpu:for_gpu",),
    "text in C": ("targets.c.entries:c_text",),
    "hardware": ("machine.hardware:trusted",),
    "sharing of memory": ("services.native.sharing:share",),
    "facts of functions": ("services.runtime.copies:READY",),
    "libraries": ("services.dispatch",),
    "building": ("services.build",),
    "intrinsics' records": ("services.tensor.intrin",),
    "intrinsics that come with the library": ("services.tensor.intrinsics",),
    "tensor blocks": ("services.llvm.tensor_blocks",),
    "tensor units": ("services.llvm.tensor_units",),
    "tuner": ("tune",),
}
"""The parts of each hook, in order."""

SERVICES = {
    "symbolic sizes": "services.sizes",
    "control flow": "services.control",
    "checks": "services.checks",
    "spellings of scripts": "services.spellings",
    "layouts and index maps": "services.layouts",
    "further primitives": "services.primitives",
    "tensor intrinsics": "services.tensor",
    "equivalence of programs": "services.equivalence",
    "the safety net": "services.net",
    "random decisions": "services.sampling",
    "threads": "services.threads",
    "caches": "services.caches",
    "array operators": "services.arrays",
    "network operators": "services.networks",
    "patterns": "services.patterns",
    "further passes": "services.passes",
    "libraries": "services.dispatch",
    "further parts of LLVM code": "services.llvm",
    "calls and files": "services.runtime",
    "native code of graphs": "services.native",
    "building": "services.build",
    "explanations": "services.explain",
    "former names": "services.former",
}
"""The services around the rings, each of which can be removed."""

ROOMS = (
    *("targets.source", "targets.c", "targets.gpu", "targets.opencl", "targets.cuda"),
    *("targets.python", "gpusim", "machine", "recipes", "frontends", "homework", "exercise"),
    *("datasets", "tile", "deploy", "apart", "tune"),
)
"""The rooms, each of which can be removed: packages and modules."""

GRAPHS = "graphs"
"""The second ring: a copy of the loops alone does not have it."""

NAMED = {place.partition(":")[0] for places in PARTS.values() for place in places}
hand(PARTS, removable={*NAMED, *ROOMS, *SERVICES.values(), GRAPHS, "services", "targets"})
