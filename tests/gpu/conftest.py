"""Fixtures for target "cuda" where no GPU is."""

import pytest

from minimlc.targets.gpu import host
from minimlc.targets.gpu.emit import emit
from minimlc.targets.gpu.opencl import OPENCL
from tests.gpu import standin, standin_torch


@pytest.fixture
def cp(monkeypatch):
    """The stand-in for CuPy, as `cupy`."""

    def emitting(functions, language):
        emitted = emit(functions, language)
        standin.SOURCES[emitted.text] = emit(functions, OPENCL).text
        return emitted

    monkeypatch.setattr(host, "emit", emitting)
    return standin.entered(monkeypatch)


@pytest.fixture
def torch(cp, monkeypatch):
    """The stand-in for torch, as `torch`."""
    return standin_torch.entered(monkeypatch)
