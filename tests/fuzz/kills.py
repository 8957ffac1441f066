"""Writers of a database that are killed at random moments: it opens, and lacks at most one record.

`python -m tests.fuzz.kills --count 200` kills so many.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import minimlc as mlc
from minimlc.tune import Candidate, Database, Result

ROOT = Path(__file__).resolve().parents[2]
MOD = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in T.serial(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(1)
""")


def tried(number: int) -> tuple[Candidate, Result]:
    """The record of that number."""
    result = Result("ok", (float(number + 1),), (1.0,), host="here")
    return Candidate(MOD.script(), "main", mlc.Trace().to_json(), "llvm"), result


def write(path: str, start: int) -> None:
    """Add records without end; each is printed once it is kept."""
    database = Database(path)
    print("open", flush=True)
    for number in range(start, sys.maxsize):
        database.add(MOD, "main", *tried(number))
        print(number, flush=True)


def check(path: Path, kills: int, seed: int) -> int:
    """Kill writers of one database; how many records were in flight and were not kept."""
    moments, kept, lost = random.Random(seed), 0, 0
    for _ in range(kills):
        command = [sys.executable, "-m", "tests.fuzz.kills", "--write", str(path), str(kept)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "open\n"
            time.sleep(moments.uniform(0, 0.1))
            writer.kill()
            said = [int(line) for line in writer.stdout.read().splitlines() if line]
        records = Database(path).records(MOD, "main")
        numbers = [int(each.result.seconds[0]) - 1 for each in records]
        known = said[-1] + 1 if said else kept
        assert numbers == [*range(len(numbers))], "a record in the middle is gone"
        assert known <= len(numbers) <= known + 1, (known, len(numbers))
        lost, kept = lost + (len(numbers) == known), len(numbers)
    return lost


def main() -> None:
    """Kill writers, and say what was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", nargs=2)
    options = parser.parse_args()
    if options.write:
        write(options.write[0], int(options.write[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tuning.db"
        lost = check(path, options.count, options.seed)
        count = len(Database(path).records(MOD, "main"))
    print(
        f"{options.count} kills: {count} records, all opened, {lost} kills lost the one in flight"
    )


if __name__ == "__main__":
    main()
