"""The command line: run one benchmark, print its tables, keep its figures."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.harness import WrongResult
from benchmarks.report import Report, write

NAMES = {
    "matmul": "products in f32, bf16 and int8: square, skinny, batched; errors; threads",
    "elementwise": "a chain of five operators on 16 M floats; gelu",
    "slice": "1024³ matmul against naive loops and numpy; the digits MLP against onnxruntime",
    "compile": "import time; cold and warm builds, in fresh processes",
    "scale": "graph functions of 200 and 2 000 operators through every stage",
    "schedule": "what a schedule's steps cost, on programs of a hundred statements",
    "dispatch": "what one call costs on tiny arrays",
}
RESULTS = Path(__file__).parent / "results"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    listed = "\n".join(f"  {name:10}{text}" for name, text in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Run one benchmark, print its tables, keep its figures.\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="The exit status is 1 when a result was wrong or a target was missed.",
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME")
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
    try:
        report: Report = import_module(f"benchmarks.{options.name}").run(
            options.threads, options.repeat
        )
    except WrongResult as error:
        print(error, file=sys.stderr)
        return 1
    print(report.text())
    write(report, options.json or RESULTS / f"{options.name}.json", table=options.json is None)
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
