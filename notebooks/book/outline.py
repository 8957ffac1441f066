"""What the book's chapters teach and need: those that are there, and those that are planned."""

from typing import NamedTuple

import nbformat

WORDS = 130  # of prose that a reader takes in a minute
LINES = 12  # of code


class Chapter(NamedTuple):
    """A chapter by the name of its notebook; `needs` are the numbers of those to read before.

    One that is not written yet has its title in `planned`. One that `shares` the machine compares
    no times closely, so that another may run beside it.
    """

    name: str
    teaches: str
    needs: tuple[str, ...] = ()
    planned: str = ""
    shares: bool = False


OUTLINE = (
    Chapter(
        "01_one_sitting",
        "The whole way once: train a small network, write it as a graph function, compile it, and "
        "measure what that brought.",
    ),
    Chapter(
        "02_tensor_programs",
        "The form in which a compiler holds one step of a model: buffers, loops, blocks, and "
        "which loops may change places.",
        shares=True,
    ),
    Chapter(
        "03_schedules",
        "How the order of loops decides the time: primitives that keep the meaning, read step by "
        "step, and refusals with a counter-example.",
        ("02",),
    ),
    Chapter(
        "04_end_to_end",
        "Graph functions and primitive functions in one module: destination passing, dataflow, "
        "library calls, and parts replaced by your own.",
        ("02", "03"),
    ),
    Chapter(
        "05_automatic_optimization",
        "Let the machine search: random schedules, spaces of choices, a model of cost, a database.",
        ("03",),
    ),
    Chapter(
        "06_frameworks",
        "Import a model from PyTorch, ONNX or JAX, and run it here.",
        ("04",),
        planned="Models from other frameworks",
    ),
    Chapter(
        "07_gpu",
        "Loops as the threads of a GPU: what a warp asks of memory, tiles that a block fetches "
        "together, barriers, banks; counted by a simulator, so that no GPU is needed.",
        ("03",),
        shares=True,
    ),
    Chapter(
        "08_special_hardware",
        "Instructions that do a whole small program: describe one, and put it into loops with "
        "blockize and tensorize.",
        ("03",),
        shares=True,
    ),
    Chapter(
        "09_graph_optimization",
        "Rewriters of graph functions: find a pattern, fuse operators into one function, and "
        "lower what is left to loops.",
        ("04",),
    ),
    Chapter(
        "10_cpu_codegen",
        "Read the instructions that loops become, measure the roofs of your machine, and take a "
        "matrix product to the speed of its vendor's library.",
        ("03",),
    ),
    Chapter(
        "11_training",
        "Gradients as programs, and an optimizer step.",
        ("09",),
        planned="Training",
    ),
    Chapter(
        "12_memory",
        "Plan where tensors live, and compute some twice.",
        ("09",),
        planned="Memory",
    ),
    Chapter(
        "13_quantization",
        "Fewer bits, and what they cost.",
        ("08", "09"),
        planned="Quantization",
    ),
    Chapter(
        "14_sparsity",
        "Leave out what is zero.",
        ("03", "09"),
        planned="Sparsity",
    ),
    Chapter(
        "15_scale_out",
        "One model on several devices.",
        ("11",),
        planned="Scale-out",
    ),
    Chapter(
        "16_deployment",
        "A library to ship, in another language.",
        ("04", "10"),
        planned="Deployment",
    ),
    Chapter(
        "17_transformers",
        "A small GPT from operators: attention and its fused form, derived step by step, a cache "
        "of keys and values, and text drawn by explicit keys.",
        ("09", "10"),
        shares=True,
    ),
    Chapter(
        "90_primitives",
        "To look things up: each primitive's rule, an example before and after, and a refusal.",
        ("03",),
        shares=True,
    ),
    Chapter(
        "91_hardware_units",
        "For engineers: bytes in pairs and fours, tile registers, and the recipe that chooses "
        "among them.",
        ("08",),
        shares=True,
    ),
    Chapter(
        "92_matmul_by_hand",
        "For engineers: blocks for caches, both operands packed, sums of parts, and a recipe read "
        "aloud.",
        ("10",),
        shares=True,
    ),
)


def minutes(notebook: nbformat.NotebookNode) -> int:
    """About how long a notebook takes to read, prose and code, in steps of five; no exercises."""
    words = sum(len(c.source.split()) for c in notebook.cells if c.cell_type == "markdown")
    code = "\n".join(c.source for c in notebook.cells if c.cell_type == "code")
    lines = sum(bool(line.strip()) for line in code.splitlines())
    return 5 * max(1, round((words / WORDS + lines / LINES) / 5))
