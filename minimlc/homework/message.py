"""What travels between a notebook, its workers and a submission: JSON and arrays, never code.

A message is a JSON object and some named arrays (as npz). Nothing here unpickles or evaluates.
"""

import io
import json
import math
import struct
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

Arrays = dict[str, np.ndarray]

LARGEST_TEXT = 4 * 1024 * 1024
"""Bytes of JSON that a message may have."""

LARGEST_ARRAYS = 64 * 1024 * 1024
"""Bytes that the arrays of a message may have together, unpacked."""

MOST_ARRAYS = 1000
_HEAD = struct.Struct("<II")
_KINDS = "biuf"


class Malformed(Exception):
    """Data that is not what it should be, in words."""


def to_npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Named arrays as the bytes of an npz file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
            packed.writestr(f"{name}.npy", part.getvalue())
    return file.getvalue()


def from_npz(data: bytes) -> Arrays:
    """The arrays of an npz file; sizes are checked before anything is unpacked."""
    parts = unpacked(data, LARGEST_ARRAYS, MOST_ARRAYS)
    if not all(name.endswith(".npy") for name in parts):
        raise Malformed("an npz file holds .npy files only")
    return {name[: -len(".npy")]: _array(part) for name, part in parts.items()}


def unpacked(data: bytes, largest: int, most: int) -> dict[str, bytes]:
    """The files in a zip archive, which together have at most `largest` bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            entries = packed.infolist()
            if len(entries) > most:
                raise Malformed(f"the archive holds {len(entries)} files; {most} are allowed")
            total = sum(entry.file_size for entry in entries)
            if total > largest:
                raise Malformed(f"unpacked it has {total:,} bytes; {largest:,} are allowed")
            return {entry.filename: packed.read(entry) for entry in entries}
    except Malformed:
        raise
    except Exception as error:  # zipfile raises many kinds on hostile data
        raise Malformed(f"no readable archive ({type(error).__name__}: {error})") from None


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
        raise Malformed(f"no readable array ({type(error).__name__})") from None
    if dtype.kind not in _KINDS:
        raise Malformed(f"an array of {dtype} is not allowed: numbers and truth values only")
    rest = data[file.tell() :]
    if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != len(rest):
        raise Malformed("an array's shape does not fit its bytes")
    try:
        return np.frombuffer(rest, dtype).reshape(shape, order="F" if by_columns else "C").copy()
    except (TypeError, ValueError):  # of more elements or axes than numpy counts, though empty
        raise Malformed("an array's shape is none that numpy can hold") from None


def send(stream: BinaryIO, body: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write one message."""
    text, packed = json.dumps(body).encode(), to_npz(arrays)
    stream.write(_HEAD.pack(len(text), len(packed)) + text + packed)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], Arrays] | None:
    """Read one message; None at the stream's end. `Malformed` where it is none."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    text_size, arrays_size = _HEAD.unpack(head)
    if text_size > LARGEST_TEXT or arrays_size > 2 * LARGEST_ARRAYS:
        raise Malformed("a message of impossible size")
    text, packed = stream.read(text_size), stream.read(arrays_size)
    if len(text) < text_size or len(packed) < arrays_size:
        return None
    return json_object(text), from_npz(packed)


def json_object(text: bytes | str) -> dict[str, Any]:
    """A JSON object; `Malformed` for anything else."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON ({type(error).__name__})") from None
    if not isinstance(body, dict):
        raise Malformed("no JSON object")
    return body
