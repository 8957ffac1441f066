"""Fresh names, each in constant time."""

from collections.abc import Iterable


class Names:
    """The names taken in one scope."""

    def __init__(self, taken: Iterable[str] = ()):
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """`hint`, or `hint1`, `hint2`, ...: a name not taken before, now taken."""
        name = hint
        number = self._next.get(hint, 1)
        while name in self.taken:
            name = f"{hint}{number}"
            number += 1
        self._next[hint] = number
        self.taken.add(name)
        return name
