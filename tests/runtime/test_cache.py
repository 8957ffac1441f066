"""The compile cache: found again, never trusted when damaged, safe with several at once."""

import errno
import io
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import Buffer, For, PrimFunc, Var, index, store
from minimlc.services.build import build
from minimlc.services.native import native
from minimlc.services.runtime import cache, files
from minimlc.targets.c import compiler as c_compiler
from minimlc.targets.c.compiler import compiler


def square() -> PrimFunc:
    i, x, y = Var("i"), Buffer("x", (9,), "float32"), Buffer("y", (9,), "float32")
    return PrimFunc((x, y), (), For(i, index(9), "vectorized", store(y, (i,), x[i] * x[i])))


def check(func: PrimFunc) -> None:
    x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    build(func)["main"](x, y)
    np.testing.assert_array_equal(y, x * x)


def test_the_second_build_compiles_nothing(folder, compilations):
    check(square())
    assert cache.cache_dir() == folder and len(list(folder.glob("*.bin"))) == 1
    check(square())
    assert len(compilations) == 1
    build(square(), cache=False)
    assert len(compilations) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:60],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: os.urandom(len(data)),
        lambda data: data + b"x",
    ],
)
def test_a_damaged_entry_is_rebuilt(folder, compilations, damage):
    check(square())
    (entry,) = folder.glob("*.bin")
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    check(square())
    assert len(compilations) == 2
    check(square())
    assert len(compilations) == 2


def test_an_entry_under_another_name_is_ignored(folder, compilations):
    check(square())
    (entry,) = folder.glob("*.bin")
    assert cache.load_entry("0" * 40) is None
    (folder / ("0" * 40 + ".bin")).write_bytes(entry.read_bytes())
    assert cache.load_entry("0" * 40) is None


def test_entries_that_changed_places_are_rebuilt(folder, compilations):
    x = Buffer("x", (9,), "float32")
    other = PrimFunc((x, Buffer("y", (9,), "float32")), (), store(x, (0,), 1.0))
    check(square())
    (first,) = folder.glob("*.bin")
    build(other)
    (second,) = set(folder.glob("*.bin")) - {first}
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    check(square())
    assert len(compilations) == 3


def test_a_folder_in_place_of_an_entry(folder, compilations):
    check(square())
    (entry,) = folder.glob("*.bin")
    entry.unlink()
    entry.mkdir()
    check(square())
    assert len(compilations) == 2


def test_sound_code_that_does_not_link_is_rebuilt(folder, compilations):
    check(square())
    (entry,) = folder.glob("*.bin")
    cache.store_entry(entry.stem, {}, b"no object file")
    check(square())
    assert len(compilations) == 2


def _refusing(error: int):
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(error, os.strerror(error))

    return refuse


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("where", [(files, "_private"), (os, "replace"), (Path, "mkdir")])
def test_a_disk_that_is_full_or_fails_does_no_harm(folder, monkeypatch, where, error):
    monkeypatch.setattr(*where, _refusing(error))
    check(square())
    assert not folder.exists() or not any(folder.iterdir())


def test_a_disk_that_fills_up_keeps_no_half_entry(folder, monkeypatch):
    class Filling(io.FileIO):
        def write(self, data):
            super().write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def filling(path, mode="rb", opener=None, **options):
        return Filling(path, mode, opener=opener) if "x" in mode else open(path, mode, **options)

    monkeypatch.setattr(files, "open", filling, raising=False)
    check(square())
    assert not any(folder.iterdir())


def test_a_process_killed_while_it_stores_leaves_no_entry(folder, compilations):
    script = (
        "import os\nfrom tests.runtime.test_cache import check, square\n"
        "os.replace = lambda *names: os._exit(9)\ncheck(square())"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 9
    assert [path.suffix for path in folder.iterdir()] == [".new"]
    check(square())
    assert len(compilations) == 1
    for path in folder.glob("*.new"):
        os.utime(path, (0, 0))
    cache._unseen.clear()  # as in another process
    cache.store_entry("0" * 40, {}, b"")
    assert not list(folder.glob("*.new"))


def test_a_folder_to_read_only_is_read(folder, compilations, monkeypatch):
    check(square())
    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, _refusing(errno.EROFS))
    monkeypatch.setattr(files, "_private", _refusing(errno.EROFS))
    check(square())
    assert len(compilations) == 1


def test_no_home(monkeypatch, compilations):
    for name in ("MINIMLC_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)

    def homeless() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.setattr(Path, "home", homeless)
    check(square())
    assert len(compilations) == 1


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    check(square())


def test_eviction_keeps_what_was_used_last(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3000)
    for number in range(6):
        cache.store_entry(f"{number:040}", {}, b"x" * 900)
        path = folder / f"{number:040}.bin"
        if path.exists():
            os.utime(path, (number, number))
    left = sorted(path.name for path in folder.glob("*.bin"))
    assert 1 <= len(left) <= 3 and left[-1].startswith(f"{5:040}")


def test_a_full_folder_is_not_listed_for_each_entry(folder, monkeypatch):
    """Thousands of entries take longer to list than one kernel to compile."""
    looks = []
    monkeypatch.setattr(cache, "_evict", looks.append)
    for number in range(40):
        cache.store_entry(f"{number:040}", {}, b"x" * (cache.LIMIT_BYTES // 64 // 10))
    assert len(looks) == 4  # at the first entry, and after each ten


def test_what_a_killed_process_left_goes(folder):
    folder.mkdir()
    old, fresh = (folder / f"{digit * 40}.1-2.new" for digit in "01")
    loading = folder / "minimlc-ab_12345.so"
    for path in (old, fresh, loading):
        path.write_bytes(b"half")
    for path in (old, loading):
        os.utime(path, (0, 0))
    check(square())
    assert fresh.exists() and not old.exists() and not loading.exists()


def test_only_files_with_the_names_of_entries_are_removed(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3000)
    folder.mkdir()
    names = ["weights.bin", "old.new", "minimlc-notes.so", f"{0:040}.bin.bin", f"{'A' * 40}.bin"]
    theirs = [folder / name for name in names]
    for path in theirs:
        path.write_bytes(b"x" * 5000)
        os.utime(path, (0, 0))
    (folder / f"{1:040}.bin").mkdir()
    (folder / f"{2:040}.bin").symlink_to(theirs[0])
    for number in range(3, 9):
        cache.store_entry(f"{number:040}", {}, b"x" * 900)
    assert all(path.exists() for path in theirs)
    assert (folder / f"{1:040}.bin").is_dir() and (folder / f"{2:040}.bin").is_symlink()
    assert 1 <= len([path for path in folder.glob("0*.bin") if cache.load_entry(path.stem)]) <= 3


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users and modes are POSIX's")


@posix
@pytest.mark.parametrize(
    "file",
    [
        "script.py",
        "loops/llvm/stmt.py",
        "services/build.py",
        "graphs/passes/legalize.py",
        "loops/math/functions.py",
        "recipes/conv.py",
    ],
)
def test_a_changed_compiler_finds_no_old_code(tmp_path, monkeypatch, file):
    """Whichever of its files changed, in a folder of a folder too."""
    ignored = shutil.ignore_patterns("__pycache__")
    package = Path(mlc.__file__).parent
    copy = shutil.copytree(package, tmp_path / "minimlc", ignore=ignored)
    monkeypatch.setattr(cache, "__file__", str(copy / "services" / "runtime" / "cache.py"))
    before = cache.code_version.__wrapped__()
    with (copy / file).open("a") as text:
        text.write("# changed\n")
    assert cache.code_version.__wrapped__() != before


def test_what_is_stored_is_for_its_user_alone(folder):
    before = os.umask(0)
    try:
        check(square())
    finally:
        os.umask(before)
    (entry,) = folder.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, entry)] == [0o700, 0o600]


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_not_run(folder, compilations, mode):
    check(square())
    (entry,) = folder.iterdir()
    entry.chmod(mode)
    check(square())
    assert len(compilations) == 2 and stat.S_IMODE(entry.stat().st_mode) == 0o600


@posix
def test_another_users_entry_is_not_run(folder, compilations, monkeypatch):
    check(square())
    (entry,) = folder.iterdir()
    real = os.fstat

    def foreign(handle):
        facts = real(handle)
        return os.stat_result((*facts[:4], facts.st_uid + 1, *facts[5:]))

    assert cache.load_entry(entry.stem)
    monkeypatch.setattr(cache.os, "fstat", foreign)
    assert cache.load_entry(entry.stem) is None


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def _link_to_the_entry(path: Path) -> None:
    """Sound, but somewhere else: who can make a link there may change where it leads."""
    path.symlink_to(path.with_suffix(".moved"))


@posix
@pytest.mark.parametrize("odd", [_pipe, Path.mkdir, _link_to_itself, _link_to_the_entry])
def test_what_is_no_plain_file_is_no_entry(folder, compilations, odd):
    check(square())
    (entry,) = folder.iterdir()
    entry.rename(entry.with_suffix(".moved"))
    odd(entry)
    assert cache.load_entry(entry.stem) is None
    check(square())
    check(square())
    assert len(compilations) == (3 if odd is Path.mkdir else 2)


def test_an_enormous_file_is_no_entry(folder, monkeypatch):
    cache.store_entry("0" * 40, {}, b"code")
    assert cache.load_entry("0" * 40)
    monkeypatch.setattr(cache, "LIMIT_BYTES", 50)
    assert cache.load_entry("0" * 40) is None


@posix
@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_in_a_folder_of_several_each_user_has_one(folder, compilations, mode):
    folder.mkdir()
    folder.chmod(mode)
    (folder / "weights.bin").write_bytes(b"theirs")
    check(square())
    check(square())
    own = folder / f"user-{os.geteuid()}"
    assert len(compilations) == 1 and len(list(own.iterdir())) == 1
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == mode
    assert sorted(path.name for path in folder.iterdir()) == [own.name, "weights.bin"]


@posix
def test_a_folder_that_others_prepared_is_not_used(folder, compilations):
    """Whoever may write in a folder can make the one of another user's name in it first."""
    folder.mkdir()
    folder.chmod(0o777)
    own = folder / f"user-{os.geteuid()}"
    own.mkdir()
    own.chmod(0o777)
    for count in (1, 2):
        with pytest.warns(RuntimeWarning, match="not cached: .*user-.* others may write it"):
            check(square())
        assert len(compilations) == count
    assert not any(own.iterdir())


@posix
def test_another_users_folder_is_not_used(folder, monkeypatch):
    cache.store_entry("0" * 40, {}, b"code")
    monkeypatch.setattr(os, "geteuid", lambda me=os.geteuid(): me + 1)
    assert cache.load_entry("0" * 40) is None


@posix
def test_a_shared_object_of_others_is_not_loaded(folder, monkeypatch):
    """Generated C goes the same way."""
    if compiler() is None:
        pytest.skip("no C compiler")
    loaded = []
    monkeypatch.setattr(
        c_compiler, "load_entry", lambda key: loaded.append(cache.load_entry(key)) or loaded[-1]
    )
    for _ in range(2):
        build(square(), "c")
    (entry,) = folder.iterdir()
    entry.chmod(0o666)
    build(square(), "c")
    assert [bool(found) for found in loaded] == [False, True, False]


def test_threads_take_turns_as_before_a_build():
    """However builds at the same time end."""
    before = sys.getswitchinterval()
    outer, inner = native.compiler(), native.compiler()
    with outer:
        inner.__enter__()
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() < before
    inner.__exit__(None, None, None)
    assert sys.getswitchinterval() == before


def test_builds_at_the_same_time(folder):
    script = "from tests.runtime.test_cache import check, square; check(square()); print('good')"
    jobs = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [job.communicate()[0].strip() for job in jobs] == ["good"] * 3
    assert [p.suffix for p in folder.iterdir()] == [".bin"]


def test_the_null_device_keeps_nothing(monkeypatch, compilations):
    monkeypatch.setenv("MINIMLC_CACHE_DIR", os.devnull)
    for count in (1, 2):
        check(square())
        assert len(compilations) == count
    assert cache.own_folder(make=True) is None and cache.load_entry("0" * 40) is None


PARALLEL = """
import numpy as np
from minimlc.services.runtime import cache
from minimlc.services.threads import team
from minimlc.services.build import build
from minimlc.script import parse
load, used = cache.load_entry, []
cache.load_entry = team.load_entry = lambda key: used.append(key) or load(key)
text = '@T.prim_func\\ndef main(A: T.Buffer((9,), "int32")):\\n    for i in T.parallel(9):\\n'
func = parse(text + "        A[i] = A[i] + 1")["main"]
for cached in (False, True):
    a = np.zeros(9, np.int32)
    build(func, cache=cached)["main"](a)
    print(a.sum(), len(used), len(list(cache.cache_dir().glob("*.bin"))))
"""


def test_the_team_s_code_is_not_from_the_cache_without_it(folder):
    command = [sys.executable, "-W", "ignore", "-c", PARALLEL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "9 0 0\n9 1 1\n"), done.stderr[-500:]
