"""The composition root: which parts the hooks of the rings have, and what can be left out."""

from minimlc.parts import hand

PARTS = {
    "kinds of functions": ("families:FAMILY", "families:SYMBOLIC", "graph.run:GRAPH"),
    "printers": ("graph.printer:GraphPrinter",),
    # Loops
    "checks of functions": ("tir.analysis.unwritten:check_written",),
    "constructs of T": ("script.tir_declared",),
    "checks of blocks": ("script.tir_declared:check_regions",),
    "views of buffers": ("script.tir_view",),
    "primitives": (
        *("schedule.reverse_inline", "schedule.layout", "schedule.more", "schedule.tensor"),
        *("schedule.net", "schedule.sampling"),
    ),
    "functions that scripts call": ("script.macros",),
    "index maps": ("tir.analysis.index_map:IndexMap",),
    "preimages": ("tir.analysis.preimage:preimage",),
    "races": ("tir.analysis.programs:race_of",),
    "padding of loops": ("schedule.tails:padded",),
    "checks of concurrent loops": ("schedule.axes:check_thread_axes",),
    "notices": ("schedule.dropped:warn_if_dropped",),
    "instructions": ("codegen.llvm.tensor.blocks:TensorBlocks",),
    "machine code": ("codegen.llvm.machine",),
    "LLVM's text": ("codegen.llvm.emit:emit_llvm",),
    "interruptions": ("runtime.parallel:interruption",),
    "notes of loops": ("codegen.llvm.prefetch:prefetch",),
    "tile programs": ("tile:tile",),
    # Graphs
    "languages": ("script.graph:GRAPH_LEVEL",),
    "control flow": ("graph.control",),
    "sizes": ("sizes",),
    "families": ("graph.symbolic",),
    "constructs of R": ("script.graph_control",),
    "operators": (
        "graph.ops.activation",
        "graph.ops.attention",
        "graph.ops.einsum",
        "graph.ops.functions",
        "graph.ops.gather",
        "graph.ops.image",
        "graph.ops.loss",
        "graph.ops.network",
        "graph.ops.normalize",
        "graph.ops.pool",
        "graph.ops.quantize",
        "graph.ops.random",
        "graph.ops.recurrent",
        "graph.ops.scan",
        "graph.ops.sets",
        "graph.ops.slicing",
        "graph.ops.window",
    ),
    "passes": (
        "passes.bind_params:bind_params",
        "passes.combine_parallel_matmul:combine_parallel_matmul",
        "passes.convert_layout:convert_layout",
        "passes.eliminate_common_subexpr:eliminate_common_subexpr",
        "passes.fold_batch_norm:fold_batch_norm",
        "passes.fold_transposes:fold_transposes",
        "passes.fuse_attention:fuse_attention",
        "passes.inline:inline",
        "passes.pack_constants:pack_constants",
        "passes.partition:partition",
        "passes.remove_unused_outputs:remove_unused_outputs",
        "passes.remove_unused_parameters:remove_unused_parameters",
        "passes.rewrite:rewrite",
        "passes.scan_by_doubling:scan_by_doubling",
        "passes.simplify:simplify",
        "passes.sort_long_axes:sort_long_axes",
        "passes.split_to_slices:split_to_slices",
        "passes.to_mixed_precision:to_mixed_precision",
        "passes.unroll_recurrent:unroll_recurrent",
    ),
    "pipeline": (
        "passes.unroll_recurrent:unroll_recurrent",
        "passes.convert_layout:convert_layout",
        "passes.fold_constants:fold_constants",
        "passes.sort_long_axes:sort_long_axes",
        "passes.scan_by_doubling:scan_by_doubling",
        "passes.simplify:simplify",
        "passes.fold_transposes:fold_transposes",
        "passes.split_to_slices:split_to_slices",
        "passes.eliminate_common_subexpr:eliminate_common_subexpr",
        "passes.remove_unused:remove_unused",
        "passes.fuse_attention:fuse_attention",
        "passes.legalize:legalize",
        "passes.fuse_ops:fuse_ops",
        "passes.fuse_tir:fuse_tir",
        "passes.remove_unused:remove_unused",
        "recipes:apply",
        "passes.pack_constants:pack_constants",
        "passes.remove_unused:remove_unused",
    ),
    "scheduling": ("recipes:apply",),
    **{
        f"target {name}": (f"codegen.{name}.build:build",)
        for name in ("c", "python", "opencl", "cuda")
    },
    "target gpusim": ("gpusim.build:build",),
    **{f"deploy.{name}": (f"deploy.{name}",) for name in ("profile", "memory", "save")},
    "texts for GPUs": ("codegen.gpu.texts:texts",),
    "recipes for GPUs": ("recipes.gpu:for_gpu",),
    "text in C": ("codegen.c.entries:c_text",),
    "hardware": ("machine.hardware:trusted",),
    "sharing of memory": ("runtime.sharing:share",),
    "facts of functions": ("tir.analysis.copies:READY",),
    "libraries": ("passes.dispatch",),
}
"""The parts of each hook, in order."""

ROOMS = (
    *("tir.equivalence", "schedule.more", "schedule.tensor", "schedule.net", "schedule.sampling"),
    *("codegen.llvm.tensor", "codegen.llvm.listing", "codegen.source", "datasets"),
    *("codegen.c", "codegen.gpu", "codegen.opencl", "codegen.cuda", "codegen.python"),
    *("gpusim", "machine", "recipes", "frontends", "homework", "exercise", "tile", "deploy"),
    *("passes.dispatch", "apart", "tune"),
)
"""What can be removed: packages and modules."""

SERVICES = {
    "symbolic sizes": (
        *("sizes", "polynomials", "families", "specialize", "graph.symbolic", "tir.symbolic"),
        *("tir.printer_symbolic", "runtime.families"),
    ),
    "control flow": (
        *("graph.control", "script.graph_control", "codegen.llvm.control"),
        "passes.unroll_recurrent",
    ),
    "lints": (
        *("tir.analysis.unwritten", "tir.analysis.instances", "tir.analysis.declared"),
        *("script.tir_declared", "tir.analysis.programs"),
    ),
    "scripts": ("script.tir_view", "script.macros"),
    "primitives": ("schedule.reverse_inline", "schedule.layout", "schedule.tails"),
    "index maps": ("tir.analysis.index_map", "tir.analysis.preimage"),
    "threads of GPUs": ("schedule.axes", "tir.analysis.threads"),
    "notices": ("schedule.dropped", "explain", "runtime.timing"),
    "prefetch": ("codegen.llvm.prefetch",),
    "threads": ("runtime.parallel", "runtime.team"),
    "caches": (
        *("runtime.cache", "runtime.kept", "runtime.stubs", "runtime.records"),
        *("runtime.schedules", "tir.analysis.copies"),
    ),
    "patterns": ("passes.pattern", "passes.match", "passes.rewrite", "passes.partition"),
    "names of other compilers": ("graph.topi",),
    "in place": ("runtime.sharing", "runtime.in_place"),
    "building": (
        *("runtime.build", "runtime.native", "runtime.executable", "runtime.library"),
        *("runtime.foreign", "runtime.entry_points", "runtime.heap", "codegen.llvm.entry"),
        *("memory", "files"),
    ),
}
"""Services around the rings: modules that can be removed, by what they are for."""

GRAPHS = (
    "graph",
    "passes",
    "registry",
    "runtime",
    "script.graph",
    "script.graph_value",
    "runtime.plan",
)
"""What a copy of the loops alone does not have."""

NAMED = {place.partition(":")[0] for places in PARTS.values() for place in places}
hand(
    PARTS,
    removable={*NAMED, *ROOMS, *GRAPHS, *(name for each in SERVICES.values() for name in each)},
)
