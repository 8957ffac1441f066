"""The book's pages: self-contained HTML with live widgets, no network, light and dark.

A widget in a page is a `<div data-widget="MODEL">` around its static text; page.js brings it to
life from the state kept in the page. Without JavaScript the static text is what one reads.
"""

import copy
import hashlib
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from jinja2 import DictLoader
from jupyterlab_pygments import JupyterStyle
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

from notebooks.book.stored import STATE, VIEW

if TYPE_CHECKING:
    from notebooks.book.run import Entry

HERE = Path(__file__).resolve().parent
BOOK = "minimlc"
BODY = """{%- extends 'base.html.j2' -%}
{%- block footer -%}{%- endblock footer -%}
{%- block codecell -%}
{%- if cell.metadata.get("jupyter", {}).get("source_hidden") -%}
<details class="folded">
<summary>{{ "A solution" if "solution" in cell.metadata.get("tags", []) else "Code" }}</summary>
{{ super() }}
</details>
{%- else -%}{{ super() }}{%- endif -%}
{%- endblock codecell -%}
"""
HEADING = re.compile(r'<h([23]) id="([^"]*)">(.*?)<a class="anchor-link"', re.DOTALL)
SEARCH = """<form role="search" action="index.html">
<input type="search" name="q" placeholder="Search the book" aria-label="Search all chapters">
<button>Search</button>
</form>"""
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{css}</style>
</head>
<body data-jp-theme-light="true">
<a class="skip" href="#content">Skip to the text</a>
<header>{navigation}{search}</header>
<div class="page">
{contents}
<main id="content" class="jp-Notebook">
{body}
</main>
</div>
{navigation}
{state}
<script>{script}</script>
</body>
</html>
"""


def chapter(notebook: nbformat.NotebookNode, name: str, entries: Sequence["Entry"]) -> str:
    """The page of an executed notebook; `entries` are all chapters of the book, in order."""
    notebook, state = _with_live_widgets(notebook)
    exporter = HTMLExporter(
        template_file="minimlc_body.html.j2",
        extra_loaders=[DictLoader({"minimlc_body.html.j2": BODY})],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    body, _ = exporter.from_notebook_node(notebook)
    return document(
        f"{title_of(notebook, name)} – {BOOK}",
        body,
        navigation=_navigation(name, entries),
        contents=_contents(body),
        state=json_script("widget-state", state) if state["models"] else "",
        script=source("page.js"),
    )


def document(
    title: str,
    body: str,
    *,
    navigation: str = "",
    contents: str = "",
    state: str = "",
    script: str,
) -> str:
    """A whole page around `body`; all but the title is HTML, `script` is JavaScript."""
    return PAGE.format(
        title=html.escape(title),
        css=_css(),
        navigation=navigation,
        search=SEARCH if navigation else "",
        contents=contents,
        body=body,
        state=state,
        script=script,
    )


def title_of(notebook: nbformat.NotebookNode, name: str) -> str:
    """The first level-one heading, without Markdown marks."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (title := re.search(r"^# +(.+)$", cell.source, re.M)):
            return re.sub(r"[`*]", "", title[1]).strip()
    return name[3:].replace("_", " ")


def _with_live_widgets(notebook: nbformat.NotebookNode) -> tuple[nbformat.NotebookNode, dict]:
    """Widget views become HTML with the model's name; their states and sources are returned.

    Only widgets that bring their own module are live; others keep their static form.
    """
    notebook = copy.deepcopy(notebook)
    stored = notebook.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})
    modules: dict[str, str] = {}
    models: dict[str, dict] = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            view = output.get("data", {}).pop(VIEW, None)
            if view is None:
                continue
            model = stored.get(view["model_id"], {})
            data = output.data
            own = model.get("state", {})
            static = own.get("page") or data.get("text/html")
            static = static or _preformatted(data.get("text/plain", ""))
            if "_esm" in own:
                models[view["model_id"]] = _model(model, modules)
                name = html.escape(view["model_id"])
                static = f'<div data-widget="{name}">{static}</div>'
            data["text/html"] = static
    return notebook, {"modules": modules, "models": models}


def _model(model: dict, modules: dict[str, str]) -> dict:
    """A model for the page; module sources, shared by many models, are kept once."""
    state = dict(model["state"])
    source = state.pop("_esm")
    key = hashlib.sha256(source.encode()).hexdigest()[:16]
    modules[key] = source
    return {"module": key, "state": state, "buffers": model.get("buffers", [])}


def _preformatted(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _navigation(name: str, entries: Sequence["Entry"]) -> str:
    names = [entry.name for entry in entries]
    at = names.index(name) if name in names else 0
    links = []
    if at > 0:
        links.append(_link(entries[at - 1], "prev", "←"))
    links.append('<a href="index.html">All chapters</a>')
    if at + 1 < len(entries):
        links.append(_link(entries[at + 1], "next", "→"))
    return f'<nav class="book" aria-label="Chapters">{" ".join(links)}</nav>'


def _link(entry: "Entry", relation: str, arrow: str) -> str:
    title = html.escape(entry.title)
    text = f"{arrow} {title}" if relation == "prev" else f"{title} {arrow}"
    return f'<a rel="{relation}" href="{entry.name}.html">{text}</a>'


def _contents(body: str) -> str:
    items = [
        f'<li class="level{level}"><a href="#{anchor}">{re.sub("<[^>]*>", "", text)}</a>'
        for level, anchor, text in HEADING.findall(body)
    ]
    if not items:
        return ""
    return f'<nav class="contents" aria-label="In this chapter"><ul>{"".join(items)}</ul></nav>'


def _css() -> str:
    return source("page.css") + HtmlFormatter(style=JupyterStyle).get_style_defs(".highlight")


def source(name: str) -> str:
    """The text of a file beside this one."""
    return (HERE / name).read_text("utf-8")


def json_script(identifier: str, value: object) -> str:
    text = json.dumps(value, sort_keys=True).replace("<", "\\u003c")
    return f'<script type="application/json" id="{identifier}">{text}</script>'
