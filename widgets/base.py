"""The base of all views: one self-contained module for each, and a static form.

The same JavaScript runs in a live notebook and in a stored page: everything a view draws is in
its state, so it needs no kernel, and it loads nothing.
"""

from pathlib import Path
from typing import Any

from anywidget import AnyWidget
from traitlets import Unicode

HERE = Path(__file__).parent


def source(*names: str) -> str:
    """The text of files of this package, one after the other."""
    return "\n".join((HERE / name).read_text("utf-8") for name in names)


class View(AnyWidget):
    """A view of a value: a widget, and the same content as HTML and as text.

    What was measured differs from run to run, and outputs of notebooks are compared. So `page`,
    the HTML of a page without scripts, is part of the state where `static_html` lacks numbers. A
    timing alone shows its times everywhere: it has nothing else to show.
    """

    page = Unicode().tag(sync=True)

    def static_html(self) -> str:
        """The content as HTML that reads well without styles; the same in every run."""
        raise NotImplementedError

    def text(self) -> str:
        """The content as plain text; the same in every run."""
        raise NotImplementedError

    def bundle(self) -> dict[str, Any]:
        """The view for a notebook, by MIME type."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {
            "application/vnd.jupyter.widget-view+json": view,
            "text/html": self.static_html(),
            "text/plain": self.text(),
        }

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return self.bundle()

    def __repr__(self) -> str:
        return self.text()
