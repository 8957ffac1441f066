"""The names of the script languages: how each construct is called, and what Python sees of it."""

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

from minimlc.errors import CompileError, ScriptError, Span, did_you_mean
from minimlc.script.source import Source, frame_span


class Form:
    """How a construct is called, read from its usage, such as `T.serial(extent, stop=None)`.

    Plain names are required, `name=value` is optional, `*names` takes the rest.
    """

    def __init__(self, usage: str):
        call = ast.parse(usage, mode="eval").body
        assert isinstance(call, ast.Call)
        self.usage = usage
        self.name = ast.unparse(call.func)
        self.required = [a.id for a in call.args if isinstance(a, ast.Name)]
        self.rest = next((a.value.id for a in call.args if isinstance(a, ast.Starred)), "")  # type: ignore[attr-defined]
        self.names = [*self.required, *(str(k.arg) for k in call.keywords)]

    def bind(self, source: Source, call: ast.Call) -> dict[str, Any]:
        """The arguments of a call by name, still as syntax; `rest` as a list."""
        bound: dict[str, Any] = dict(zip(self.names, call.args, strict=False))
        extra = call.args[len(self.names) :]
        if extra and not self.rest:
            why = f"{self.name} takes at most {len(self.names)} argument(s), got {len(call.args)}"
            raise source.error(extra[0], why, hint=self.usage)
        for item in call.args:
            if isinstance(item, ast.Starred):
                raise source.error(item, f"{self.name} takes no *arguments", hint=self.usage)
        for keyword in call.keywords:
            self._bind_keyword(source, keyword, bound)
        missing = [name for name in self.required if name not in bound]
        if missing:
            why = f"{self.name} misses {', '.join(missing)}"
            raise source.error(call, why, hint=self.usage)
        return {**bound, self.rest: extra} if self.rest else bound

    def _bind_keyword(self, source: Source, keyword: ast.keyword, bound: dict[str, Any]) -> None:
        name = keyword.arg
        if name is None:
            raise source.error(keyword, f"{self.name} takes no **options", hint=self.usage)
        if name not in self.names:
            close = did_you_mean(name, self.names)
            why = f"{self.name} has no argument {name!r}"
            raise source.error(source.word(keyword, name), why, hint=f"{close}\n{self.usage}")
        if name in bound:
            why = f"{self.name} got {name!r} twice"
            raise source.error(source.word(keyword, name), why, hint=self.usage)
        bound[name] = keyword.value


def forms(*usages: str) -> dict[str, Form]:
    """A table of constructs by name."""
    return {form.name: form for form in map(Form, usages)}


class Marker:
    """A construct that only a script can use, as Python sees it when it evaluates annotations."""

    def __init__(self, name: str, annotates: bool):
        self._name = name
        self._annotates = annotates

    def __call__(self, *args: object, **keywords: object) -> "Marker":
        if self._annotates:
            return self
        raise ScriptError(
            f"{self._name} belongs inside a script",
            code="E121",
            span=frame_span(sys._getframe(1)),
            hint="use it in a function decorated with @T.prim_func or @R.function",
        )

    def __getitem__(self, item: object) -> "Marker":
        return self

    def __repr__(self) -> str:
        return self._name


class Namespace:
    """`T`, `R` or `I`: its names, and near misses for any other."""

    def __init__(self, name: str, values: Mapping[str, Any]):
        self._name = name
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_values" not in self.__dict__:
            raise AttributeError(name)
        if name in self._values:
            return self._values[name]
        frame = sys._getframe(1)
        raise ScriptError(
            f"{self._name} has no name {name!r}",
            code="E120",
            span=_only(frame, name),
            hint=did_you_mean(name, self._values),
        )

    def __dir__(self) -> Iterable[str]:
        return sorted(self._values)

    def __repr__(self) -> str:
        return self._name


def _only(frame: FrameType, name: str) -> Span:
    """The span of a name at the end of the expression that a frame evaluates."""
    span = frame_span(frame)
    found = span.text.find(name, span.column, span.end_column)
    return span if found < 0 else span._replace(column=found, end_column=found + len(name))


def reraise_here(frame: FrameType, make: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """`make(...)` called by a script's annotation: its errors point at the annotation."""
    try:
        return make(*args, **keywords)
    except TypeError as error:
        why, code, hint = str(error), "E121", ""
    except CompileError as error:
        why, code, hint = error.why, error.code or "E126", error.hint
    raise ScriptError(why, code=code, span=frame_span(frame), hint=hint)
