"""The names of the script languages: how each construct is called, and its object in Python."""

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from minimlc.loops.text.source import Source, frame_span, narrowed
from minimlc.loops.values.errors import CompileError, ScriptError, did_you_mean

V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])


LAYOUT = (
    *("data", "strides", "elem_offset", "align"),
    *("offset_factor", "buffer_type", "axis_separators"),
)
"""The options for a buffer's memory in other compilers' scripts."""


class Form:
    """The call of a construct, read from its usage, such as `T.serial(extent, stop=None)`; and
    the function that reads such a call.

    Plain names are required, `name=value` is optional, `*names` takes the rest, `**names` the
    options of `LAYOUT`.
    """

    def __init__(self, usage: str, meaning: Callable[..., Any]):
        call = ast.parse(usage, mode="eval").body
        assert isinstance(call, ast.Call)
        self.more = next((ast.unparse(k.value) for k in call.keywords if k.arg is None), "")
        self.usage, self.meaning = usage.replace(f", **{self.more}", ""), meaning
        self.name = ast.unparse(call.func)
        self.required = [a.id for a in call.args if isinstance(a, ast.Name)]
        self.rest = next((a.value.id for a in call.args if isinstance(a, ast.Starred)), "")  # type: ignore[attr-defined]
        self.defaults = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
        self.names = [*self.required, *self.defaults]

    def bind(self, source: Source, call: ast.Call) -> dict[str, Any]:
        """The arguments of a call by name, still as syntax; `rest` as a list."""

        def refused(place: Any, why: str, hint: str = self.usage) -> ScriptError:
            return source.error(place, f"{self.name} {why}", hint=hint)

        bound: dict[str, Any] = dict(zip(self.names, call.args, strict=False))
        extra = call.args[len(self.names) :]
        if extra and not self.rest:
            most = len(self.names)
            raise refused(extra[0], f"takes at most {most} argument(s), got {len(call.args)}")
        for item in call.args:
            if isinstance(item, ast.Starred):
                raise refused(item, "takes no *arguments")
        options: dict[str, ast.expr] = {}
        for keyword in call.keywords:
            name = keyword.arg
            if name is None:
                raise refused(keyword, "takes no **options")
            if self.more and name in LAYOUT and name not in self.names:
                options[name] = keyword.value
                continue
            if name not in self.names:
                hint = f"{did_you_mean(name, self.names)}\n{self.usage}"
                raise refused(source.word(keyword, name), f"has no argument {name!r}", hint)
            if name in bound:
                raise refused(source.word(keyword, name), f"got {name!r} twice")
            bound[name] = keyword.value
        missing = [name for name in self.required if name not in bound]
        if missing:
            raise refused(call, f"misses {', '.join(missing)}")
        bound |= {self.rest: extra} if self.rest else {}
        return {**bound, self.more: options} if self.more else bound


NO_MODULES: "Mapping[str, Namespace]" = {}


class Language:
    """The readers of a language's syntax: a function for each kind of expression and statement, and
    for its constructs by where they stand, such as an "action" alone or in an "assign"ment.

    `base` is a language whose syntax it has too; `refused` has what to write instead of
    statements that it lacks; `spellings` are other names of constructs, `modules` namespaces that
    stand for Python's modules.
    """

    def __init__(
        self,
        name: str,
        base: "Language | None" = None,
        refused: Mapping[type, str] = {},
        spellings: Mapping[str, str] = {},
        modules: "Mapping[str, Namespace]" = NO_MODULES,
    ):
        self.name = name
        self.refused = refused
        self.spellings = dict(spellings)
        self.modules = dict(modules)
        self.syntax: dict[type, Callable[[Any, Any], Any]] = dict(base.syntax) if base else {}
        self.forms: defaultdict[str, dict[str, Form]] = defaultdict(dict)

    def reads(self, *items: type | str, role: str = "") -> Callable[[F], F]:
        """Enters the function that reads these kinds of syntax, or calls of these usages."""

        def enter(meaning: F) -> F:
            for item in items:
                if isinstance(item, str):
                    form = Form(item, meaning)
                    self.forms[role][form.name] = form
                else:
                    self.syntax[item] = meaning
            return meaning

        return enter

    def markers(self, *roles: str) -> "dict[str, Marker]":
        """The objects that Python sees for the constructs that only scripts can use."""
        known = {name for role in roles for name in self.forms[role] if "." in name}
        known |= {name for name, plain in self.spellings.items() if plain in known}
        return {name.rsplit(".")[-1]: Marker(name) for name in sorted(known)}


class Marker:
    """A construct that only a script can use, as Python sees it when it evaluates annotations."""

    def __init__(self, name: str, annotates: bool = False):
        self._name = name
        self._annotates = annotates

    def __call__(self, *args: object, **keywords: object) -> "Marker":
        if self._annotates:
            return self
        why = f"{self._name} belongs inside a script"
        hint = "use it in a function decorated with @T.prim_func or @R.function"
        raise ScriptError(why, code="E121", span=frame_span(sys._getframe(1)), hint=hint)

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
        span = narrowed(frame_span(sys._getframe(1)), name)
        why, hint = f"{self._name} has no name {name!r}", did_you_mean(name, self._values)
        raise ScriptError(why, code="E120", span=span, hint=hint)

    def __dir__(self) -> Iterable[str]:
        return sorted(self._values)

    def __repr__(self) -> str:
        return self._name


def in_annotation(make: Callable[..., V]) -> Callable[..., V]:
    """`make`, as a script's annotations call it: its errors point at the annotation."""

    @wraps(make)
    def call(*args: Any, **keywords: Any) -> V:
        try:
            return make(*args, **keywords)
        except TypeError as error:
            why, code, hint = str(error), "E121", ""
        except CompileError as error:
            why, code, hint = error.why, error.code or "E126", error.hint
        raise ScriptError(why, code=code, span=frame_span(sys._getframe(1)), hint=hint)

    return call
