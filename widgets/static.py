"""Views that need no JavaScript, no style sheet and no kernel: HTML and plain text.

Both are the same in every run: no addresses, ids or random numbers, and times only in timings and
in what is called a page. The classes are Pygments's, which notebook pages have colours for;
without them the text reads as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from minimlc_widgets.diff import unified
from minimlc_widgets.lexer import script_tokens, tokens
from minimlc_widgets.sources import Samples, Shown

from minimlc.services.runtime.timing import seconds_text

SIGNS = {"+": "gi", "-": "gd", " ": "", "…": "c"}


def script_html(script: str, title: str = "") -> str:
    """A script with its title, if it has one."""
    heading = f"<p><b>{escape(title)}</b></p>" if title else ""
    return f"{heading}{_pre(map(_line, script_tokens(script)))}"


def diff_html(before: str, after: str, titles: Sequence[str]) -> str:
    """The differences, with a sign before each line that goes (-) or comes (+)."""
    first, second = (escape(title) for title in titles)
    heading = f"<p><b>{first}</b> (-) and <b>{second}</b> (+)</p>"
    if before == after:
        return heading + "<p>No line differs.</p>" + script_html(after)
    return heading + _changes(before, after, context=len(before) + len(after))


def steps_html(steps: Sequence[Shown]) -> str:
    """The first script, what each step changes, and the last script, each to be opened."""
    if not steps:
        return "<p>No steps.</p>"
    parts = [_details(f"0 · <b>{escape(steps[0].name)}</b>", script_html(steps[0].script))]
    for number in range(1, len(steps)):
        before, after = steps[number - 1], steps[number]
        label = f"{number} · <b>{escape(after.name)}</b>"
        if before.script == after.script:
            parts.append(f"<p>{label} changes nothing</p>")
        else:
            parts.append(_details(label, _changes(before.script, after.script, context=2)))
    if len(steps) > 1:
        parts.append(_details("the result", script_html(steps[-1].script), " open"))
    return "\n".join(parts)


def steps_text(steps: Sequence[Shown]) -> str:
    """The steps' names by number, and the result."""
    names = [f"{number:3}  {step.name}" for number, step in enumerate(steps)]
    return "\n".join([*names, "", steps[-1].script] if steps else ["no steps"])


def diff_text(before: str, after: str) -> str:
    """Both scripts as one text; a sign before each line that goes (-) or comes (+)."""
    old, new = before.splitlines(), after.splitlines()
    changes = unified(old, new, context=len(old) + len(new))
    return "\n".join(f"{sign} {line}".rstrip() for sign, line in changes)


def timings_text(timings: Sequence[Samples]) -> str:
    """The medians, which differ from run to run."""
    return "\n".join(
        f"Timing of {t.name}: median {seconds_text(t.median)}, {_count(t)}" for t in timings
    )


def timings_html(timings: Sequence[Samples], speedups: Mapping[str, float]) -> str:
    """The times as a table; `speedups` by name are a column if there are any."""
    faster = ["speed-up"] if speedups else []
    heads = ["", "median", *faster, "fastest", "slowest", "spread", "samples"]
    rows = []
    for t in timings:
        ratio = [f"{speedups[t.name]:.3g}×"] if speedups else []
        median, fastest, slowest = map(seconds_text, (t.median, min(t.samples), max(t.samples)))
        spread = f"{100 * t.spread:.2g} %"
        rows.append([t.name, median, *ratio, fastest, slowest, spread, str(len(t.samples))])
    machines = dict.fromkeys(t.machine for t in timings if t.machine)
    return table(heads, rows) + "".join(f"<p>{escape(machine)}</p>" for machine in machines)


def search_text(name: str) -> str:
    """The aim of a search, without its speed, which differs from run to run."""
    return f"Search for a fast {name}" if name else "Search for a fast program"


def search_html(name: str) -> str:
    """As `search_text`, in HTML."""
    return f"<p>{escape(search_text(name))}; its trials are drawn where the widget is live.</p>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first of each row is its heading."""
    lines = ["".join(f"<th>{escape(head)}</th>" for head in heads)]
    for name, *values in rows:
        cells = "".join(f"<td>{escape(value)}</td>" for value in values)
        lines.append(f"<th>{escape(name)}</th>{cells}")
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def lines_html(lines: Iterable[Sequence[str]]) -> str:
    """Lines of class, text, class, text, ... in their colours."""
    return _pre(map(_line, lines))


def _details(summary: str, body: str, state: str = "") -> str:
    return f"<details{state}><summary>{summary}</summary>{body}</details>"


def _changes(before: str, after: str, context: int) -> str:
    lines = unified(before.splitlines(), after.splitlines(), context)
    known = dict(zip(after.split("\n"), script_tokens(after), strict=True))
    return _pre(
        f'<span class="{SIGNS[sign]}">{sign} {escape(line)}</span>'
        if SIGNS[sign]
        else f"{sign} {_line(known.get(line) or tokens(line))}"
        for sign, line in lines
    )


def _pre(lines: Iterable[str]) -> str:
    return f'<div class="highlight"><pre>{chr(10).join(lines)}\n</pre></div>'


def _line(parts: Sequence[str]) -> str:
    return "".join(
        f'<span class="{name}">{escape(text)}</span>' if name else escape(text)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    )


def _count(timing: Samples) -> str:
    number = len(timing.samples)
    return f"{number} sample" if number == 1 else f"{number} samples"
