"""The sources of scripts: text, syntax trees, places in them."""

import ast
import linecache
import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from inspect import getframeinfo
from types import FrameType
from typing import Any, TypeVar

from minimlc.loops.values.depth import MOST_LEVELS, too_deep
from minimlc.loops.values.errors import CompileError, ScriptError, Span

V = TypeVar("V")
Names = Mapping[str, Any]
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that Python's parser does not take: NUL, and halves of characters."""
PythonNode = ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias
Where = PythonNode | Span


class Source:
    """One file, cell or text, and its syntax tree."""

    def __init__(self, filename: str, text: str):
        self.filename = filename
        self.lines = text.split("\n")
        self.tree = self._parse(text)

    def _parse(self, text: str) -> ast.Module:
        odd = _NO_TEXT.search(text)
        if odd is not None:
            line = 1 + text.count("\n", 0, odd.start())
            column = odd.start() - text.rfind("\n", 0, odd.start()) - 1
            span = self.at(line, column, column + 1)
            raise self.error(span, f"invalid text: {odd[0]!r}", "E127")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python gave its own when it compiled the file
                return ast.parse(text)
        except SyntaxError as error:
            line, column = error.lineno or 1, max(0, (error.offset or 1) - 1)
            end = (error.end_offset or 0) - 1 if error.end_lineno == error.lineno else 0
            span = self.at(line, column, max(end, column + 1))
            span = span._replace(column=min(column, len(span.text)))
            why = "invalid syntax" + f": {error.msg}" * (error.msg != "invalid syntax")
            raise self.error(span, why, "E127") from None
        except (MemoryError, RecursionError):  # Python's parser raises these for too many levels
            line = 1 + bisect_left(range(len(self.lines)), True, key=self._too_deep)
            raise self._nested(self.at(line)) from None

    def _too_deep(self, line: int) -> bool:
        """Whether Python's parser goes too deep in the text up to a line, counted from 0."""
        try:
            ast.parse("\n".join(self.lines[: line + 1]))
        except (MemoryError, RecursionError):
            return True
        except (SyntaxError, ValueError):
            pass
        return False

    def limited(self, tree: ast.AST) -> None:
        """Refuse a tree that nests too deeply to be read; make room for any other."""
        place = too_deep(tree)
        if place is not None:
            raise self._nested(place)

    def _nested(self, place: Where) -> ScriptError:
        why = f"this nests too deeply: in more than {2 * MOST_LEVELS} levels"
        return self.error(place, why, "E134", "write it in several parts")

    def at(self, line: int, start: int = 0, end: int = 0) -> Span:
        """A place in a line, which counts from 1."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return Span(self.filename, line, start, end, text)

    def span(self, place: PythonNode) -> Span:
        """The place of a piece of the syntax tree."""
        line = self.at(place.lineno)
        start = _characters(line.text, place.col_offset)
        one_line = place.end_lineno == place.lineno and place.end_col_offset is not None
        end = _characters(line.text, place.end_col_offset or 0) if one_line else len(line.text)
        return line._replace(column=start, end_column=end)

    def word(self, place: PythonNode, word: str) -> Span:
        """Where `word` first stands in a piece of the syntax tree; the piece if nowhere."""
        return narrowed(self.span(place), word)

    def attribute(self, node: ast.Attribute) -> Span:
        """The place of the name behind a dot."""
        span = self.word(node, f".{node.attr}")
        return span._replace(column=span.column + 1)

    def error(self, place: Where, why: str, code: str = "E121", hint: str = "") -> ScriptError:
        """An error that points at a piece of the script."""
        span = place if isinstance(place, Span) else self.span(place)
        return ScriptError(why, code=code, span=span, hint=hint)

    def guard(self, place: PythonNode, make: Callable[..., V], *args: Any, **keywords: Any) -> V:
        """`make(...)`; its errors get the place that they are about."""
        try:
            return make(*args, **keywords)
        except CompileError as error:
            raise self.located(error, place) from None

    def located(self, error: CompileError, place: PythonNode) -> ScriptError:
        """The same error, as one of the script's."""
        if isinstance(error, ScriptError) and error.span is not None:
            return error
        return ScriptError(
            error.why,
            code=error.code or "E108",
            span=error.span or self.span(place),
            excerpt=error.excerpt,
            example=error.example,
            hint=error.hint,
        )


def parameters(
    source: Source, node: ast.FunctionDef, hint: str
) -> Iterator[tuple[ast.arg, ast.expr]]:
    """The parameters of a scripted function, which are all plain ones, and their annotations.

    `hint` shows an annotation of a parameter "{}".
    """
    syntax = node.args
    for extra in (syntax.vararg, syntax.kwarg, *syntax.kwonlyargs):
        if extra is not None:
            raise source.error(extra, f"{extra.arg} must be a plain parameter", "E126")
    for default in syntax.defaults:
        raise source.error(default, "a parameter has no default", "E126")
    plain = (*syntax.posonlyargs, *syntax.args)
    names: set[str] = set()
    for item in plain:
        if item.arg in names:
            raise source.error(item, f"two parameters are called {item.arg}", "E126")
        names.add(item.arg)
    for item in plain:
        if item.annotation is None:
            why = f"the parameter {item.arg} has no type"
            raise source.error(item, why, "E126", hint.format(item.arg))
        yield item, item.annotation


def unquoted(source: Source, kind: ast.expr) -> ast.expr:
    """An annotation as an expression: a string's content is read as one."""
    if not (isinstance(kind, ast.Constant) and isinstance(kind.value, str)):
        return kind
    try:
        inner = ast.parse(kind.value.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        why = getattr(error, "msg", "") or str(error) or "it nests too deeply"
        raise source.error(kind, f"invalid syntax: {why}", "E127") from None
    for part in ast.walk(inner):
        ast.copy_location(part, kind)
    source.limited(inner)
    return inner


def narrowed(span: Span, word: str) -> Span:
    """Where `word` first stands in a span; all of it if nowhere."""
    at = span.text.find(word, span.column, span.end_column)
    return span if at < 0 else span._replace(column=at, end_column=at + len(word))


def _characters(text: str, offset: int) -> int:
    """A column in characters; syntax trees count bytes."""
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


@lru_cache(maxsize=16)
def _cached(filename: str, text: str) -> Source:
    return Source(filename, text)


def source_of(filename: str, module_globals: dict[str, Any]) -> Source | None:
    """The source of a file or notebook cell; None where Python kept none."""
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, module_globals)
    return _cached(filename, "".join(lines)) if lines else None


def frame_span(frame: FrameType) -> Span:
    """The expression that a frame is evaluating."""
    filename, line = frame.f_code.co_filename, frame.f_lineno
    source = source_of(filename, frame.f_globals)
    span = source.at(line) if source else Span(filename, line, 0, 0, "")
    place = getframeinfo(frame, context=0).positions
    start = end = 0
    if place is not None and place.lineno == place.end_lineno == line:
        start = _characters(span.text, place.col_offset or 0)
        end = _characters(span.text, place.end_col_offset or 0)
    return span._replace(column=start, end_column=end if end > start else len(span.text))
