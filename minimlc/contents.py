"""Digests of arrays, each computed once: a model's weights are many bytes."""

import hashlib
import weakref

import numpy as np

_KNOWN: dict[int, tuple["weakref.ref[np.ndarray]", bytes]] = {}
"""By identity, while the array is there."""


def digest_of(array: np.ndarray) -> bytes:
    """A digest of an array's bytes. One that is read-only, as constants are, is read once."""
    known = _KNOWN.get(id(array))
    if known is not None and known[0]() is array and not array.flags.writeable:
        return known[1]
    plain = np.ascontiguousarray(array).view(np.uint8) if array.size and array.ndim else array
    # SHA-256 has instructions of its own on today's CPUs: half of blake2b's time.
    digest = hashlib.sha256(plain.tobytes() if plain is array else plain.data).digest()
    if not array.flags.writeable:
        number = id(array)
        _KNOWN[number] = (weakref.ref(array, lambda _: _KNOWN.pop(number, None)), digest)
    return digest
