"""The file of a saved library: a zip archive whose last 64 bytes are the SHA-256 of all others.

    manifest.json    what the functions are, and for which machine; the SHA-256 of the other members
    code.o           the object code
    constants.npz    arrays by name
    module.txt       the module as a script, with these names for its constants
    main/0           such a file of an instance of the symbolic function main, and others

So every byte is covered twice, and nothing of a damaged file is used. The digests find accidents,
not attacks: whoever can write the file can write its digests.
"""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minimlc.loops.values.errors import BuildError, shown
from minimlc.services.runtime.files import path_of

FORMAT = 4
"""The version, which changes where older code could not be called, or read, in the same way."""

MANIFEST, CODE, CONSTANTS, MODULE = "manifest.json", "code.o", "constants.npz", "module.txt"
DIGITS = 64
FAULTS = (
    *(zipfile.BadZipFile, EOFError, OSError, RuntimeError),
    *(ValueError, TypeError, LookupError, AttributeError, MemoryError, zlib.error),
)
"""Exceptions from reading an archive, or parts of one, that `pack` did not write."""


def file_of(path: object, call: str) -> Path:
    """The argument of `call` as a path; `BuildError` for anything else."""
    file = path_of(path)
    if file is None:
        why = f"{call} takes the name of a file, got {shown(path)}"
        raise BuildError(why, hint=f'{call}("net.mlc")')
    return file


def damaged(why: str) -> BuildError:
    """The error for a file that cannot be read."""
    hint = "library.save(path) writes such a file; copy it again from where it was written"
    return BuildError(why, code="E512", hint=hint)


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def zipped(members: Mapping[str, bytes], comment: bytes = b"") -> bytes:
    """An archive, not compressed: the same for the same members."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = comment
    return memory.getvalue()


def pack(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """The whole file; the manifest gets the members' digests."""
    digests = {name: digest(content) for name, content in members.items()}
    head = json.dumps({"format": FORMAT, **manifest, "sha256": digests}).encode()
    body = zipped({MANIFEST: head, **members}, b"0" * DIGITS)[:-DIGITS]
    return body + digest(body).encode()


def unpack(data: bytes, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the members of the file `name`; `BuildError` E512 if it is damaged, E513 if
    it has another format.
    """
    if data[:4] != b"PK\x03\x04":
        raise damaged(f"{name} is not a library file")
    if digest(data[:-DIGITS]).encode() != data[-DIGITS:]:
        raise damaged(f"{name} is damaged: it is incomplete, or bytes of it have changed")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {member: archive.read(member) for member in archive.namelist()}
        manifest = json.loads(members.pop(MANIFEST))
        version, digests = manifest["format"], manifest["sha256"]
    except FAULTS as error:
        raise damaged(f"{name} is not a library file: {error}") from None
    if version != FORMAT:
        why = f"{name} has format {version!r:.20}, this minimlc reads format {FORMAT}"
        raise BuildError(why, code="E513", hint="save it again with the same version of minimlc")
    if digests != {member: digest(content) for member, content in members.items()}:
        raise damaged(f"{name} is damaged: a member is not the one that was written")
    return manifest, members
