"""How far kernels are from what the machine can do: the roofline model."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import inf, isfinite
from statistics import median
from typing import Any, NamedTuple

from minimlc_widgets.base import View, source
from minimlc_widgets.sources import Timed
from minimlc_widgets.static import table
from traitlets import Dict, List, Unicode

from minimlc.loops.values.errors import CompileError
from minimlc.machine.peaks import Peaks, machine_peaks

ABOVE = {
    "memory": (
        "above the roof of memory, which is how fast a copy goes that no cache holds. Some bytes "
        "were still in a cache, or fewer of them were written (a store first reads its line, which "
        "is not counted), or the machine had less else to do than while the peak was measured."
    ),
    "multiply-adds": (
        "above the roof of multiply-adds, which is one core's, in float32. There were several "
        "threads, narrower numbers or fewer operations than were counted; or, within a few "
        "percent, the clock ran faster than while the peak was measured."
    ),
}
"""Reasons why a kernel exceeds a roof, by roof."""


class Point(NamedTuple):
    """A kernel: how many operations it does and bytes it must move, and the seconds it took."""

    name: str
    operations: float
    bytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.operations / self.bytes

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


class Roofline(View):
    """Kernels under the roof that the machine's peaks make: memory to the left, operations above.

    `Roofline({"naive": (operations, bytes, time), ...})`, or (name, operations, bytes, time)
    tuples; a time is a `Timing`, samples or seconds. Count the bytes that a kernel must move at
    least: its inputs and outputs once. `machine` are `Peaks`; None measures this machine's
    (`mlc.machine_peaks()`). A kernel above its roof is marked, and `above` has the reasons.
    """

    _esm = source("prelude.js", "roofline.js")
    _css = source("base.css", "roofline.css")
    points = List(Dict()).tag(sync=True)
    roof = Dict().tag(sync=True)
    above = List(Unicode()).tag(sync=True)

    def __init__(self, points: Any, machine: Peaks | None = None) -> None:
        self.kernels = _points(points)
        if not self.kernels:
            raise CompileError("there is no kernel to show")
        if machine is not None and not isinstance(machine, Peaks):
            why = f"machine= takes Peaks, got {type(machine).__name__}"
            raise CompileError(why, hint="mlc.machine_peaks()")
        self.machine = machine_peaks() if machine is None else machine
        for name in ("operations", "bytes"):
            _positive(f"the machine's {name} a second", getattr(self.machine, name))
        above = self._above()
        super().__init__(
            points=[
                {
                    "name": kernel.name,
                    "intensity": kernel.intensity,
                    "rate": kernel.rate,
                    "share": self.share(kernel),
                }
                for kernel in self.kernels
            ],
            roof={
                "operations": self.machine.operations,
                "bytes": self.machine.bytes,
                "ridge": self.machine.ridge,
                "machine": self.machine.machine,
            },
            above=above,
            page=self._page(above),
        )

    def share(self, kernel: Point) -> float:
        """How much of the roof above it a kernel reaches: 1 is all of it."""
        return kernel.rate / self.machine.attainable(kernel.intensity)

    def limit(self, kernel: Point) -> str:
        """The limit that is a kernel's roof: "memory" or "multiply-adds"."""
        return "memory" if kernel.intensity < self.machine.ridge else "multiply-adds"

    def static_html(self) -> str:
        items = "".join(
            f"<li><b>{escape(kernel.name)}</b>: {_intensity_text(kernel)}</li>"
            for kernel in self.kernels
        )
        return f"<p>Roofline, drawn where the widget is live:</p><ul>{items}</ul>"

    def text(self) -> str:
        return "\n".join(
            f"Roofline of {kernel.name}: {_intensity_text(kernel)}" for kernel in self.kernels
        )

    def _page(self, above: Sequence[str]) -> str:
        heads = ["kernel", "operations a byte", "GFLOP/s", "of the roof", "limit"]
        rows = []
        for kernel in self.kernels:
            rate, share = f"{kernel.rate / 1e9:.3g}", self.share(kernel)
            percent = f"{100 * share:.1f} %{'*' * (share > 1)}"
            rows.append([kernel.name, f"{kernel.intensity:.3g}", rate, percent, self.limit(kernel)])
        peaks = (
            f"The roofs of one core: {self.machine.operations / 1e9:.3g} GFLOP/s of multiply-adds, "
            f"{self.machine.bytes / 1e9:.3g} GB/s of memory. {self.machine.machine}"
        )
        notes = [peaks, *(f"* {text}" for text in above)]
        return table(heads, rows) + "".join(f"<p>{escape(note)}</p>" for note in notes)

    def _above(self) -> list[str]:
        """Why kernels exceed their roofs, in words; a sentence for each roof that is exceeded."""
        higher = [kernel for kernel in self.kernels if self.share(kernel) > 1]
        roofs: dict[str, list[str]] = {}
        for kernel in higher:
            roofs.setdefault(self.limit(kernel), []).append(kernel.name)
        return [f"{', '.join(names)}: {ABOVE[limit]}" for limit, names in roofs.items()]


def _intensity_text(kernel: Point) -> str:
    amounts = f"{kernel.operations:.4g} operations on {kernel.bytes:.4g} bytes"
    return f"{kernel.intensity:.3g} operations a byte ({amounts})"


def _points(value: Any) -> tuple[Point, ...]:
    if isinstance(value, Mapping):
        value = [(name, *_row(name, rest)) for name, rest in value.items()]
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise _wrong(value)
    return tuple(_point(item) for item in value)


def _row(name: Any, rest: Any) -> Sequence[Any]:
    if not isinstance(rest, Sequence) or isinstance(rest, str):
        raise _wrong(rest)
    return rest


def _point(item: Any) -> Point:
    if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 4:
        raise _wrong(item)
    name, operations, size, time = item
    return Point(
        str(name),
        _positive(f"{name}: operations", operations),
        _positive(f"{name}: bytes", size),
        _positive(f"{name}: time", _seconds(time)),
    )


def _seconds(time: Any) -> Any:
    samples = time.samples if isinstance(time, Timed) else time
    if isinstance(samples, Sequence) and not isinstance(samples, str):
        return median(samples) if samples else inf
    return samples


def _positive(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = inf
    if not (isfinite(number) and number > 0):
        raise CompileError(f"{what} must be a number > 0, got {value!r}")
    return number


def _wrong(item: Any) -> CompileError:
    return CompileError(
        f"a kernel is (name, operations, bytes, time), got {item!r}",
        hint='Roofline({"naive": (2 * n**3, 3 * 4 * n * n, lib.time("mm", a, b, c))})',
    )
