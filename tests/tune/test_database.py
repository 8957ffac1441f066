"""The database: what is kept, found again, chosen by `build`, exported, and what it refuses."""

import math
import resource
import signal
import sqlite3
import threading
from dataclasses import replace

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.schedule import Trace
from minimlc.script import I, R
from minimlc.tune import Candidate, Database, Result, use
from minimlc.tune.attempt import host
from tests.fuzz.kills import check
from tests.helpers import refuses

ADD = """
@T.prim_func
def {name}({a}: T.Buffer((32, 48), "float32"), {b}: T.Buffer((32, 48), "float32")):
    for {i}, j in T.grid(32, 48):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [{i}, j])
            {b}[vi, vj] = {a}[vi, vj] + T.float32(1)
"""
MOD = mlc.parse(ADD.format(name="main", a="A", b="B", i="i"))
OTHER = mlc.parse(ADD.format(name="plus", a="X", b="Y", i="row"))
SPLIT = mlc.Schedule(MOD).split("j", [None, 16]).vectorize("j_1")


def tried(trace, score, mod=MOD, func="main", **changes):
    result = Result("ok", (score, score), (1.0, 1.0), host=host())
    return Candidate(mod.script(), func, trace.to_json(), "llvm"), replace(result, **changes)


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "tuning.db", seconds=0.05)


def test_what_was_added_is_found_by_any_name_of_its_parts(database):
    pair = tried(SPLIT.trace, 2.0)
    for _ in range(2):
        database.add(MOD, "main", *pair)
    assert database.records(MOD, "main") == database.records(OTHER, "plus") == [pair]
    assert database.records(MOD, "main", "c") == database.records(MOD, "main", host="x") == []
    bigger = mlc.parse(MOD.script().replace("32, 48", "40, 48"))
    assert database.records(bigger, "main") == []


def test_the_best_is_of_this_host_version_and_target(database):
    loop = mlc.Schedule(MOD).unroll("j").trace
    database.add(MOD, "main", *tried(Trace(), 3.0))
    for score in (1.0, 9.0, 5.0):  # one lucky measurement of three
        database.add(MOD, "main", *tried(SPLIT.trace, score))
    assert database.best(MOD, "main").candidate.trace == Trace().to_json()
    database.add(MOD, "main", *tried(loop, 0.1, host="another"))
    candidate, result = tried(loop, 0.1)
    database.add(MOD, "main", replace(candidate, target="c"), result)
    database.add(MOD, "main", candidate, Result("crash", host=host()))
    library, result = tried(loop, 0.1)
    database.add(MOD, "main", replace(library, trace='"numpy.add"'), result)
    assert database.best(MOD, "main").result.score == 3.0
    assert database.best(MOD, "main", "c").result.score == 0.1
    assert database.best(MOD, "main", host="another").result.score == 0.1
    assert database.best(MOD, "main", "cuda") is None


def test_build_takes_the_best_record_else_a_recipe(database):
    @I.ir_module
    class Model:
        @R.function
        def main(x: R.Tensor((32, 48), "float32")):
            y = R.nn.softmax(R.add(x, R.const(1, "float32")))
            return y  # noqa: RET504

    plain = mlc.run_passes(Model, mlc.passes.default_pipeline[:-3])
    name = next(name for name in plain.functions if name != "main")
    sch = mlc.Schedule(plain, name)
    database.add(plain, name, *tried(sch.trace, 1.0, plain, name))
    x = np.ones((32, 48), "float32")
    lib = mlc.build(Model, database=database)
    np.testing.assert_allclose(lib["main"](x), mlc.build(Model)["main"](x), rtol=1e-6)
    kernel = next(f for n, f in lib.mod.entries if n == name)
    kinds = {loop.kind for loop in loops_in(kernel.body)}
    assert kinds == {"serial"} and ("scheduled", True) in kernel.attrs


def test_an_export_overwrites_no_database(database, tmp_path):
    database.add(MOD, "main", *tried(SPLIT.trace, 1.0))
    Database(tmp_path / "other.db")
    for path in (database.path, tmp_path / "other.db"):
        refuses("E908", lambda path=path: database.export(path), "records.jsonl")
    assert len(database.records(MOD, "main")) == 1
    refuses("E908", lambda: database.load(tmp_path / "none.jsonl"), "database.export(path) wrote")


def test_a_file_that_may_not_be_written_can_be_read(database, monkeypatch):
    database.add(MOD, "main", *tried(SPLIT.trace, 1.0))
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may do anything else
    fixed = Database(database.path)
    assert fixed.best(MOD, "main") is not None and mlc.build(MOD, database=fixed)
    refuses("E908", lambda: fixed.add(MOD, "main", *tried(SPLIT.trace, 2.0)), "another folder")


def test_a_database_is_read_while_another_process_writes(database):
    database.add(MOD, "main", *tried(SPLIT.trace, 1.0))
    with database._transaction():
        assert Database(database.path, seconds=0.1).best(MOD, "main") is not None


def test_a_record_schedules_a_program_with_other_names(database):
    database.add(MOD, "main", *tried(SPLIT.trace, 1.0))
    use(database)
    try:
        lib = mlc.build(OTHER)
    finally:
        use(None)
    after = lib.mod["plus"]
    assert mlc.structural_equal(replace_attrs(after), replace_attrs(SPLIT.mod["main"]))
    assert [param.name for param in after.params] == ["X", "Y"]
    x, y = np.ones((2, 32, 48), "float32")
    lib["plus"](x, y)
    assert (y == 2).all() and mlc.build(OTHER).mod is OTHER


def replace_attrs(func):
    return replace(func, attrs=())


def test_a_record_that_no_longer_replays_is_left_to_the_recipe(database):
    database.add(MOD, "main", *tried(Trace((("vectorize", {"loop": "gone"}),)), 1.0))
    assert database.scheduled(MOD) is MOD
    assert mlc.build(MOD, database=database).mod is not MOD  # the recipe's
    assert mlc.build(MOD, database=database, recipes=False).mod is MOD
    refuses("E505", lambda: mlc.build(MOD, database="tuning.db"), "mlc.tune.Database")


def test_lines_out_and_in_again_but_not_a_torn_one(database, tmp_path):
    pairs = [tried(SPLIT.trace, 1.5), tried(Trace(), 1.0, kind="crash", seconds=(), reference=())]
    for pair in pairs:
        database.add(MOD, "main", *pair)
    lines = tmp_path / "lines.json"
    assert database.export(lines) == 2
    lines.write_text(f"{lines.read_text()}not json\n{lines.read_text()[:-40]}")
    again = Database(tmp_path / "again.db")
    with pytest.warns(UserWarning, match="skipped") as said:
        assert again.load(lines) == 3
    assert len(said) == 2 and "line 5" in str(said[1].message)
    assert again.records(MOD, "main") == pairs
    assert math.isinf(pairs[1][1].score)


HALF = "\\ud800"
BAD_LINES = {
    "deep": lambda line: "[" * 100_000,
    "of half a character": lambda line: line.replace('"version": "', f'"version": "{HALF}'),
    "with a trace of one": lambda line: line.replace('"trace": "', f'"trace": "{HALF}'),
    "with a program of one": lambda line: line.replace('"mod": "', f'"mod": "#{HALF}'),
    "with a null byte": lambda line: line.replace('"mod": "', '"mod": "\\u0000'),
    "with a nest of a thousand": lambda line: line.replace("T.float32(1)", "(" * 1000),
    "with a time beyond floats": lambda line: line.replace("1.5", "1" + "0" * 400),
    "with a time of digits": lambda line: line.replace("1.5", "1" * 9000),
    "that is a number": lambda line: "7",
    "that is a list": lambda line: "[]",
    "with another candidate": lambda line: line.replace('"candidate": {', '"candidate": {"x": 1, '),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_a_bad_line_costs_no_other_line(kind, database, tmp_path):
    pair = tried(SPLIT.trace, 1.5)
    database.add(MOD, "main", *pair)
    lines = tmp_path / "lines.json"
    database.export(lines)
    good = lines.read_text()
    bad = BAD_LINES[kind](good.strip())
    assert bad != good.strip()
    lines.write_text(f"{good}{bad}\n{good}")
    again = Database(tmp_path / "again.db")
    with pytest.warns(UserWarning, match="line 2 was skipped"):
        assert again.load(lines) == 2
    assert again.records(MOD, "main") == [pair]


@pytest.mark.parametrize("column", ["result", "mod"])
def test_a_bad_row_costs_no_other_row(column, database, tmp_path):
    pairs = [tried(SPLIT.trace, 1.0), tried(Trace(), 2.0)]
    for pair in pairs:
        database.add(MOD, "main", *pair)
    other = replace(pairs[0][0], mod=OTHER.script(), func="plus")
    database.add(OTHER, "plus", other, pairs[0][1])
    table, at = ("records", "number") if column == "result" else ("workloads", "id")
    with sqlite3.connect(database.path) as connection:
        connection.execute(f"update {table} set {column} = 'no [' where {at} = 1")
    if column == "mod":
        assert [each.candidate for each in database.records(MOD, "main")] == [other]
        return
    with pytest.warns(UserWarning, match="a record was skipped"):
        assert len(database.records(MOD, "main")) == 2
    with pytest.warns(UserWarning, match="a record was skipped"):
        assert database.export(tmp_path / "lines.json") == 2
    with pytest.warns(UserWarning, match="a record was skipped"):
        assert database.scheduled(MOD) is not MOD


def test_what_no_database_takes(database, tmp_path):
    candidate, result = tried(SPLIT.trace, 1.0)
    hint = "mlc.tune.Database("
    for path in ("a\0b", "\ud800", b"x", 3, None):
        for call in (Database, database.load, database.export):
            refuses("E902", lambda call=call, path=path: call(path), "named by its path", hint)
    for seconds in ("1", None, -1, True, float("nan"), float("inf")):
        refuses("E902", lambda s=seconds: Database("x.db", seconds=s), "seconds is a number", hint)
    refuses("E902", lambda: database.records("main", "main"), "a function of a module", hint)
    refuses("E902", lambda: database.add(MOD.script(), "main", candidate, result), "of a module")
    refuses("E902", lambda: database.add(MOD, "main", result, candidate), "a Candidate", hint)
    half = replace(candidate, trace="\ud800")
    refuses("E901", lambda: database.add(MOD, "main", half, result), "cannot be stored")
    refuses("E908", lambda: Database(tmp_path / ("x" * 300)))
    assert database.records(MOD, "main") == []


def test_a_changed_byte_of_a_database_is_a_typed_error(database, tmp_path):
    database.add(MOD, "main", *tried(SPLIT.trace, 1.0))
    with sqlite3.connect(database.path) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    data = database.path.read_bytes()
    start = data.lower().index(b"create table workloads")
    for at in (*range(0, 100, 3), *range(start, start + 60, 2)):
        other = tmp_path / f"{at}.db"
        other.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
        try:
            Database(other).records(MOD, "main")
        except mlc.CompileError as error:
            assert error.code in ("E905", "E906", "E907", "E908"), error


def test_what_is_no_database_is_left_as_it_is(tmp_path):
    text, tables, newer = (tmp_path / name for name in ("text", "tables", "newer"))
    text.write_text("no database " * 100)
    with sqlite3.connect(tables) as connection:
        connection.execute("create table mine (x)")
    Database(newer)
    with sqlite3.connect(newer) as connection:
        connection.execute("pragma user_version = 9")
    for path, code in ((text, "E905"), (tables, "E905"), (newer, "E906")):
        before = path.read_bytes()
        refuses(code, lambda path=path: Database(path), path.name)
        assert path.read_bytes() == before
    refuses("E908", lambda: Database(tmp_path / "nowhere" / "x.db"))


def test_a_locked_file_and_a_full_disk_lose_nothing(database):
    first, second = tried(SPLIT.trace, 1.0), tried(Trace(), 2.0)
    database.add(MOD, "main", *first)
    with sqlite3.connect(database.path) as connection:
        connection.execute("begin immediate")
        refuses("E907", lambda: database.add(MOD, "main", *second), "locked")
        assert database.records(MOD, "main") == [first]  # readers go on
        connection.rollback()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, old[1]))
    try:
        refuses("E908", lambda: database.add(MOD, "main", *second), "cannot be written")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert database.records(MOD, "main") == [first]
    database.add(MOD, "main", *second)
    assert database.records(MOD, "main") == [first, second]


def test_many_write_at_once(tmp_path):
    path = tmp_path / "tuning.db"

    def write(number):
        database = Database(path)
        for count in range(5):
            database.add(MOD, "main", *tried(Trace(), 1.0 + number + count / 10))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Database(path).records(MOD, "main")) == 20


def test_who_is_killed_loses_at_most_the_record_in_flight(tmp_path):
    check(tmp_path / "tuning.db", kills=3, seed=0)
