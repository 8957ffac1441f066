"""Whether a function of the user's is being called with expressions."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Tracing(threading.local):
    on = False


TRACING = _Tracing()


@contextmanager
def tracing() -> Iterator[None]:
    """While a function of the user's is called with expressions, `==` and `!=` compare their values
    when the program runs, as `<` always does; elsewhere they ask whether two nodes are the same.
    """
    before, TRACING.on = TRACING.on, True
    try:
        yield
    finally:
        TRACING.on = before
