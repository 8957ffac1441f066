"""Colours for scripts of both IRs: Python's lexer, plus the names of T, R and I."""

from functools import cache, lru_cache
from typing import ClassVar

from pygments.lexer import bygroups, inherit
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Name, _TokenType, string_to_tokentype

TYPES = r"(?:bool|handle|Buffer|Tensor|Tuple|b?float\d+|u?int\d+)"

CLASSES = (
    ("Keyword.Constant", "kc"),
    ("Keyword.Type", "kt"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
    ("Name.Namespace", "nn"),
    ("Name.Builtin", "nb"),
    ("Name.Function", "nf"),
    ("Name.Class", "nc"),
    ("Name.Decorator", "nd"),
    ("Literal.String", "s"),
    ("Literal.Number", "m"),
    ("Comment", "c"),
)
"""Kinds of token and their class names in HTML, as in Pygments; the rest is plain text."""

_KINDS = tuple((string_to_tokentype(kind), name) for kind, name in CLASSES)

Tokens = tuple[str, ...]
"""A line as class, text, class, text, ...; the texts join to the line."""


class IRLexer(PythonLexer):
    """Scripts as `mod.script()` prints them."""

    name = "minimlc script"
    aliases: ClassVar[list[str]] = ["minimlc"]
    filenames: ClassVar[list[str]] = []
    mimetypes: ClassVar[list[str]] = []
    tokens: ClassVar[dict] = {
        "name": [(r"@[TRI]\.\w+", Name.Decorator), inherit],
        "expr": [
            (rf"\b([TRI]\.)({TYPES})\b", bygroups(Name.Namespace, Keyword.Type)),
            (r"\b([TRI]\.)(\w+(?:\.\w+)*)", bygroups(Name.Namespace, Name.Builtin)),
            inherit,
        ],
    }


_LEXER = IRLexer(stripnl=False, ensurenl=False)


def script_tokens(script: str) -> tuple[Tokens, ...]:
    """The tokens of each line of a script."""
    if '"""' in script or "'''" in script:  # a string may go on in the next line
        return _lines_of(script)
    return tuple(map(tokens, script.split("\n")))


@lru_cache(maxsize=4096)
def tokens(line: str) -> Tokens:
    """One line's tokens by itself; neighbours of one class are joined."""
    return _lines_of(line)[0]


@lru_cache(maxsize=64)
def _lines_of(text: str) -> tuple[Tokens, ...]:
    lines: list[list[str]] = [[]]
    for kind, token in _LEXER.get_tokens(text):
        name = _class_of(kind)
        for number, part in enumerate(token.split("\n")):
            if number:
                lines.append([])
            line = lines[-1]
            if line and line[-2] == name:
                line[-1] += part
            elif part:
                line += [name, part]
    return tuple(map(tuple, lines))


@cache
def _class_of(kind: _TokenType) -> str:
    return next((name for family, name in _KINDS if kind in family), "")
