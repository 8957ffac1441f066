"""The node contract: immutable trees, compared by identity, rewritten by pure functions.

A node's fields hold nodes, tuples, numbers, strings and other plain values; never a list, dict or
set, so no order ever depends on a hash seed. `span`, the place in the user's source, is carried
along but is not part of a node's meaning.

The depth and size of a tree are limited from when it is made, so that every walk may recurse and
ends soon. A node that occurs several times counts each time.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from itertools import count
from operator import attrgetter, is_
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np

from minimlc.loops.values.contents import digest_of
from minimlc.loops.values.depth import MOST_LEVELS
from minimlc.loops.values.display import display, mimebundle
from minimlc.loops.values.errors import Span, TooLarge, did_you_mean
from minimlc.loops.values.process import PLAIN_LEVELS, raise_recursion_limit

C = TypeVar("C", bound=type)
N = TypeVar("N", bound="Node")
T = TypeVar("T")
_NODE_NAMES: set[str] = set()
_NUMBERS = count(1)

MOST_PARTS = 2**20
"""The most nodes that a tree may have."""
_REMEDY = "store what is in the middle in a buffer, or bind it to a variable, and read that"


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: C) -> C:
    """Make a class of nodes: frozen, slotted, equal only to itself."""
    kind: Any = dataclass(frozen=True, eq=False, slots=True, repr=False)(cls)
    kind._fields = tuple(f.name for f in fields(kind))
    kind._values = _getter(kind._fields)
    kind._visitor = f"visit_{kind.__name__}"
    kind.__setstate__ = _restore
    kind._bit = 1 << next(_NUMBERS)
    for base in kind.__mro__:
        if issubclass(base, Node):
            base._bits = vars(base).get("_bits", 1) | kind._bit
    _NODE_NAMES.add(kind.__name__)
    setattr(_Dispatch, f"visit_{kind.__name__}", _visit_inside)
    return kind


def _restore(item: "Node", values: list[Any]) -> None:
    """The fields of a node that `copy` or `pickle` makes."""
    for name, value in zip(item._fields, values, strict=True):
        object.__setattr__(item, name, value)
    item.__post_init__()


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """The function that reads these fields; `attrgetter`, but always a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda item: tuple([getattr(item, name) for name in names])


class Node:
    """Base of all IR. `_binds` names the fields that introduce symbols (variables, buffers).

    `_levels` is what a node counts of `MOST_LEVELS`, `_most` the limit of its parts. A class has
    one of the `_bits`, those of its subclasses included; a node's `_facts` are the nodes directly
    inside, its levels and parts, and the bits of the classes of all nodes in it.
    """

    __slots__ = ("__weakref__", "_digest", "_facts", "_uses", "span")
    _fields: ClassVar[tuple[str, ...]] = ()
    _values: ClassVar[Callable[[Any], tuple[Any, ...]]]
    _visitor: ClassVar[str] = "visit_Node"
    _binds: ClassVar[tuple[str, ...]] = ()
    _symbol: ClassVar[bool] = False
    _most: ClassVar[int | None] = MOST_PARTS
    _word: ClassVar[str] = "program"
    _levels: ClassVar[int] = 1
    _bit: ClassVar[int] = 1  # of classes that are not decorated
    _bits: ClassVar[int] = 1
    span: Span | None
    _facts: tuple[list["Node"], int, int, int]

    def __post_init__(self) -> None:
        kind = type(self)
        inside = _nodes_in(kind._values(self))
        levels, parts, bits = 0, 0, kind._bit
        for child in inside:
            _, deep, many, those = child._facts
            levels = deep if deep > levels else levels
            parts += many
            bits |= those
        if kind._symbol:
            levels = parts = 0
        _set_facts(self, (inside, levels + kind._levels, parts + 1, bits))
        if kind._most is not None and (levels >= PLAIN_LEVELS or parts >= kind._most):
            check_weight(self, kind._most)

    def script(self, *, full: bool = True, constants: str = "names") -> str:
        """This node as a script that parses back; `mlc.printer.script` explains the options."""
        check_weight(self)
        return _PRINTER[0](self, full, constants)

    def __repr__(self) -> str:
        return self.script(full=False)

    show = display
    _repr_mimebundle_ = mimebundle


_set_facts = Node._facts.__set__  # type: ignore[attr-defined, misc]


def _nodes_in(values: tuple[Any, ...]) -> list[Node]:
    nodes: list[Node] = []
    for value in values:
        if isinstance(value, Node):
            nodes.append(value)
        elif isinstance(value, tuple) and value:
            nodes += _nodes_in(value)
    return nodes


def check_weight(item: Node, most: int = MOST_PARTS) -> None:
    """Refuse a tree that is too deep or too large to walk over; make room for any other."""
    _, levels, parts, _ = item._facts
    why = ""
    if levels > MOST_LEVELS:
        why = f"this {item._word} nests too deeply: in more than {MOST_LEVELS} levels"
    elif parts > most:
        why = f"this {item._word} is too large: it has more than {most} parts"
    if why:
        raise TooLarge(why, code="E134", span=span_of(item), hint=_REMEDY)
    raise_recursion_limit(levels)


_PRINTER: list[Callable[[Node, bool, str], str]] = [lambda item, *_: object.__repr__(item)]


def install_printer(printer: Callable[[Node, bool, str], str]) -> None:
    """Install the printer: it knows every node, so it lies below this file."""
    _PRINTER[0] = printer


def span_of(item: Node) -> Span | None:
    """The place in the user's source that a node came from, if it is known."""
    return getattr(item, "span", None)


def with_span(item: N, span: Span | None) -> N:
    """Note, once, at construction, where `item` came from. Returns `item`."""
    if span is not None:
        object.__setattr__(item, "span", span)
    return item


def replace(item: N, **changes: Any) -> N:
    """A copy with some fields changed; `item` itself when none differs.

    A list stands for a tuple; one of the very same items as before is not a change.
    """
    kind = type(item)
    old = kind._values(item)
    values = list(old)
    for name, new in changes.items():
        at = kind._fields.index(name)
        values[at] = unchanged(old[at], new) if isinstance(new, tuple | list) else new
    if all(map(is_, old, values)):
        return item
    return with_span(kind(*values), span_of(item))


def children(item: Node) -> Iterator[Node]:
    """The nodes directly inside `item`, in field order."""
    return iter(item._facts[0])


def walk(item: Node) -> Iterator[Node]:
    """`item` and every node inside it, outer before inner, in field order."""
    stack = [item]
    while stack:
        current = stack.pop()
        yield current
        stack += current._facts[0][::-1]


def nodes_of(item: Node, kind: type[N]) -> list[N]:
    """The nodes of a class in `item`, itself included, in the order of `walk`."""
    bits, found, stack = getattr(kind, "_bits", -1), list[N](), [item]
    while stack:
        current = stack.pop()
        inside, _, _, those = current._facts
        if those & bits:
            if isinstance(current, kind):
                found.append(current)
            stack += inside[::-1]
    return found


def unchanged(old: tuple[T, ...], new: Sequence[T]) -> tuple[T, ...]:
    """`old` itself if `new` holds the very same items, else the items of `new`."""
    return old if len(old) == len(new) and all(map(is_, old, new)) else tuple(new)


def _means_node(kind: str) -> bool:
    """Whether `visit_<kind>` is meant for a node: it has a capital letter, ends with an underscore
    as such names do in TVM, or is one or two letters away from a node's name."""
    plain, nodes = kind.replace("_", ""), _NODE_NAMES | {k.__name__ for k in Node.__subclasses__()}
    close = [name.lower() for name in nodes if name.lower().startswith(plain[:1])]
    alike = any(SequenceMatcher(None, plain, name).ratio() > 0.8 for name in close)
    return alike or sorted(plain) in map(sorted, close) or not kind.islower() or kind.endswith("_")


_INSIDE = (Node, tuple)
"""The types that may hold nodes."""


class _Dispatch:
    """Calls a node's `visit_<Node>`; where a class does not define it, that is `visit_children`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in vars(cls):
            kind = name.removeprefix("visit_")
            if kind != name and not hasattr(super(cls, cls), name) and _means_node(kind):
                hint = did_you_mean(kind, sorted(_NODE_NAMES))
                raise TypeError(f"{cls.__name__}.{name}: no node is called {kind}; {hint}")

    def visit(self, value: Any) -> Any:
        if isinstance(value, Node):
            return getattr(self, type(value)._visitor)(value)
        return self.map_tuple(value) if isinstance(value, tuple) else value

    def map_tuple(self, value: tuple) -> Any:
        raise NotImplementedError

    def visit_children(self, item: Any) -> Any:
        raise NotImplementedError


def _visit_inside(self: _Dispatch, item: Node) -> Any:
    """The default of every `visit_<Node>`: go on inside."""
    return self.visit_children(item)


class Mutator(_Dispatch):
    """Rebuild a tree. Override `visit_<Node>(self, node)` and return what replaces the node.

    `self.visit_children(node)` rewrites what is inside: nodes, and tuples of them. What does not
    change is returned itself, so `new is old` means that nothing changed.
    """

    def map_tuple(self, value: tuple) -> tuple:
        return unchanged(value, [self.visit(part) for part in value])

    def visit_children(self, item: Any) -> Any:
        if item._symbol:
            return item
        kind = type(item)
        old = kind._values(item)
        new = [self.visit(value) if isinstance(value, _INSIDE) else value for value in old]
        if all(map(is_, old, new)):
            return item
        return with_span(kind(*new), span_of(item))


class Visitor(_Dispatch):
    """Walk a tree. Override `visit_<Node>(self, node)`; `self.visit_children(node)` goes on."""

    def map_tuple(self, value: tuple) -> None:
        for part in value:
            self.visit(part)

    def visit_children(self, item: Any) -> None:
        for value in type(item)._values(item):
            if isinstance(value, _INSIDE):
                self.visit(value)


def structural_equal(a: Any, b: Any) -> bool:
    """Whether two trees are the same up to the names of the symbols they bind.

    Symbols bound inside the trees (parameters, loop variables, buffers) correspond by position;
    free symbols must be identical. Numbers compare by bits: NaN equals itself, -0.0 differs
    from 0.0.
    """
    for tree in (a, b):
        if isinstance(tree, Node):
            check_weight(tree)
    return a is b or _Equality().equal(a, b, binding=False)


class _Equality:
    def __init__(self) -> None:
        self.forward: dict[int, Node] = {}
        self.backward: dict[int, Node] = {}

    def equal(self, a: Any, b: Any, binding: bool) -> bool:
        if isinstance(a, Node):
            if type(a) is not type(b):
                return False
            if a._symbol:
                return self.symbols(a, b, binding)
            return all(
                self.equal(getattr(a, name), getattr(b, name), name in a._binds)
                for name in a._fields
            )
        if isinstance(a, tuple) and type(a) is type(b):
            return len(a) == len(b) and all(
                self.equal(x, y, binding) for x, y in zip(a, b, strict=True)
            )
        return type(a) is type(b) and _token(a) == _token(b)

    def symbols(self, a: Node, b: Node, binding: bool) -> bool:
        if binding:
            self.forward[id(a)] = b
            self.backward[id(b)] = a
            return all(
                self.equal(getattr(a, name), getattr(b, name), False)
                for name in a._fields
                if name != "name"
            )
        if id(a) in self.forward or id(b) in self.backward:
            return self.forward.get(id(a)) is b and self.backward.get(id(b)) is a
        return a is b


def structural_hash(item: Any) -> str:
    """A hex digest, equal for structurally equal trees, and the same in every process.

    Free symbols count by name.
    """
    if isinstance(item, Node):
        digest = getattr(item, "_digest", None)
        if digest is None:
            check_weight(item)
            digest = _Digest().run(item)
            object.__setattr__(item, "_digest", digest)
        return digest
    return _Digest().run(item)


class _Digest:
    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.state = hashlib.blake2b(digest_size=16)

    def run(self, item: Any) -> str:
        self.feed(item, binding=False)
        return self.state.hexdigest()

    def feed(self, value: Any, binding: bool) -> None:
        if isinstance(value, Node):
            self.state.update(f"<{type(value).__name__}".encode())
            if value._symbol:
                self.symbol(value, binding)
                return
            for name in value._fields:
                self.feed(getattr(value, name), name in value._binds)
        elif isinstance(value, tuple):
            self.state.update(f"({len(value)}".encode())
            for part in value:
                self.feed(part, binding)
        else:
            self.state.update(_token(value))

    def symbol(self, value: Node, binding: bool) -> None:
        if binding:
            self.numbers[id(value)] = len(self.numbers)
            for name in value._fields:
                if name != "name":
                    self.feed(getattr(value, name), False)
        number = self.numbers.get(id(value))
        free = f"free {value.name}"  # type: ignore[attr-defined]
        called = f"#{free if number is None else number}"
        self.state.update(called.encode(errors="surrogatepass"))


def _token(value: Any) -> bytes:
    """A leaf's identity as bytes: its type and its exact value."""
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    if isinstance(value, np.ndarray):
        return f"a{value.dtype.name}{value.shape}".encode() + digest_of(value)
    if type(value) is int:  # Python writes no decimals of more than 4300 digits
        return f"int:{value:x};".encode()
    return f"{type(value).__name__}:{value!r};".encode()
