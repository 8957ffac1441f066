"""The compile cache: found again, never trusted when damaged, safe with several at once."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minimlc.runtime import cache
from minimlc.runtime.build import build
from minimlc.runtime.native import backend
from minimlc.tir.nodes import Buffer, For, PrimFunc, Var, index, store


def square() -> PrimFunc:
    i, x, y = Var("i"), Buffer("x", (9,), "float32"), Buffer("y", (9,), "float32")
    return PrimFunc((x, y), (), For(i, index(9), "vectorized", store(y, (i,), x[i] * x[i])))


def check(func: PrimFunc) -> None:
    x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    build(func)["main"](x, y)
    np.testing.assert_array_equal(y, x * x)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch) -> list[str]:
    """The texts that were compiled."""
    texts: list[str] = []
    real = backend().compile_object
    monkeypatch.setattr(
        backend(), "compile_object", lambda text, machine: texts.append(text) or real(text, machine)
    )
    return texts


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
@pytest.mark.parametrize("where", ["write_bytes", "mkdir"])
def test_a_disk_that_is_full_or_fails_does_no_harm(folder, monkeypatch, where, error):
    monkeypatch.setattr(Path, where, _refusing(error))
    check(square())
    assert not folder.exists() or not any(folder.iterdir())


def test_a_folder_to_read_only_is_read(folder, compilations, monkeypatch):
    check(square())
    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, _refusing(errno.EROFS))
    monkeypatch.setattr(Path, "write_bytes", _refusing(errno.EROFS))
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


def test_what_a_killed_process_left_goes(folder):
    folder.mkdir()
    for name in ("old.new", "fresh.new"):
        (folder / name).write_bytes(b"half")
    os.utime(folder / "old.new", (0, 0))
    check(square())
    assert not (folder / "old.new").exists() and (folder / "fresh.new").exists()


def test_builds_at_the_same_time(folder):
    script = "from tests.runtime.test_cache import check, square; check(square()); print('good')"
    jobs = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [job.communicate()[0].strip() for job in jobs] == ["good"] * 3
    assert [p.suffix for p in folder.iterdir()] == [".bin"]
