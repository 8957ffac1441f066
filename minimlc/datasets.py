"""Real data for the chapters: handwritten digits, and Fashion-MNIST from its official files."""

import gzip
import hashlib
import importlib
import os
import struct
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.values.errors import CompileError
from minimlc.services.runtime.cache import cache_dir

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes received so far and in total (0: not known)."""


class Dataset(NamedTuple):
    """Images as rows of float32 within 0 ... 1, their labels as int64, and the labels' names."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: tuple[str, ...]


def digits() -> Dataset:
    """1 797 handwritten digits of 8x8 pixels that scikit-learn ships: 1 438 to train, 359 to test.

    Every fifth image is held out, always the same ones. Source: E. Alpaydin, C. Kaynak, "Optical
    Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
    """
    try:
        source = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        why = "the digits come with scikit-learn, which is not installed"
        raise CompileError(why, code="E701", hint="pip install scikit-learn") from error
    bunch = source.load_digits()
    images = (bunch.data / 16).astype(np.float32)
    labels = bunch.target.astype(np.int64)
    held_out = np.arange(len(images)) % 5 == 4
    return Dataset(
        images[~held_out],
        labels[~held_out],
        images[held_out],
        labels[held_out],
        tuple(map(str, range(10))),
    )


FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
"""The official files in the order train images, train labels, test images, test labels; MD5."""

FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def print_progress(name: str, done: int, total: int) -> None:
    """One line on the error stream, rewritten while a file is received."""
    share = f"{100 * done // total:3d} % of " if total else ""
    end = "\n" if done == total else ""
    size = (total or done) / 2**20
    print(f"\r{name}: {share}{size:.1f} MiB", end=end, file=sys.stderr, flush=True)


def fashion_mnist(
    root: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = print_progress,
    base_url: str = FASHION_URL,
    checksums: Mapping[str, str] = FASHION_CHECKSUMS,
) -> Dataset:
    """Fashion-MNIST: 60 000 images of clothes to train, 10 000 to test, 784 (28x28) pixels each.

    Downloaded once, into `root` (default: the cache folder), with its checksums compared; an
    interrupted download continues where it stopped. `CompileError` without a network, with the file
    to get and the place to put it. `checksums` has an MD5 or SHA-256 per file, in the order of
    `FASHION_CHECKSUMS`. Source: H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747.
    """
    folder = cache_dir() / "fashion-mnist" if root is None else Path(root)
    files = [
        fetch(base_url.rstrip("/") + "/" + name, folder / name, checksum, progress)
        for name, checksum in checksums.items()
    ]
    x_train, y_train, x_test, y_test = map(read_idx, files)
    return Dataset(
        _rows(x_train),
        y_train.astype(np.int64),
        _rows(x_test),
        y_test.astype(np.int64),
        FASHION_CLASSES,
    )


def _rows(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an IDX file, plain or gzipped; `CompileError` for any other file.

    The format: http://yann.lecun.com/exdb/mnist, "The IDX file format".
    """
    data = Path(path).read_bytes()
    try:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        zeros, kind, ndim = struct.unpack(">HBB", data[:4])
        shape = struct.unpack(f">{ndim}I", data[4 : 4 + 4 * ndim])
        if zeros != 0 or kind not in IDX_TYPES:
            raise ValueError(f"it starts with {data[:4].hex(' ')}")
        values = np.frombuffer(data, IDX_TYPES[kind], offset=4 + 4 * ndim).reshape(shape)
    except (ValueError, struct.error, EOFError, OSError, zlib.error) as error:
        raise CompileError(
            f"{Path(path).name} is not an IDX file: {error}", code="E704", hint=f"delete {path}"
        ) from error
    return values.astype(values.dtype.newbyteorder("="))


# Downloads

CHUNK = 1 << 16
ATTEMPTS = 3


def fetch(url: str, path: Path, checksum: str, progress: Progress | None = None) -> Path:
    """The file `path`, downloaded from `url` unless it is there and its checksum fits.

    What has been received is kept as `<name>.part` until it is complete and checked, then renamed.
    """
    if path.exists():
        if _digest(path, checksum) == checksum:
            return path
        print(f"{path.name}: the file here is damaged; downloading it again", file=sys.stderr)
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    for _ in range(ATTEMPTS):
        resumed = _download(url, path, part, progress)
        if _digest(part, checksum) == checksum:
            os.replace(part, path)
            return path
        part.unlink()
        if not resumed:
            break
    why = f"{url} gave a file whose checksum is not {checksum}"
    raise CompileError(why, code="E703", hint=f"call again, or put the right file at {path}")


def _digest(path: Path, checksum: str) -> str:
    """The file's MD5 or SHA-256, whichever `checksum` is."""
    with path.open("rb") as file:
        kind = "md5" if len(checksum) == 32 else "sha256"
        return hashlib.file_digest(
            file, lambda: hashlib.new(kind, usedforsecurity=False)
        ).hexdigest()


def _download(url: str, path: Path, part: Path, progress: Progress | None) -> bool:
    """Download `part` to its full length; returns whether it continued an earlier download."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={start}-"} if start else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=30
        ) as reply:
            resumed = reply.status == 206
            _receive(reply, part, start if resumed else 0, progress, path.name)
            return resumed
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return True
        raise _unreachable(url, path, f"the server sent {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise _unreachable(url, path, str(getattr(error, "reason", error))) from error


def _receive(reply: Any, part: Path, start: int, progress: Progress | None, name: str) -> None:
    """Append what is received to `part`, from byte `start` on."""
    length = reply.headers.get("Content-Length")
    total = start + int(length) if length else 0
    done, shown = start, 0.0
    with part.open("ab" if start else "wb") as file:
        while chunk := reply.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            now = time.monotonic()
            if progress is not None and (done == total or now - shown > 0.2):
                progress(name, done, total)
                shown = now
    if progress is not None and not total:
        progress(name, done, done)
    if done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _unreachable(url: str, path: Path, why: str) -> CompileError:
    hint = f"call again when online (what has come in is kept), or put the file at\n{path}"
    return CompileError(f"cannot download {url}\n{why}", code="E702", hint=hint)
