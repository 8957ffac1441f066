"""Libraries as files: what is loaded computes the same; what is damaged or foreign is refused."""

import copy
import io
import os
import pickle
import stat
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import minimlc as mlc
from minimlc.deploy import load as loading
from minimlc.deploy.archive import CODE, CONSTANTS, MANIFEST, MODULE, digest, pack, unpack
from minimlc.graphs.ir.nodes import TensorType, Tuple, TupleGetItem, TupleType, Var, call_dps_packed
from minimlc.graphs.passes import legalize
from minimlc.loops.values.errors import BuildError
from minimlc.services.runtime.executable import NativeGraph, SteppedGraph
from tests.codegen.machines import X86
from tests.deploy.graphs import graph, mlp, op, transformer, values
from tests.deploy.test_memory import PARALLEL
from tests.helpers import assert_close, refuses

COMMON = mlc.Target("llvm", "x86-64", "+sse2", vector_bits=128)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path) -> Path:
    """The file of a small network."""
    path = tmp_path / "net.mlc"
    mlc.build(mlp(), recipes=False).save(path)
    return path


def again(lib, path: Path):
    lib.save(path)
    return mlc.load(path)


@pytest.mark.parametrize("make", [mlp, lambda: transformer(layers=1)])
@pytest.mark.parametrize("options", [{}, {"pipeline": (legalize,)}])
def test_a_loaded_library_computes_the_same_bits(tmp_path, make, options):
    lib = mlc.build(make(), **options)
    loaded = again(lib, tmp_path / "lib.mlc")
    x = values(*lib.mod["main"].params[0].shape)
    np.testing.assert_array_equal(loaded["main"](x), lib["main"](x))
    assert isinstance(loaded["main"], NativeGraph) and loaded.names() == lib.names()
    assert mlc.structural_equal(loaded.mod, lib.mod) and loaded.target == lib.target
    assert loaded.source() == lib.source("llvm")
    assert repr(loaded.plan("main")) == repr(lib.plan("main"))
    assert repr(loaded["main"]) == repr(lib["main"])


def test_kernels_are_called_and_profiled_too(file, monkeypatch):
    monkeypatch.setattr("minimlc.deploy.profile.machine_peaks", lambda: mlc.Peaks(1e9, 1e9))
    loaded = mlc.load(file)
    x = values(3, 6)
    profile = loaded.profile("main", x)
    assert [kernel.flops for kernel in profile.kernels] == [336, 204]
    np.testing.assert_array_equal(profile.result, loaded["main"](x))
    refuses("E604", lambda: loaded["main"](values(3, 7)), 'argument 1 ("x") of main')
    refuses("E601", lambda: loaded["fused_matmul_add"](x), "takes 4 argument(s)")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "bool"])
def test_constants_of_every_kind_and_results_of_every_shape(tmp_path, dtype):
    """Large and small ones, one without axes, one that is a result itself; nested tuples."""
    rng = np.random.default_rng(3)
    large, small, single = (
        mlc.constant(rng.integers(0, 2, shape), dtype) for shape in ((5, 9), (2, 1), ())
    )
    kind = TensorType((5, 9), dtype)
    pair, bb = Var("pair", TupleType((kind, TupleType((kind,))))), mlc.BlockBuilder()
    with bb.function("main", [pair]):
        first = bb.emit(TupleGetItem(pair, 0))
        second = bb.emit(TupleGetItem(bb.emit(TupleGetItem(pair, 1)), 0))
        joined = op.logical_or if dtype == "bool" else op.add
        total = bb.emit(joined(bb.emit(joined(first, large)), second))
        total = bb.emit(joined(total, single))
        bb.emit_func_output(Tuple((total, Tuple((small, large, first)))))
    mod = bb.get()
    loaded = again(mlc.build(mod), tmp_path / "lib.mlc")
    arrays = [mlc.constant(rng.integers(0, 2, (5, 9)), dtype).data for _ in range(2)]
    expected = mlc.interpret(mod, "main", (arrays[0], (arrays[1],)))
    got = loaded["main"]((arrays[0], (arrays[1],)))
    assert_close(got, expected)
    got[1][1][...] = 0
    assert_close(loaded["main"]((arrays[0], (arrays[1],))), expected)
    assert mlc.structural_equal(loaded.mod, mlc.build(mod).mod)


def test_registered_functions_are_called_by_name(tmp_path):
    name, kind = "test.deploy.minus", TensorType((4,), "float32")
    mlc.register_func(name, lambda a, out: np.negative(a, out=out), override=True)

    def make(x, emit):
        y = emit(call_dps_packed(name, (emit(op.add(x, x)),), kind))
        return op.multiply(y, y)

    lib = mlc.build(graph((4,), make))
    loaded = again(lib, tmp_path / "lib.mlc")
    assert isinstance(loaded["main"], SteppedGraph)
    np.testing.assert_array_equal(loaded["main"](values(4)), lib["main"](values(4)))
    mlc.register_func(name, lambda a, out: np.copyto(out, a * 0), override=True)
    assert not loaded["main"](values(4)).any()


def test_parallel_loops(tmp_path):
    loaded = again(mlc.build(mlc.parse(PARALLEL)), tmp_path / "lib.mlc")
    np.testing.assert_array_equal(loaded["main"](values(64)), 8 * values(64))


def test_primitive_functions_alone(tmp_path):
    mod = mlc.parse("@T.prim_func\ndef main(A: T.Buffer((4,), 'int32')):\n    A[0] = 7\n")
    loaded = again(mlc.build(mod), tmp_path / "lib.mlc")
    a = np.zeros(4, "int32")
    loaded["main"](a)
    assert a[0] == 7


def test_the_same_library_is_the_same_file(tmp_path):
    lib = mlc.build(mlp(), recipes=False)
    for name in "ab":
        lib.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_others_can_read_the_file(file):
    """It is a zip, with numpy's file of arrays in it, and the module as a script."""
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == [MANIFEST, CODE, CONSTANTS, MODULE]
        text = archive.read(MODULE).decode()
        with np.load(io.BytesIO(archive.read(CONSTANTS)), allow_pickle=False) as arrays:
            assert {name: arrays[name].shape for name in arrays.files} == {
                "const0": (6, 8), "small0": (8,), "small1": (8, 4), "small2": (4,)
            }  # fmt: skip
    assert "def main(x: R.Tensor((3, 6)" in text and "R.const(const0," in text
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o644


FORBIDDEN = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in [f"minimlc.{part}" for part in sys.argv[2].split()]:
            raise AssertionError(f"{name} is a compiler's")
sys.meta_path.insert(0, Refuse())
import numpy as np
import minimlc as mlc
lib = mlc.load(sys.argv[1])
print(lib["main"](np.ones((3, 6), "float32")).tobytes().hex())
"""


COMPILERS = (
    "loops.schedule loops.lower.lower loops.llvm.emit loops.llvm.stmt graphs.passes "
    "services.passes services.build recipes targets.c deploy.save deploy.profile"
)


def test_no_compiler_is_needed(file):
    assert all(find_spec(f"minimlc.{name}") for name in COMPILERS.split())
    command = [sys.executable, "-c", FORBIDDEN, str(file), COMPILERS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    expected = mlc.load(file)["main"](np.ones((3, 6), "float32"))
    assert done.stdout.strip() == expected.tobytes().hex(), done.stderr


# Damage


def test_every_shorter_file_is_refused(file, tmp_path):
    data = file.read_bytes()
    for size in range(len(data)):
        with pytest.raises(BuildError) as caught:
            unpack(data[:size], "net.mlc")
        assert caught.value.code == "E512"
    for size in (0, 3, 64, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:size])
        refuses("E512", lambda: mlc.load(file), "net.mlc")


def test_every_changed_byte_is_found(file, monkeypatch):
    """Also bytes that a zip archive does not check; no code is linked."""
    monkeypatch.setattr(loading, "link", lambda *_: pytest.fail("damaged code is linked"))
    data = file.read_bytes()
    for at in range(len(data)):
        changed = bytes([*data[:at], data[at] ^ (1 << at % 8), *data[at + 1 :]])
        with pytest.raises(BuildError) as caught:
            unpack(changed, "net.mlc")
        assert caught.value.code == "E512"
    with zipfile.ZipFile(file) as archive:
        starts = [info.header_offset + 60 for info in archive.infolist()]
    for at in starts:
        file.write_bytes(bytes([*data[:at], data[at] ^ 1, *data[at + 1 :]]))
        refuses("E512", lambda: mlc.load(file), "net.mlc is damaged")


@pytest.mark.parametrize("extra", [b"x", b"0" * 64, b"\n"])
def test_a_longer_file_is_refused(file, extra):
    file.write_bytes(file.read_bytes() + extra)
    refuses("E512", lambda: mlc.load(file), "damaged")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", os.urandom(500)])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    refuses("E512", lambda: mlc.load(path), "other")
    with pytest.raises(OSError):
        mlc.load(tmp_path / "nothing")


def test_what_is_no_name_of_a_file_is_refused():
    for path in (3, b"net.mlc", None, "a\0b", "\ud800"):
        refuses("", lambda path=path: mlc.load(path), "mlc.load takes the name of a file")
        refuses("", lambda path=path: mlc.build(mlp()).save(path), "library.save takes")


def test_a_library_is_saved_and_not_pickled():
    lib = mlc.build(mlp())
    assert copy.deepcopy([lib])[0] is lib
    for dump in (pickle.dumps, lambda each: pickle.dumps({"lib": each})):
        refuses("E514", lambda dump=dump: dump(lib), "not pickled", 'lib.save("net.mlc")')


def resealed(file: Path, change) -> None:
    """The file after `change(manifest, members)`, with digests that are right again."""
    manifest, members = unpack(file.read_bytes(), "")
    change(manifest, members)
    manifest = {key: value for key, value in manifest.items() if key != "sha256"}
    file.write_bytes(pack(manifest, members))


def test_code_that_the_manifest_does_not_know_is_not_linked(file, monkeypatch):
    """The digest of the whole is right, that of the code is not."""
    monkeypatch.setattr(loading, "link", lambda *_: pytest.fail("unknown code is linked"))
    data = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        code = archive.read(CODE)
    other = zipfile_with(data, CODE, code[:-1] + bytes([code[-1] ^ 1]))
    file.write_bytes(other)
    refuses("E512", lambda: mlc.load(file), "a member is not the one that was written")


def zipfile_with(data: bytes, name: str, content: bytes) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(memory, "w") as new:
        for each in old.namelist():
            new.writestr(zipfile.ZipInfo(each), content if each == name else old.read(each))
        new.comment = b"0" * 64
    body = memory.getvalue()[:-64]
    return body + digest(body).encode()


def test_a_zip_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.zip"
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("hello.txt", b"hello")
        archive.comment = b"0" * 64
    body = memory.getvalue()[:-64]
    for content in (memory.getvalue(), body + digest(body).encode()):
        path.write_bytes(content)
        refuses("E512", lambda: mlc.load(path), "other.zip")


def without(key: str):
    return lambda manifest, members: manifest.pop(key)


def pickled(manifest, members) -> None:
    memory = io.BytesIO()
    np.savez(memory, **{name: np.array([{}], object) for name in manifest["dtypes"]})
    members[CONSTANTS] = memory.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        *map(without, ["target", "functions", "dtypes", "threads", "triple", "tiles"]),
        lambda manifest, members: manifest["functions"].append({}),
        lambda manifest, members: manifest["functions"][0]["plan"].pop("slots"),
        lambda manifest, members: manifest["target"].update(vector_bits=3),
        lambda manifest, members: members.update({CODE: b"no object file"}),
        lambda manifest, members: members.update({CONSTANTS: b"no arrays"}),
        lambda manifest, members: members.pop(CODE),
        pickled,
    ],
)
def test_what_is_whole_but_wrong_is_a_typed_error(file, change):
    resealed(file, change)
    with pytest.raises(BuildError) as caught:
        mlc.load(file)
    assert caught.value.code in ("E512", "E501")


# Other machines


def test_another_format_or_system_is_refused(file):
    data = file.read_bytes()
    resealed(file, lambda manifest, members: manifest.update(format=2))
    refuses("E513", lambda: mlc.load(file), "format 2")
    file.write_bytes(data)
    resealed(file, lambda manifest, members: manifest.update(triple="riscv64-unknown-linux-gnu"))
    refuses("E513", lambda: mlc.load(file), "riscv64")


@pytest.mark.parametrize(
    ("name", "answer", "change", "words"),
    [
        ("missing_features", ("avx512f", "vnni"), {}, "lacks avx512f, vnni"),
        ("tiles_permitted", False, {"tiles": True}, "tile registers"),
    ],
)
def test_what_a_machine_lacks_is_said(file, monkeypatch, name, answer, change, words):
    monkeypatch.setattr(loading, "link", lambda *_: pytest.fail("foreign code is linked"))
    monkeypatch.setattr(loading, name, lambda *_: answer)
    resealed(file, lambda manifest, members: manifest.update(change))
    refuses("E513", lambda: mlc.load(file), words, "net.mlc")


@pytest.mark.skipif(not X86, reason="these names are of x86 CPUs")
def test_code_for_a_newer_cpu_is_saved_here_and_not_loaded(tmp_path, monkeypatch):
    mine = mlc.Target.host()
    old = staticmethod(lambda name="llvm": mlc.Target(name, mine.cpu, "+sse2"))
    monkeypatch.setattr(mlc.Target, "host", old)
    monkeypatch.setattr(loading, "link", lambda *_: pytest.fail("foreign code is linked"))
    target = mlc.Target("llvm", "x86-64-v4", "+avx512f,+avx512vl", 512)
    mlc.build(mlp(), target, recipes=False).save(tmp_path / "lib.mlc")
    refuses("E513", lambda: mlc.load(tmp_path / "lib.mlc"), '"x86-64-v4"', "lacks avx512f")


@pytest.mark.skipif(not X86, reason="these names are of x86 CPUs")
@pytest.mark.parametrize("features", ["+avx512f,+amx-tile,+amx-bf16", "+avx512f"])
def test_a_file_says_whether_its_code_has_tile_registers(tmp_path, features):
    """The system gives them to a process that asks, before the first use."""
    sizes = ((64, 128), (128, 64))
    a, b = (Var(name, TensorType(size, "bfloat16")) for name, size in zip("ab", sizes, strict=True))
    bb = mlc.BlockBuilder()
    with bb.function("main", [a, b]):
        bb.emit_func_output(bb.emit(op.matmul(a, b, out_dtype="float32")))
    lib = mlc.build(bb.get(), mlc.Target("llvm", "sapphirerapids", features, 512))
    lib.save(tmp_path / "lib.mlc")
    manifest, _ = unpack((tmp_path / "lib.mlc").read_bytes(), "lib.mlc")
    assert manifest["tiles"] is ("amx" in features) is ("tdpbf16ps" in lib.source("llvm"))


@pytest.mark.skipif(not X86, reason="these names are of x86 CPUs")
def test_code_for_a_common_cpu_is_loaded_elsewhere(tmp_path):
    loaded = again(mlc.build(mlp(), COMMON), tmp_path / "lib.mlc")
    assert loaded.target == COMMON
    assert_close(loaded["main"](values(3, 6)), mlc.interpret(mlp(), "main", values(3, 6)))


# What cannot be saved


def test_a_write_that_fails_keeps_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def full(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError):
        mlc.build(mlp()).save(file)
    assert file.read_bytes() == before and [each.name for each in file.parent.iterdir()] == [
        "net.mlc"
    ]


def test_what_is_not_all_machine_code_is_refused(tmp_path):
    path = tmp_path / "lib.mlc"
    refuses("E514", lambda: mlc.build(mlp(), "python").save(path), 'target "python"')
    refuses("E514", lambda: mlc.build(mlp(), bounds="check").save(path), "checked accesses")
    assert not path.exists()


SYMBOLIC = """
@T.prim_func
def main(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        A[i] = 7.0
"""


def test_checked_accesses_are_not_lost(tmp_path):
    lib = mlc.build(mlc.parse(SYMBOLIC), bounds="check")
    refuses("E514", lambda: lib.save(tmp_path / "lib.mlc"), "checked accesses")


def test_a_primitive_function_of_symbolic_sizes(tmp_path, monkeypatch):
    lib, arrays = mlc.build(mlc.parse(SYMBOLIC)), [np.zeros(n, "float32") for n in (3, 5)]
    lib["main"](arrays[0], 3)
    loaded = again(lib, tmp_path / "lib.mlc")
    arrays[0][...] = 0
    with monkeypatch.context() as patch:
        patch.setattr("minimlc.services.build.build", None)
        loaded["main"](arrays[0], 3)
    loaded["main"](arrays[1], 5)
    assert [array.tolist() for array in arrays] == [[7] * 3, [7] * 5]
    refuses("E604", lambda: loaded["main"](arrays[0], 4), "n")
