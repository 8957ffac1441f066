"""Tables of names, which lie as texts beside the modules that use them."""

from pathlib import Path


def rows(file: str) -> dict[str, str]:
    """The table beside a module: lines `name: text`, by name."""
    lines = Path(file).with_suffix(".txt").read_text("utf-8").splitlines()
    return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}
