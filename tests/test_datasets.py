"""Downloads are tested on small files that the test writes and serves on this machine."""

import gzip
import hashlib
import re
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from minimlc import datasets
from tests.helpers import refuses


def idx(values):
    """An array as the bytes of an IDX file."""
    codes = {"uint8": 0x08, "int16": 0x0B, "float32": 0x0D}
    head = struct.pack(
        f">HBB{values.ndim}I", 0, codes[values.dtype.name], values.ndim, *values.shape
    )
    return head + values.astype(values.dtype.newbyteorder(">")).tobytes()


IMAGES = np.arange(3 * 28 * 28, dtype="u4").astype("u1").reshape(3, 28, 28)
LABELS = np.array([9, 0, 4], np.uint8)
FILES = {
    name: gzip.compress(idx(values), mtime=0)
    for name, values in {
        "train-images-idx3-ubyte.gz": IMAGES,
        "train-labels-idx1-ubyte.gz": LABELS,
        "t10k-images-idx3-ubyte.gz": IMAGES[:2],
        "t10k-labels-idx1-ubyte.gz": LABELS[:2],
    }.items()
}
CHECKSUMS = {name: hashlib.md5(data).hexdigest() for name, data in FILES.items()}
FIRST = next(iter(FILES))


class Server(ThreadingHTTPServer):
    """Serves FILES; `requests` has each path and range asked for, `cut` ends replies early."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []
        self.ranges = True
        self.cut = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name, asked = self.path.lstrip("/"), self.headers.get("Range")
        self.server.requests.append((name, asked))
        if name not in FILES:
            self.send_error(404)
            return
        data, start = FILES[name], 0
        if asked and self.server.ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", asked).group(1))
            if start >= len(data):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start : self.server.cut or None])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fashion(server, root, **more):
    options = {"progress": None, "checksums": CHECKSUMS, "base_url": server.url, **more}
    return datasets.fashion_mnist(root, **options)


def test_fashion_mnist_downloads_once(server, tmp_path):
    data = fashion(server, tmp_path / "new" / "folder")
    assert data.x_train.shape == (3, 784) and data.x_train.dtype == np.float32
    np.testing.assert_array_equal(data.x_train[1], IMAGES[1].ravel().astype("f4") / np.float32(255))
    assert data.y_train.tolist() == [9, 0, 4] and data.y_test.dtype == np.int64
    assert data.classes[data.y_train[0]] == "Ankle boot" and len(data.classes) == 10
    assert len(server.requests) == 4
    fashion(server, tmp_path / "new" / "folder")
    assert len(server.requests) == 4
    assert not list(tmp_path.rglob("*.part"))


def test_the_cache_folder_is_the_default(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    fashion(server, None)
    assert (tmp_path / "fashion-mnist" / FIRST).read_bytes() == FILES[FIRST]


def test_an_interrupted_download_goes_on_where_it_stopped(server, tmp_path):
    server.cut = 50
    error = refuses("E702", lambda: fashion(server, tmp_path), "50 of", "call again")
    assert server.url + FIRST in str(error) and str(tmp_path / FIRST) in str(error)
    assert (tmp_path / f"{FIRST}.part").read_bytes() == FILES[FIRST][:50]
    server.cut = 0
    assert len(fashion(server, tmp_path).x_train) == 3
    assert (FIRST, "bytes=50-") in server.requests


def test_a_server_without_ranges_is_asked_for_all(server, tmp_path):
    server.ranges = False
    (tmp_path / f"{FIRST}.part").write_bytes(FILES[FIRST][:50])
    assert len(fashion(server, tmp_path).x_train) == 3


@pytest.mark.parametrize("stale", [b"another file", b"x" * 5000, FILES[FIRST]])
def test_a_part_of_something_else_is_dropped(server, tmp_path, stale):
    (tmp_path / f"{FIRST}.part").write_bytes(stale)
    fashion(server, tmp_path)
    assert (tmp_path / FIRST).read_bytes() == FILES[FIRST]


def test_a_damaged_file_is_reported_and_downloaded_again(server, tmp_path, capsys):
    fashion(server, tmp_path)
    (tmp_path / FIRST).write_bytes(FILES[FIRST][:-1])
    fashion(server, tmp_path)
    assert f"{FIRST}: the file here is damaged" in capsys.readouterr().err
    assert len(server.requests) == 5


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server, tmp_path):
    wrong = {**CHECKSUMS, FIRST: "0" * 64}
    refuses("E703", lambda: fashion(server, tmp_path, checksums=wrong), "checksum", FIRST)
    assert list(tmp_path.iterdir()) == []


def test_sha256_works_too(server, tmp_path):
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    assert len(fashion(server, tmp_path, checksums=sums).y_test) == 2


def test_offline_the_message_says_which_file_goes_where(tmp_path):
    with Server() as closed:
        url = closed.url
    call = lambda: datasets.fashion_mnist(tmp_path, base_url=url, checksums=CHECKSUMS)  # noqa: E731
    refuses("E702", call, url + FIRST, str(tmp_path / FIRST), "when online")


def test_a_missing_file_on_the_server_is_reported(server, tmp_path):
    missing = {"no-such-file.gz": "0" * 32}
    refuses("E702", lambda: fashion(server, tmp_path, checksums=missing), "404")


def test_progress_is_called_or_printed(server, tmp_path, capsys):
    seen = []
    fashion(server, tmp_path / "a", progress=lambda *args: seen.append(args))
    size = len(FILES[FIRST])
    assert (FIRST, size, size) in seen
    fashion(server, tmp_path / "b", progress=datasets.print_progress)
    assert f"{FIRST}: 100 % of" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_idx_files_of_several_types(tmp_path, dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    (tmp_path / "plain").write_bytes(idx(values))
    array = datasets.read_idx(tmp_path / "plain")
    np.testing.assert_array_equal(array, values)
    assert array.dtype == values.dtype


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x00\x08", b"<html>", idx(LABELS)[:-1], b"\x1f\x8bxx", FILES[FIRST][:-9]]
)
def test_what_is_not_an_idx_file_is_refused(tmp_path, data):
    (tmp_path / "bad").write_bytes(data)
    refuses("E704", lambda: datasets.read_idx(tmp_path / "bad"), "not an IDX file", "delete")


def test_digits():
    pytest.importorskip("sklearn")
    data = datasets.digits()
    assert data.x_train.shape == (1438, 64) and data.x_test.shape == (359, 64)
    assert data.x_train.dtype == np.float32 and data.y_train.dtype == np.int64
    assert data.x_train.min() == 0 and data.x_train.max() == 1
    assert set(data.y_test) == set(range(10)) == set(map(int, data.classes))
    np.testing.assert_array_equal(data.x_test, datasets.digits().x_test)


def test_digits_without_scikit_learn(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(datasets.importlib, "import_module", missing)
    refuses("E701", datasets.digits, "pip install scikit-learn")
