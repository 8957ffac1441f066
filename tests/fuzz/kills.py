"""Writers of a database that are killed at random moments: it opens, and lacks at most one record.

`python -m tests.fuzz.kills --count 200` kills so many.
"""

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

import minimlc as mlc
from minimlc.tune import Candidate, Database, Result

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


def write(path: Path, start: int, said: int) -> None:
    """Add records without end; the number of each is written once it is kept."""
    database = Database(path)
    for number in range(start, sys.maxsize):
        database.add(MOD, "main", *tried(number))
        os.write(said, f"{number}\n".encode())


def killed(path: Path, start: int, seconds: float, later: bool) -> list[int]:
    """The numbers that a writer wrote until it was killed, so many seconds after it began; or
    `later`, after it kept its first record.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(path, start, writing)
        finally:
            os._exit(1)
    os.close(writing)
    select.select([reading], [], [], 10.0 * later)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as stream:
        return [int(line) for line in stream]


def check(path: Path, kills: int, seed: int) -> int:
    """Kill writers of one database; how many records were in flight and were not kept."""
    moments, kept, lost = random.Random(seed), 0, 0
    for _ in range(kills):
        said = killed(path, kept, moments.uniform(0, 0.05), later=moments.random() < 0.7)
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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tuning.db"
        lost = check(path, options.count, options.seed)
        count = len(Database(path).records(MOD, "main"))
    print(f"{options.count} kills, all opened: {count} records, {lost} in flight were lost")


if __name__ == "__main__":
    main()
