"""Contests on tiny sizes: everybody is checked, the ratios are right, the table shows them."""

import json
import sys
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import minimlc as mlc
from benchmarks import __main__ as command
from benchmarks import (
    attention,
    before,
    conv2d,
    costs,
    elementwise,
    installed,
    kits,
    layernorm,
    matmul,
    matmul_facts,
    models,
    networks,
    peers,
    programs,
    softmax,
    sort,
    summary,
    tile,
    transpose,
    tuned_shapes,
    tuning,
)
from benchmarks import compile as compile_benchmark
from benchmarks.contest import Contest, Result, geometric_mean, sparing
from benchmarks.harness import Contender, Measured, WrongResult, check, threads
from benchmarks.report import Claim, Report, Table
from tests.benchmarks.test_harness import MACHINE, some_report
from tests.tune.stand_in import InProcess

pytestmark = pytest.mark.many

RATES = {"operations": 1e9, "bytes": 2e9}

CONTESTS = {
    "f32": lambda found: matmul.single(found, (12, 20, 9)),
    "row": lambda found: matmul.single(found, (1, 64, 32)),
    "batched": lambda found: matmul.single(found, (3, 8, 8, 8)),
    "bf16": lambda found: matmul.brain(found, 16),
    "int8": lambda found: matmul.whole(found, 16),
    "naive": lambda found: matmul_facts.naive(found, 16),
    "threads": lambda found: matmul_facts.scaling(found, 16),
    "chain": lambda found: elementwise.chain(found, 64),
    "gelu": lambda found: elementwise.gelu(found, 8),
    "softmax": lambda found: softmax.softmax(found, (3, 16)),
    "layer norm": lambda found: layernorm.layer_norm(found, (3, 16)),
    "conv2d": lambda found: conv2d.conv2d(found, (6, 3, 4, 3, 1)),
    "strided": lambda found: conv2d.conv2d(found, (7, 3, 4, 3, 2)),
    "attention": lambda found: attention.attention(found, (1, 2, 8, 4)),
    "transpose": lambda found: transpose.transpose(found, (6, 10), (1, 0)),
    "order": lambda found: sort.order(found, (2, 70)),
    "first": lambda found: sort.first(found, 70, 3),
    "places": lambda found: sort.places(found, 70),
    "updates": lambda found: costs.updates(found, 20, 9, "add"),
    "new values": lambda found: costs.updates(found, 20, 30, "none"),
    "rows": lambda found: costs.rows(found, (8, 5), 4),
    "cumsum": lambda found: costs.scan(found, "cumsum", np.cumsum, (70,), "float32"),
    "cumprod": lambda found: costs.scan(found, "cumprod", np.cumprod, (9, 7), "int64"),
    "any": lambda found: costs.holds(found, "any", 70),
    "products": lambda found: costs.chain(found, 7),
    "tile add": lambda found: tile.compared(found, "add", (2000,)),
    "tile softmax": lambda found: tile.compared(found, "softmax", (3, 16)),
    "tile layer norm": lambda found: tile.compared(found, "layer norm", (3, 16)),
    "tile product": lambda found: tile.compared(found, "product", (20, 130, 9)),
    **{
        f"whole {name}": lambda found, name=name: models.race(found, name, networks.TINY[name])
        for name in ("MLP", "MobileNet", "LSTM")
    },
    "symbolic": lambda found: models.symbolic(found, "MLP", networks.TINY["MLP"], (0, 1, 3)),
    "tuned product": lambda found: tuning.product(found, 12, 0, InProcess(1), trials=2),
    "tuned softmax": lambda found: tuning.shape(
        found, "softmax", tuned_shapes.TINY["softmax"], InProcess(1), trials=2
    ),
    "channels": lambda found: transpose.transpose(found, (2, 3, 4, 4), (0, 2, 3, 1)),
}


@pytest.fixture
def found():
    with threads(1):
        yield Contest(Report("some", 1, {**MACHINE, "peak_rates": RATES}), 1)


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(installed, "_loaded", dict.fromkeys(installed.PEERS))


@pytest.mark.parametrize("name", CONTESTS)
def test_minimlc_is_right_and_needs_no_peer(found, alone, name):
    CONTESTS[name](found)
    table = found.report.tables[0]
    names = [row.name for row in table.rows]
    assert any(name.startswith("minimlc") for name in names)
    assert not {"torch", "torch.compile", "numba", "jax", "onnxruntime"} & set(names)
    for claim in found.report.claims:
        assert claim.value > 0 and claim.peer not in ("torch", "jax")


def test_the_build_of_a_concat_is_timed(found):
    costs.joined(found.report, 3)
    (claim,) = found.report.claims
    assert claim.value > 0 and claim.unit == "s"


@pytest.mark.parametrize(
    ("operations", "moved", "text", "share"),
    [
        (3e9, 2e9, "3 GFLOP/s", 3.0),
        (1e9, 8e9, "8 GB/s", 4.0),
        (1e9, 0.0, "1 GFLOP/s", 1.0),
        (0.0, 0.0, "", None),
    ],
)
def test_rates_are_of_what_limits_a_call(found, operations, moved, text, share):
    x = np.ones(3, np.float32)
    own = programs.Contender("minimlc", lambda: x)
    table = found.run("some", [own], x, operations=operations, moved=moved).table
    assert table.rate(1.0) == (text, share)
    assert ("of peak" in table.header()) == (share is not None)


def test_further_sizes_are_measured_beside_the_first(found):
    models.instances(found.report, "MLP", networks.TINY["MLP"], (2, 3))
    rows = found.report.tables[-1].rows
    assert [row.name for row in rows] == ["first size", "others"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_what_a_call_needs_is_measured_beside_its_plan(found):
    name = "MLP 784-128-10, batch 64"
    models.resident(found.report, name)
    (claim,) = found.report.claims
    _, planned = compile_benchmark.resident_growth(name)
    assert planned > 0 and -1.1 * planned / 2**20 <= claim.value < 64
    assert f"{name}: its first call" in found.report.notes[-1]


@pytest.mark.requires("torch", "onnx")
@pytest.mark.parametrize("name", ["f32", "bf16", "int8"])
def test_peers_are_right_in_every_dtype(found, monkeypatch, name):
    monkeypatch.setattr(installed, "_loaded", {"jax": None})
    CONTESTS[name](found)
    (table,) = found.report.tables
    assert "torch" in [row.name for row in table.rows]
    assert ("onnxruntime" in [row.name for row in table.rows]) == (name == "int8")
    assert not any("cores busy" in note for note in found.report.notes)


@pytest.mark.requires("torch", "onnx")
@pytest.mark.parametrize("name", networks.TINY)
def test_every_kit_computes_the_same_models(found, name):
    model = networks.TINY[name]
    arrays = kits.inputs_of(model)
    exact = models.reference(model, arrays)
    weights = kits.ours(model)[1].arrays
    named = {f"x{at}": array for at, array in enumerate(arrays)}
    for contender in (
        *peers.torch(kits.replayed(model, kits.Torch()), *arrays, *weights),
        *peers.onnx(lambda: kits.onnx(model, exact.shape), 1, **named),
    ):
        check(contender, exact, 1e-5)


@pytest.mark.requires("torch", "onnx")
@pytest.mark.parametrize("name", tuned_shapes.TINY)
def test_a_tuned_shape_is_the_same_by_every_library(name):
    one = tuned_shapes.TINY[name]
    arrays = one.arrays()
    wide = [array.astype(float) for array in arrays]
    exact = np.asarray(mlc.interpret(programs.graph(one.ours, *wide), "main", *wide))
    feed = {f"x{at}": array for at, array in enumerate(arrays)}
    for contender in (
        *peers.torch(one.torch, *arrays),
        *peers.onnx(lambda: one.onnx(exact.shape), 1, **feed),
    ):
        check(contender, exact, 1e-5)


def test_rates_of_a_search_are_claimed():
    report = some_report()
    tuning.rates(report, 16, count=4)
    assert all(claim.value > 0 for claim in report.claims)


def test_another_activation_changes_a_layer_and_no_weight():
    model = networks.TINY["MLP"]
    (plain, weights), (changed, others) = (kits.ours(model, changed=c) for c in (False, True))
    assert "R.relu" in plain.script() and "R.tanh" in changed.script()
    assert all(map(np.array_equal, weights.arrays, others.arrays))


@pytest.mark.requires("torch", "cc")
@pytest.mark.slow
def test_compiled_torch_takes_part(found, monkeypatch):
    monkeypatch.setattr(installed, "_loaded", {"jax": None, "numba": None})
    softmax.softmax(found, (3, 16))
    names = [row.name for row in found.report.tables[0].rows]
    assert names == ["minimlc", "torch", "torch.compile"]


@pytest.mark.requires("torch")
def test_torch_keeps_to_the_threads():
    torch = installed.module("torch")
    before = torch.get_num_threads()
    with threads(1):
        assert torch.get_num_threads() == 1
        with threads(2):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


@pytest.mark.requires("torch")
def test_torch_is_pinned_again_before_timing(found):
    torch = installed.module("torch")
    torch.set_num_threads(2)  # as numba's start does
    found.run("ones", [Contender("right", lambda: np.ones(3))], np.ones(3))
    assert torch.get_num_threads() == 1


def test_a_wrong_contender_ends_the_contest(found):
    wrong = Contender("wrong", lambda: np.zeros(3))
    with pytest.raises(WrongResult, match="wrong: off by 1"):
        found.run("ones", [wrong], np.ones(3))
    assert not found.report.tables


def test_one_that_writes_nothing_is_caught():
    out = np.ones(3)
    check(peers.into("right", lambda: out.fill(1), out), np.ones(3), 0.0)
    with pytest.raises(WrongResult, match="idle: off by 1"):
        check(peers.into("idle", lambda: None, out), np.ones(3), 0.0)


def test_a_less_exact_contender_has_its_own_tolerance():
    rough = Contender("rough", lambda: np.full(3, 1.01), tolerance=0.1)
    check(rough, np.ones(3), 1e-6)
    with pytest.raises(WrongResult):
        check(Contender("same", rough.call), np.ones(3), 1e-6)


def some_result():
    seconds = {"minimlc": 0.5, "numpy": 1.0, "torch": 0.25, "a copy": 0.1}
    rows = [Measured(name, (taken,)) for name, taken in seconds.items()]
    return Result(Table("some work", rows, "minimlc", 1e9, 0.0, 4e9), seconds)


def test_ratios_are_against_the_best_of_those_named():
    result = some_result()
    assert (result.ratio("numpy"), result.ratio("numpy", "torch"), result.ratio()) == (2, 0.5, 0.5)
    (claim,) = result.claim(1.0, "numpy", "numba")
    assert (claim.peer, claim.value, claim.rate, claim.share) == ("numpy", 2, "2 GFLOP/s", 0.5)
    assert result.claim(1.0, "jax") == []
    assert geometric_mean([1, 4]) == 2


def test_a_limit_can_be_for_other_machines():
    claim = Claim("bf16", 3.0, ">=", 1000, "×", unless="it takes AMX")
    assert claim.met and not claim.holds
    assert claim.line() == "bf16: 3 × (target ≥ 1000 ×): not asked: it takes AMX"
    assert not Claim("bf16", 3.0, ">=", 1000, "×").met


def test_slow_ones_are_timed_a_few_times(monkeypatch):
    monkeypatch.setattr("benchmarks.contest.SLOW", -1.0)
    assert sparing(Contender("slow", lambda: None)).rounds == 5
    assert sparing(Contender("naive", lambda: None, rounds=3)).rounds == 3


def test_the_error_is_counted_in_units_of_the_bound():
    a, b = np.ones((1, 4), np.float32), np.ones((4, 1), np.float32)
    exact = np.full((1, 1), 4, np.float32)
    assert matmul_facts.componentwise(exact, a, b) == 0
    assert matmul_facts.componentwise(exact * np.float32(1 + 2**-22), a, b) == 4


def test_errors_and_bits_are_claimed(found):
    matmul_facts.errors(found.report, [(16, 16, 16), (8, 8, 40)])
    matmul_facts.same_bits(found.report, 16)
    own = [claim for claim in found.report.claims if not claim.peer]
    beside_numpy = [claim for claim in found.report.claims if claim.peer == "numpy"]
    assert [claim.met for claim in own] == [True] * 2
    # How well numpy sums is a matter of its BLAS and of the machine.
    assert len(beside_numpy) == 2 and all(claim.value > 0 for claim in beside_numpy)


def test_a_recipe_is_built_for_the_compile_benchmark(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    compile_benchmark.child("recipe")
    first, second = json.loads(capsys.readouterr().out)
    assert first > 0 and second > 0


def test_a_graph_can_be_called_as_its_one_function(alone):
    x, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((3, 2), np.float32)
    mod = programs.graph(lambda a: programs.mlc.op.permute_dims(a, (1, 0)), x)
    programs.kernel(programs.lowered(mod), x, out).call()
    assert (out == x.T).all()


def results():
    machine = {**MACHINE, "peaks": {"float32 GFLOP/s": 104.0}}
    claimed = Report("matmul", 1, machine)
    claimed.claims += some_result().claim(0.95, "torch")
    claimed.claims += [
        Claim("|err|", 1, "<=", 1),
        Claim("tiles", 5, ">=", 9, "×", unless="for want of AMX"),
    ]
    claimed.claims += [Claim(f"{name}: growth", n, "<=", 14) for n, name in enumerate("abcd")]
    unclaimed = Report("transpose", 1, MACHINE, [some_result().table])
    return [json.loads(json.dumps(report.data())) for report in (claimed, unclaimed)]


def test_the_table_of_figures():
    assert summary.text(results()) == TABLE


def test_it_says_what_ran_on_which_of_several_machines():
    one, other = results()
    other["machine"]["cpu"] = "another CPU"
    lines = list(summary.machines([one, other]))
    assert lines[0].startswith("matmul: some CPU, 2 cores (fma). Measured peaks")
    assert lines[1] == "transpose: another CPU, 2 cores (fma)."


TABLE = """\
| work      |  peer |    asked | measured |      rate | of measured peak |
| --------- | ----: | -------: | -------: | --------: | ---------------: |
| some work | torch | ≥ 0.95 × |    0.5 × | 2 GFLOP/s |              50% |
| \\|err\\|   |     – |      ≤ 1 |        1 |           |                  |
| tiles     |     – |  (≥ 9 ×) |      5 × |           |                  |
| d: growth |     – |     ≤ 14 |        3 |           |                  |
| some work | torch |        – |    0.5 × | 2 GFLOP/s |              50% |

(tiles: not asked here, for want of AMX.)

some CPU, 2 cores (fma). Measured peaks of one core: float32 GFLOP/s 104."""


CHOSEN = """\
Measured on some CPU, 2 cores ([matmul](benchmarks/results/matmul.md)):

| work    | peer |   asked | measured | rate | of measured peak |
| ------- | ---: | ------: | -------: | ---: | ---------------: |
| \\|err\\| |    – |     ≤ 1 |        1 |      |                  |
| tiles   |    – | (≥ 9 ×) |      5 × |      |                  |"""


def test_the_rows_of_the_readme_and_their_machines(monkeypatch):
    monkeypatch.setattr(summary, "CHOSEN", (("|err|", ""), ("tiles", "")))
    assert summary.chosen(results()) == CHOSEN
    one, other = results()
    other["machine"]["cpu"] = "another CPU"
    other["tables"][0]["title"] = "other work"
    monkeypatch.setattr(summary, "CHOSEN", (("tiles", ""), ("other work", "torch")))
    assert summary.chosen([one, other]).startswith(
        "Measured on some CPU, 2 cores ([matmul](benchmarks/results/matmul.md)) "
        "and on another CPU, 2 cores ([transpose](benchmarks/results/transpose.md)):\n\n| work "
    )


def test_a_row_of_the_readme_that_is_gone_is_an_error(monkeypatch):
    monkeypatch.setattr(summary, "CHOSEN", (("tiles", ""), ("some work", "numpy")))
    with pytest.raises(ValueError, match='no row "some work" with the peer numpy'):
        summary.chosen(results())


def test_the_tables_go_between_their_markers(tmp_path, monkeypatch, capsys):
    full, readme = tmp_path / "full.md", tmp_path / "README.md"
    page = "before\n{}\n{}\n{}\nafter\n"
    for path in (full, readme):
        path.write_text(page.format(summary.BEGIN, "old", summary.END), encoding="utf-8")
    monkeypatch.setattr(summary, "load", lambda names: results())
    monkeypatch.setattr(summary, "CHOSEN", (("|err|", ""), ("tiles", "")))
    assert summary.main(["matmul"], full, readme) == 0
    for path, table in ((full, TABLE), (readme, CHOSEN)):
        assert path.read_text(encoding="utf-8") == page.format(summary.BEGIN, table, summary.END)
    full.write_text("no place\n")
    monkeypatch.setattr(summary, "CHOSEN", (("gone", ""),))
    before = readme.read_text(encoding="utf-8")
    assert summary.main(["matmul"], full, readme) == 1
    said = capsys.readouterr().err
    assert "full.md is left as it was: no <!--" in said
    assert 'README.md is left as it was: no row "gone"' in said
    assert full.read_text() == "no place\n"
    assert readme.read_text(encoding="utf-8") == before


def test_the_tables_that_are_kept_are_those_of_the_results():
    results = summary.load(command.NAMES)
    for path, table in (
        (summary.RESULTS / "README.md", summary.text(results)),
        (summary.ROOT / "README.md", summary.chosen(results)),
    ):
        page = path.read_text(encoding="utf-8")
        assert summary.insert(page, table) == page, "python -m benchmarks all writes the tables"


def test_all_run_one_after_the_other(monkeypatch):
    ran, statuses = [], {"softmax": 1}

    def run(arguments):
        ran.append(arguments[3:])
        return CompletedProcess(arguments, statuses.get(arguments[3], 0))

    monkeypatch.setattr(command.subprocess, "run", run)
    monkeypatch.setattr(summary, "main", lambda names: 0)
    assert command.main(["all", "--threads", "2", "--repeat", "3"]) == 1
    assert ran == [[name, "--threads", "2", "--repeat", "3"] for name in command.NAMES]
    statuses.clear()
    assert command.main(["all"]) == 0


def test_every_name_is_a_benchmark():
    for name in command.NAMES:
        assert callable(import_module(f"benchmarks.{name}").run)


def test_results_are_read_in_the_names_order(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"benchmark": name}))
    read = summary.load(["two", "missing", "one"], tmp_path)
    assert [result["benchmark"] for result in read] == ["two", "one"]


def test_an_earlier_package_takes_part_and_leaves_no_trace(tmp_path):
    (tmp_path / "minimlc").symlink_to(Path(mlc.__file__).parent)
    arrays = tuned_shapes.TINY["product"].arrays()
    today, path = dict(sys.modules), list(sys.path)
    earlier = before.Package(str(tmp_path))
    one = earlier.contender(programs.graph(mlc.op.matmul, *arrays), arrays, 1)
    check(one, arrays[0].astype(float) @ arrays[1].astype(float), 1e-6)
    with earlier.imported() as package:
        assert Path(package.__file__).parent.parent == tmp_path
        assert package.IRModule is not mlc.IRModule
    own = {name for name in sys.modules if name.split(".")[0] == "minimlc"}
    assert all(sys.modules[name] is today.get(name) for name in own) and sys.path == path


def test_no_earlier_package_takes_part_without_the_history(monkeypatch):
    with before.earlier(1, commit="0" * 40) as none:
        assert none(mlc.IRModule.of({}), []) == []
    monkeypatch.setenv("PATH", "")
    with before.earlier(1) as none:
        assert none(mlc.IRModule.of({}), []) == []
