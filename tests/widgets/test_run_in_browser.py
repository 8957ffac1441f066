"""The contents of a page that runs a kernel by WebGPU: text, arrays, results and their bounds."""

from base64 import b64decode

import numpy as np
import pytest
from minimlc_widgets import RunInBrowser

import minimlc as mlc
from minimlc.loops.values.errors import BuildError, CallError, CompileError
from tests.gpu.programs import add, softmax, twice
from tests.gpusim import programs
from tests.widgets.values import arguments


def carried(view: RunInBrowser) -> dict[str, np.ndarray]:
    return {
        buffer["name"]: np.frombuffer(b64decode(buffer["data"]), buffer["dtype"])
        for buffer in view.buffers
    }


def test_inputs_and_results_are_carried():
    a, b, c = arguments(3, 1000)
    view = RunInBrowser(mlc.build(add().mod, "gpusim"), "main", a, b, c)
    assert view.code == mlc.build(add().mod, "gpusim").source("wgsl")
    data = carried(view)
    np.testing.assert_array_equal(data["A"], a)
    assert data["C"].size == 0  # which is only written: it starts from zeros
    (result,) = view.results
    expected = np.frombuffer(b64decode(result["expected"]), "float32")
    np.testing.assert_array_equal(expected, a + b)
    assert result["bound"] == pytest.approx(1e-5 * (a + b).max())
    assert c[0] == arguments(3, 1000)[2][0]  # what was passed stays as it is
    (launch,) = view.launches
    assert (launch["grid"], launch["bindings"]) == ([8, 1, 1], [0, 1, 2])


def test_memory_between_kernels_and_results_that_are_read():
    view = RunInBrowser(twice(), None, *arguments(1, 64, 32), *arguments(1, 64))
    assert [b["name"] for b in view.buffers] == ["A", "C", "R"]
    assert [launch["bindings"] for launch in view.launches] == [[0, 2], [1, 2]]
    add_to = mlc.parse(
        '@T.prim_func\ndef main(A: T.Buffer((32,), "int32")):\n'
        '    for t in T.thread_binding(32, thread="threadIdx.x"):\n        A[t] = A[t] + 1\n'
    )
    counted = RunInBrowser(add_to, "main", np.arange(32, dtype="int32"))
    assert carried(counted)["A"].tolist() == list(range(32))
    assert counted.results[0]["bound"] == 0


def test_the_static_form_has_the_code_and_no_values():
    a, c = arguments(2, 6, 50)
    view = RunInBrowser(softmax(), "main", a, c)
    number = f"{np.frombuffer(b64decode(view.results[0]['expected']), 'float32')[0]:.6g}"
    assert number not in view.static_html() + view.text() and view.page == ""
    assert "@compute" in view.static_html() and view.results[0]["names"][7] == "D[0, 7]"
    assert view.text() == (
        "WebGPU, run by the browser: main_kernel: 6 blocks of 16 threads; results: D 6 × 50"
    )


def test_wrong_input_is_refused():
    copy = programs.copy("b * 128 + t")
    large = mlc.parse(programs.COPY.format(size=1 << 17, index="b * 128 + t"))
    wide = mlc.parse(programs.NAIVE.format(n=32, tiles=1, dtype="float64"))
    for call, kind, words in (
        (
            lambda: RunInBrowser(copy, "main", *arguments(1, 1024)),
            CallError,
            r"takes 2 argument\(s\)",
        ),
        (
            lambda: RunInBrowser(large, "main", *arguments(1, 1 << 17), *arguments(1, 1024)),
            CompileError,
            "532,480 bytes of arrays",
        ),
        (lambda: RunInBrowser(wide, "main", *[np.zeros((32, 32))] * 2), BuildError, "WGSL has no"),
    ):
        with pytest.raises(kind, match=words):
            call()
