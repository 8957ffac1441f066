"""The composition root: which parts go into which slots of the rings, and what can be left out."""

from minimlc.parts import hand

PARTS = {
    "kinds of functions": ("families:FAMILY", "families:SYMBOLIC", "graph.run:GRAPH"),
    "printers": ("graph.printer:GraphPrinter",),
    # Loops
    "checks": ("tir.analysis.unwritten:check_written",),
    "constructs of T": ("script.tir_declared",),
    "checks of blocks": ("script.tir_declared:check_regions",),
    "views of buffers": ("script.tir_view",),
    "primitives": (
        *("schedule.layout", "schedule.more", "schedule.tensor"),
        *("schedule.net", "schedule.sampling"),
    ),
    "padded": ("schedule.tails:padded",),
    "checks of concurrent loops": ("schedule.axes:check_thread_axes",),
    "notices": ("schedule.dropped:warn_if_dropped",),
    "instructions": ("codegen.llvm.tensor.blocks:TensorBlocks",),
    "notes": ("codegen.llvm.prefetch:prefetch",),
    "tile programs": ("tile:tile",),
    # Graphs
    "languages": ("script.graph:GRAPH_LEVEL",),
    "control flow": ("graph.control:run",),
}
"""The parts of each slot, in order."""

ROOMS = (
    *("tir.equivalence", "schedule.more", "schedule.tensor", "schedule.net", "schedule.sampling"),
    *("codegen.llvm.tensor", "codegen.llvm.listing", "codegen.source", "datasets"),
    *("codegen.c", "codegen.gpu", "codegen.opencl", "codegen.cuda", "codegen.python"),
    *("gpusim", "machine", "recipes", "frontends", "homework", "exercise", "tile", "deploy"),
    *("passes.dispatch", "apart", "tune"),
)
"""What can be removed: packages and modules."""

hand(PARTS, removable=ROOMS)
