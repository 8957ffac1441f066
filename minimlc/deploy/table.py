"""Tables of a fixed layout, as text and as HTML: words to the left, numbers to the right."""

from collections.abc import Sequence
from html import escape

Row = Sequence[str]


def text(title: str, head: Row, rows: Sequence[Row], words: Sequence[str]) -> str:
    """A title, and columns under their heads; those in `words` begin at the left."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if name in words else cell.rjust(width)
            for cell, width, name in zip(row, widths, head, strict=True)
        )
        for row in (head, *rows)
    )
    return "\n".join([title, *(line.rstrip() for line in lines)])


def html(title: str, head: Row, rows: Sequence[Row], words: Sequence[str]) -> str:
    """The same as a table that is good to read without style sheets."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    sides = ["left" if name in words else "right" for name in head]
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {side}">{escape(cell)}</td>'
            for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    caption = f"<caption>{escape(title)}</caption>"
    return f'<div style="overflow-x: auto"><table>{caption}<tr>{top}</tr>{body}</table></div>'
