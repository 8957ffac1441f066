"""The chapters as one book: `python -m notebooks [run|refresh] [chapter ...]`.

run       executes every chapter in order and builds the book in _build/html (the default)
refresh   executes the chapters and stores their outputs in the notebooks themselves
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from notebooks.book.run import refresh, run

HERE = Path(__file__).resolve().parent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m notebooks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", choices=("run", "refresh"), default="run")
    parser.add_argument("chapters", nargs="*", help="number or beginning of a name: 03, 01_one")
    parser.add_argument("--source", type=Path, default=HERE, help="folder of the chapters")
    parser.add_argument("--build", type=Path, default=HERE.parent / "_build", help="output folder")
    parser.add_argument("--timeout", type=int, default=900, help="seconds one cell may take")
    options = parser.parse_args(arguments)
    paths = sorted(options.source.glob("[0-9][0-9]_*.ipynb"))
    if not paths:
        parser.error(f"no chapter NN_name.ipynb in {options.source}")
    homework = sorted((options.source / "homework").glob("*.ipynb"))
    chosen = paths
    if options.chapters:
        chosen = [path for path in paths if path.name.startswith(tuple(options.chapters))]
        if not chosen:
            names = ", ".join(path.stem for path in paths)
            parser.error(
                f"no chapter begins with {' or '.join(options.chapters)}; there are {names}"
            )
    try:
        if options.command == "refresh":
            return refresh(chosen, options.timeout, homework)
        return run(chosen, options.build, options.timeout, paths, homework)
    except KeyboardInterrupt:
        print("\ninterrupted; finished chapters are kept", flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
