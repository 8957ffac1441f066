"""Classes of TVM that stand for other classes, and have no values themselves."""

from typing import Any


class Alias(type):
    """A class under whose name values of the class `kind` are made, and recognized.

    class Var(metaclass=Alias):
        kind = nodes.Var

        def __new__(cls, name, shape, dtype): ...  # gives a `nodes.Var`
    """

    kind: type

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.kind)
