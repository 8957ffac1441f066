"""Limits of a submission. They protect a notebook from accidents; they are no security sandbox."""

import sys
from dataclasses import asdict, dataclass

from minimlc.apart import limits
from minimlc.homework.allowed import invalid, is_number


@dataclass(frozen=True)
class Limits(limits.Limits):
    """CPU time and wall time in seconds, sizes in bytes; `processes` beside the worker itself."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            seconds = name.endswith("seconds")
            kinds, text = (int | float, "a number") if seconds else (int, "a whole number")
            least = "0 or more" if name == "processes" else "above 0"
            if not is_number(value, kinds) or value < 0 or (value == 0 and least == "above 0"):
                raise invalid(f"Limits: {name} is {text}, {least}, got {value!r:.60}")


def enforced() -> dict[str, str]:
    """How each limit is enforced on this machine: by the system, by watching, or not at all."""
    system, linux = sys.platform != "win32", sys.platform == "linux"
    return {
        "cpu_seconds": "by the system" if system else "by watching",
        "wall_seconds": "by watching",
        "memory_bytes": "by the system and by watching" if linux else "by watching",
        "file_bytes": "by the system" if system else "not at all",
        "folder_bytes": "by watching",
        "processes": "by watching",
    }
