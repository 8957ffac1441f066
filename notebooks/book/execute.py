"""One notebook, run from its first cell to its last in a kernel of its own."""

import asyncio
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

KERNEL = "python3"
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
    """A NotebookClient that stops cleanly: ctrl-C cancels the run and shuts the kernel down."""

    interrupted = False

    async def async_start_new_kernel_client(self):
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            self.interrupted = True
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError):  # on Windows; in other threads
                asyncio.get_running_loop().add_signal_handler(number, stop)
        return await super().async_start_new_kernel_client()


def kernels(paths: Sequence[Path]) -> Generator[AsyncKernelManager]:
    """A kernel for each notebook in its turn. The next one starts, and imports what is common, in
    the first seconds of the one before.
    """
    waiting: list[AsyncKernelManager] = []
    try:
        for number in range(len(paths)):
            for path in paths[number + len(waiting) : number + 2]:
                waiting.append(asyncio.run(_started(path)))
            yield waiting[0]
            asyncio.run(_stop(waiting.pop(0)))
    finally:
        for kernel in waiting:
            asyncio.run(_stop(kernel))


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


async def _stop(kernel: AsyncKernelManager) -> None:
    """Nothing happens if the kernel has ended."""
    if kernel.has_kernel:
        await kernel.shutdown_kernel(now=True)


def execute(
    path: Path, timeout: int, progress: Callable[[int, int], None], kernel: AsyncKernelManager
) -> Outcome:
    """Run a copy of the notebook at `path` in `kernel`, which has ended then; `progress(cell,
    cells)` is called before each cell.

    Cells are counted from 1, Markdown included. Widget state goes to the notebook's metadata.
    Raises KeyboardInterrupt when interrupted.
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
        asyncio.run(client.async_execute(cleanup_kc=True))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except DeadKernelError:
        if client.interrupted:  # the cancelled wait is taken for the kernel's death
            raise KeyboardInterrupt from None
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
