"""The exercises of a chapter as its reader has them: with the names of those cells that they use,
without running the others."""

import ast
import linecache
from collections.abc import Iterator
from pathlib import Path
from symtable import SymbolTable, symtable
from typing import Any

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from minimlc.exercise import Exercise

ROOT = Path(__file__).resolve().parents[2]


class Cell:
    """A code cell: its text as Python, the names that it binds at its top level, and the names
    of the session that it uses.
    """

    def __init__(self, path: Path, number: int, cell: nbformat.NotebookNode):
        self.file = f"{path.stem}, cell {number}"
        self.tags = cell.metadata.get("tags", [])
        self.text = TransformerManager().transform_cell(cell.source)
        self.tree = ast.parse(self.text, self.file)
        table = symtable(self.text, self.file, "exec")
        bound = [n for n in table.get_symbols() if n.is_assigned() or n.is_imported()]
        self.binds = {name.get_name() for name in bound}
        self.uses = set(_used_in(table))

    def run(self, session: dict[str, Any]) -> Any:
        """Run the cell; the value of its last line."""
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.file] = (len(self.text), None, lines, self.file)
        *body, last = self.tree.body
        if not isinstance(last, ast.Expr):
            body, last = self.tree.body, None
        exec(compile(ast.Module(body, []), self.file, "exec"), session)
        return last and eval(compile(ast.Expression(last.value), self.file, "eval"), session)


def _used_in(table: SymbolTable) -> Iterator[str]:
    """The session's names that a piece of code uses."""
    for name in table.get_symbols():
        if name.is_referenced() and (table.get_type() == "module" or name.is_global()):
            yield name.get_name()
    for inner in table.get_children():
        yield from _used_in(inner)


def cells(path: Path) -> list[Cell]:
    """The code cells of a chapter, in order."""
    notebook = nbformat.read(path, as_version=4)
    return [Cell(path, n, c) for n, c in enumerate(notebook.cells) if c.cell_type == "code"]


class Chapter:
    """A chapter's exercises, and its names as attributes. Of the cells before the exercises, those
    run that are needed; of the others, the answers and the solutions do not.
    """

    def __init__(self, path: Path):
        self.session: dict[str, Any] = {"__name__": "__main__"}
        self.ran: list[Cell] = []
        every = cells(path)
        first = next(number for number, cell in enumerate(every) if "exercise" in cell.tags)
        self.before, self.exercises = every[:first], every[first:]
        self.answers = [cell for cell in self.exercises if "answer" in cell.tags]
        self.solutions = [cell for cell in self.exercises if "solution" in cell.tags]
        self.run_for({name for cell in self.exercises for name in cell.uses})
        for cell in self.exercises:
            if cell not in (*self.answers, *self.solutions):
                cell.run(self.session)

    def run_for(self, names: set[str]) -> None:
        """Run those cells before the exercises that bind these names, or what they use."""
        chosen: list[Cell] = []
        for cell in reversed(self.before):
            if cell.binds & names:
                chosen.insert(0, cell)
                names = names - cell.binds | cell.uses
        for cell in chosen:
            if cell not in self.ran:
                self.ran.append(cell)
                cell.run(self.session)

    def __getattr__(self, name: str) -> Any:
        self.run_for({name})
        if name not in self.session:
            raise AttributeError(f"the chapter has no {name}")
        return self.session[name]

    @property
    def names(self) -> list[str]:
        """The names of the exercises, in order."""
        return [name for name, value in self.session.items() if isinstance(value, Exercise)]
