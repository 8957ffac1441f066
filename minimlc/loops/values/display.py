"""How a notebook shows a value."""

from typing import Any


def mimebundle(value: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """`value` for a notebook: its widget where one can be made, and always its text.

    `_repr_mimebundle_` of all values; IPython's options change nothing.
    """
    try:
        from minimlc_widgets import mimebundle as widget_bundle
    except ImportError:
        return {"text/plain": repr(value)}
    return widget_bundle(value)


def display(value: Any) -> None:
    """Show this value in a notebook cell; print it where there is no notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import display as show
    except ImportError:
        print(value)
        return
    if get_ipython() is None:
        print(value)
    else:
        show(value)
