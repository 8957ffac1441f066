"""Digests of arrays, each computed once: a model's weights are many bytes."""

import hashlib
import weakref

import numpy as np

KNOWN: dict[int, tuple["weakref.ref[np.ndarray]", bytes]] = {}
"""Digests by the identity of arrays, while they exist."""


def is_frozen(array: np.ndarray) -> bool:
    """Whether nobody can write to an array's memory, not even through another array."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return owner is None or isinstance(owner, bytes)


def digest_of(array: np.ndarray) -> bytes:
    """A digest of an array's bytes. A frozen one, as constants are, is read once."""
    frozen, known = is_frozen(array), KNOWN.get(id(array))
    if known is not None and known[0]() is array and frozen:
        return known[1]
    plain = np.ascontiguousarray(array).view(np.uint8) if array.size and array.ndim else array
    # SHA-256 has dedicated instructions on today's CPUs: half of blake2b's time.
    digest = hashlib.sha256(plain.tobytes() if plain is array else plain.data).digest()
    if frozen:
        number = id(array)
        KNOWN[number] = (weakref.ref(array, lambda _: KNOWN.pop(number, None)), digest)
    return digest
