"""Notebooks, each run from its first cell to its last in a kernel of its own."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from notebooks.book.outline import OUTLINE

KERNEL = "python3"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
TOGETHER = min(2, CORES)
SHARING = {chapter.name for chapter in OUTLINE if chapter.shares}
COMMON = ("matplotlib.pyplot", "minimlc_widgets.bundle")
"""What is imported before a chapter's turn comes, if its file names the package."""


@dataclass(frozen=True)
class Failure:
    """Why a chapter did not run through: which cell, its source, and the traceback."""

    cell: int | None
    source: str
    traceback: str


@dataclass(frozen=True)
class Outcome:
    notebook: nbformat.NotebookNode
    seconds: float
    failure: Failure | None


class Client(NotebookClient):
    """A NotebookClient of a kernel that others start and end. It leaves signals alone: other
    clients may be running.
    """

    @asynccontextmanager
    async def async_setup_kernel(self, **_: object) -> AsyncGenerator[None]:
        try:
            await self.async_start_new_kernel_client()
            yield
        finally:
            if self.kc is not None:
                self.kc.stop_channels()


async def executed(
    paths: Sequence[Path], timeout: int, progress: Callable[[Path, int, int], None]
) -> AsyncGenerator[tuple[Path, Outcome]]:
    """Each notebook with its outcome, in the order in which they end; `progress(path, cell, cells)`
    is called before each cell.

    They begin in the order of `paths`, one at a time, two if neither compares times closely. A
    kernel starts, and imports what is common, while the notebook before is running; it ends, which
    takes a second, while the next one is.
    """
    kernels: list[AsyncKernelManager] = []  # the last one may still be waiting
    running: dict[asyncio.Task[Outcome], Path] = {}
    ends: list[asyncio.Task[None]] = []

    async def one(path: Path, kernel: AsyncKernelManager) -> Outcome:
        outcome = await execute(path, timeout, partial(progress, path), kernel)
        kernels.remove(kernel)
        ends.append(asyncio.create_task(_end(kernel, now=outcome.failure is not None)))
        return outcome

    async def first() -> tuple[Path, Outcome]:
        ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        task = ended.pop()
        return running.pop(task), task.result()

    try:
        for path in paths:
            kernels.append(await _started(path))
            most = TOGETHER if {path.stem, *(p.stem for p in running.values())} <= SHARING else 1
            while len(running) >= most:
                yield await first()
            running[asyncio.create_task(one(path, kernels[-1]))] = path
        while running:
            yield await first()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        ends += [asyncio.create_task(_end(kernel, now=True)) for kernel in kernels]
        await asyncio.gather(*ends, return_exceptions=True)


async def _started(path: Path) -> AsyncKernelManager:
    kernel = AsyncKernelManager(kernel_name=KERNEL)
    text = path.read_text("utf-8", errors="replace")
    imported = [name for name in COMMON if name.partition(".")[0] in text]
    arguments = [
        "--IPKernelApp.log_level=CRITICAL",
        f"--IPKernelApp.exec_lines=assert all(map(__import__, {imported}))",  # binds no name
    ]
    await kernel.start_kernel(extra_arguments=arguments, cwd=str(path.parent))
    return kernel


async def _end(kernel: AsyncKernelManager, now: bool = False) -> None:
    with suppress(RuntimeError):  # it has ended
        await kernel.shutdown_kernel(now=now)


async def execute(
    path: Path, timeout: int, progress: Callable[[int, int], None], kernel: AsyncKernelManager
) -> Outcome:
    """Run a copy of the notebook at `path` in `kernel`; `progress(cell, cells)` is called before
    each cell.

    Cells are counted from 1, Markdown included. Widget state goes to the notebook's metadata.
    """
    start = time.perf_counter()
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:  # the file may hold anything
        empty = nbformat.v4.new_notebook()
        return Outcome(empty, 0.0, Failure(None, "", f"{path.name} is not a notebook: {error}"))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook.metadata.pop("widgets", None)
    current = [0]

    def on_cell_start(cell: nbformat.NotebookNode, cell_index: int) -> None:
        current[0] = cell_index + 1
        progress(cell_index + 1, len(notebook.cells))

    client = Client(
        notebook,
        kernel,
        timeout=timeout,
        store_widget_state=True,
        record_timing=False,
        coalesce_streams=True,
        on_cell_start=on_cell_start,
    )
    failure = None
    try:
        await client.async_execute()
    except DeadKernelError:  # also if this was cancelled
        failure = _failure(notebook, current[0], "the kernel died while this cell ran")
    except CellExecutionError:
        failure = _failure(notebook, current[0])
    except CellTimeoutError:
        failure = _failure(notebook, current[0], f"the cell took more than {timeout} s")
    except RuntimeError as error:
        failure = _failure(notebook, current[0], f"the kernel did not start: {error}")
    if failure:
        client.set_widgets_metadata()
    return Outcome(notebook, time.perf_counter() - start, failure)


def _failure(notebook: nbformat.NotebookNode, cell: int, *why: str) -> Failure:
    """`why` is said after the traceback that the cell left, if it left one."""
    if cell == 0:
        return Failure(None, "", "\n".join(why))
    source = notebook.cells[cell - 1]
    tracebacks = [
        "\n".join(output.traceback)
        for output in source.get("outputs", ())
        if output.output_type == "error"
    ]
    return Failure(cell, source.source, "\n".join([*tracebacks, *why]))
