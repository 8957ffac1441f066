"""How much of a GPU a kernel keeps busy, and how long it takes at least."""

from collections.abc import Sequence
from html import escape
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.static import table
from minimlc_widgets.warps import kernels_of
from traitlets import Dict, List

from minimlc.gpusim.profile import KernelProfile
from minimlc.services.runtime.timing import seconds_text

HEADS = ("device", "warps of an SM", "blocks", "limited by", "at least")


class Occupancy(View):
    """The warps that a streaming multiprocessor (SM) of a device holds of each kernel at once, what
    keeps it from more, and the time that the kernel takes at least, by the roofline model.

    `Occupancy(lib.profile("main", a, b), ("T4", "A100"))`; the names are from
    `minimlc.gpusim.devices`. `CompileError` for an unknown device.
    """

    _esm = source("prelude.js", "occupancy.js")
    _css = source("base.css", "gpu.css")
    kernels = List(Dict()).tag(sync=True)

    def __init__(self, profile: Any, devices: Sequence[str] = ("T4", "A100", "H100")) -> None:
        names = (devices,) if isinstance(devices, str) else devices
        super().__init__(
            kernels=[
                {"title": kernel.title(), "devices": [_device(kernel, name) for name in names]}
                for kernel in kernels_of(profile)
            ]
        )

    def static_html(self) -> str:
        return "".join(
            f"<p>{escape(kernel['title'])}</p>{table(HEADS, map(_row, kernel['devices']))}"
            for kernel in self.kernels
        )

    def text(self) -> str:
        lines = []
        for kernel in self.kernels:
            lines.append(kernel["title"])
            for device in kernel["devices"]:
                name, warps, blocks, limit, time = _row(device)
                held = f"{warps} warps in {blocks} blocks, limited by {limit}"
                lines.append(f"  {name}: {held}; at least {time}")
        return "\n".join(lines)


def _device(kernel: KernelProfile, name: str) -> dict[str, Any]:
    held, roof = kernel.occupancy(name), kernel.roofline(name)
    times = [[part, seconds] for part, seconds in zip(roof._fields, roof, strict=True)]
    return {
        "name": name,
        "warps": held.warps,
        "most": held.most,
        "blocks": held.blocks,
        "limit": held.limit,
        "times": times,
        "seconds": seconds_text(roof.seconds),
        "bound": roof.limit,
    }


def _row(device: dict[str, Any]) -> list[str]:
    share = f"{device['warps'] / device['most']:.0%}"
    warps = f"{device['warps']} of {device['most']} ({share})"
    time = f"{device['seconds']} for {device['bound']}"
    return [device["name"], warps, str(device["blocks"]), device["limit"], time]
