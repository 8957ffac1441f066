"""Messages between a notebook, its workers and a grader: JSON and arrays, never code.

A message is a JSON object and some named arrays. In a file and on a pipe it is a zip archive of
`submission.json` and `arrays.npz`. Nothing here unpickles or evaluates.
"""

import io
import json
import math
import struct
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

Arrays = dict[str, np.ndarray]
Message = tuple[dict[str, Any], Arrays]

LARGEST_TEXT = 4 * 1024 * 1024
"""Bytes of JSON that a message may have."""

LARGEST_ARRAYS = 64 * 1024 * 1024
"""Bytes that the arrays of a message may have together, unpacked."""

MOST_ARRAYS = 1000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Zip methods that unpack piece by piece: zipfile unpacks the others at once, however large."""

_JSON, _ARRAYS = "submission.json", "arrays.npz"
_SIZE = struct.Struct("<Q")
NUMBERS = "biuf"
"""The kinds of dtypes that a message may have: truth values, integers and floats."""
FOREIGN = "what came back is not the worker's answer: something else wrote to it"
"""The reason for refusing a message that lacks the request's token."""


class Failed(Exception):
    """Why there is no result, in words."""


class Malformed(Failed):
    """Data that does not have the expected form."""


def numbered(arrays: Iterable[np.ndarray], prefix: str = "") -> Arrays:
    """Arrays named by their numbers."""
    return {f"{prefix}{number}": array for number, array in enumerate(arrays)}


def in_order(arrays: Arrays) -> list[np.ndarray]:
    """The arrays named by `numbered`."""
    return [arrays[str(number)] for number in range(len(arrays))]


def to_npz(arrays: Arrays) -> bytes:
    """Named arrays as the bytes of an npz file."""
    return _zipped({f"{name}.npy": _npy(array) for name, array in arrays.items()})


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def _zipped(parts: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive of files; its bytes depend only on their names and contents."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


def from_npz(data: bytes) -> Arrays:
    """The arrays of an npz file; sizes are checked before anything is unpacked."""
    parts = _unzipped(data, LARGEST_ARRAYS, MOST_ARRAYS)
    if not all(name.endswith(".npy") for name in parts):
        raise Malformed("an npz file holds .npy files only")
    return {name[: -len(".npy")]: _array(part) for name, part in parts.items()}


def _unzipped(data: bytes, largest: int, most: int) -> dict[str, bytes]:
    """The files in a zip archive: at most `most` of them, with at most `largest` bytes in all."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            entries = packed.infolist()
            if len(entries) > most:
                raise Malformed(f"the archive holds {len(entries)} files; {most} are allowed")
            if any(entry.compress_type not in _METHODS for entry in entries):
                raise Malformed("the archive is packed in a way that is not allowed")
            total = sum(entry.file_size for entry in entries)
            if total > largest:
                raise Malformed(f"unpacked it has {total:,} bytes; {largest:,} are allowed")
            return {entry.filename: _read(packed, entry) for entry in entries}
    except Malformed:
        raise
    except Exception as error:  # zipfile raises many kinds on hostile data
        raise Malformed(f"not a readable archive ({type(error).__name__}: {error})") from None


def _read(packed: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A file of an archive; no more is unpacked than the size it states."""
    with packed.open(entry) as part:
        return part.read(entry.file_size)


def _array(data: bytes) -> np.ndarray:
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, by_columns, dtype = read(file)
    except Exception as error:
        raise Malformed(f"not a readable array ({type(error).__name__})") from None
    if dtype.kind not in NUMBERS:
        raise Malformed(f"an array of {dtype} is not allowed: numbers and truth values only")
    rest = data[file.tell() :]
    if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != len(rest):
        raise Malformed("an array's shape does not fit its bytes")
    try:
        return np.frombuffer(rest, dtype).reshape(shape, order="F" if by_columns else "C").copy()
    except (TypeError, ValueError):  # more elements or axes than numpy can count, though empty
        raise Malformed("an array has a shape that numpy cannot hold") from None


def packed(message: Message, method: int = zipfile.ZIP_STORED) -> bytes:
    """A message as the bytes of a zip archive."""
    body, arrays = message
    text = json.dumps(body, indent=1).encode()
    return _zipped({_JSON: text, _ARRAYS: to_npz(arrays)}, method)


def unpacked(data: bytes) -> Message:
    """The message in a zip archive; `Malformed`, with the reason, where there is none."""
    parts = _unzipped(data, LARGEST_TEXT + LARGEST_ARRAYS, most=2)
    if set(parts) != {_JSON, _ARRAYS}:
        raise Malformed(f"it holds {sorted(parts)}, not {[_ARRAYS, _JSON]}")
    if len(parts[_JSON]) > LARGEST_TEXT:
        raise Malformed(f"{_JSON} has more than {LARGEST_TEXT:,} bytes")
    return _json_object(parts[_JSON]), from_npz(parts[_ARRAYS])


def send(stream: BinaryIO, body: dict[str, Any], arrays: Arrays) -> None:
    """Write one message."""
    data = packed((body, arrays))
    stream.write(_SIZE.pack(len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> Message | None:
    """Read one message; None at the stream's end. `Malformed` for anything else."""
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    try:
        if size > LARGEST_TEXT + 2 * LARGEST_ARRAYS:
            raise Malformed("a message of impossible size")
        data = stream.read(size)
        return unpacked(data) if len(data) == size else None
    except (Malformed, MemoryError) as error:
        raise Malformed(f"what came back cannot be read: {error}") from None


def _json_object(text: bytes) -> dict[str, Any]:
    """A JSON object; `Malformed` for anything else."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON ({type(error).__name__})") from None
    if not isinstance(body, dict):
        raise Malformed("not a JSON object")
    return body
