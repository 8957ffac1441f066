"""The command line: run one benchmark or all, print their tables, keep their figures."""

import argparse
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import summary
from benchmarks.harness import WrongResult
from benchmarks.report import Report, write

NAMES = {
    "matmul": "products in f32, bf16 and int8: square, skinny, batched; errors; threads",
    "elementwise": "a chain of five operators on 16 M floats; gelu",
    "softmax": "of the rows of a 1024×1024 matrix, and of short and long rows",
    "layernorm": "of the rows of a 1024×1024 matrix, and of short and long rows",
    "conv2d": "3×3 filters on 56×56×64 and 14×14×256; strides, 1×1 filters",
    "attention": "scaled dot products of 8 heads, 512 positions",
    "math": "exp, tanh, pow and the like of 16 K floats in the cache; their errors",
    "sort": "orders of a vocabulary and of rows, the first few, places in an order",
    "costs": "scatters, scans, any, a chain of products beside numpy; on targets llvm and c",
    "transpose": "of matrices, and of images' channels, beside a copy",
    "gpu": "kernels: on a GPU beside copies and cuBLAS, or as OpenCL and simulated",
    "tile": "tile programs beside our own recipes: addition, softmax, layer norm, product",
    "slice": "1024³ matmul against naive loops and numpy; the digits MLP against onnxruntime",
    "models": "whole models: MLPs, a transformer, ResNet-18, MobileNet, LSTM, GPT; their builds",
    "tuning": "searches: a product against libraries, 16 operators, whole models; what trials cost",
    "compile": "import time; cold and warm builds, in fresh processes",
    "scale": "graph functions of 200 and 2 000 operators through every stage",
    "schedule": "what a schedule's steps cost, on programs of a hundred statements",
    "dispatch": "what one call costs on tiny arrays",
}
ALL = "all"
RESULTS = Path(__file__).parent / "results"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    every = {**NAMES, ALL: "each in a process of its own; then the tables of figures"}
    listed = "\n".join(f"  {name:13}{text}" for name, text in every.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Run one benchmark, print its tables, keep its figures.\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="The exit status is 1 when a result was wrong or a target was missed.",
    )
    parser.add_argument("name", choices=every, metavar="NAME")
    parser.add_argument("--threads", type=_positive, default=1, help="for all alike (default 1)")
    parser.add_argument("--repeat", type=_positive, help="rounds, for a quick look or a long one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there only")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; the exit status."""
    options = _options(arguments)
    return _every(options) if options.name == ALL else _one(options)


def _every(options: argparse.Namespace) -> int:
    """Run them one after the other: what one has imported does not disturb the next."""
    rest = ["--threads", str(options.threads)]
    rest += ["--repeat", str(options.repeat)] if options.repeat else []
    command = [sys.executable, "-m", "benchmarks"]
    statuses = [subprocess.run([*command, name, *rest]).returncode for name in NAMES]
    return max(*statuses, summary.main(NAMES))


def _one(options: argparse.Namespace) -> int:
    try:
        report: Report = import_module(f"benchmarks.{options.name}").run(
            options.threads, options.repeat
        )
    except WrongResult as error:
        print(error, file=sys.stderr)
        return 1
    print(report.text())
    name = f"{options.name}-cuda" if "gpu" in report.machine else options.name
    write(report, options.json or RESULTS / f"{name}.json", table=options.json is None)
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
