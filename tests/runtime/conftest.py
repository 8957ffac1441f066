"""Fixtures of the tests of the compile cache."""

from pathlib import Path

import pytest

from minimlc.loops.llvm.kernel import backend


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch) -> list[str]:
    """The texts that were compiled, without that of the team of threads."""
    texts: list[str] = []
    real = backend().compile_object

    def noted(text, machine, **options):
        texts.extend([] if options else [text])
        return real(text, machine, **options)

    monkeypatch.setattr(backend(), "compile_object", noted)
    return texts
