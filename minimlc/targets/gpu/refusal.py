"""The error for a function that cannot be launched."""

from minimlc.loops.values.errors import BuildError


def refused(why: str, hint: str = "") -> BuildError:
    """The error E510 and its reason."""
    return BuildError(f"this cannot be launched: {why}", code="E510", hint=hint)
