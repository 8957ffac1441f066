"""The product that a block computes, and its iters: rows, columns, sums, batches."""

from typing import NamedTuple

from minimlc.loops.ir.nodes import Binary, Block, Cast, Expr, Load, Store, Var
from minimlc.loops.proofs.access import reduction_parts
from minimlc.loops.schedule import Schedule
from minimlc.recipes.views import HINT, Draft, first


class Factor(NamedTuple):
    """A factor: its place in the product, its buffer, and each axis's role: b, m, n or k."""

    place: int
    buffer: str
    axes: str


class Product(NamedTuple):
    """C[..., m, n] += A[..., m, k] * B[..., k, n], with the axes of A and B in any order.

    The columns n are the last axis of C; A is the factor without them. There may be no batch, or
    several batch axes, and B may be without some of them. `dtypes` are of A, B and C.
    """

    block: str
    left: Factor
    right: Factor
    output: str
    rows: int
    columns: int
    sums: int
    batches: tuple[int, ...]
    dtypes: tuple[str, str, str]


def find_product(sch: Schedule, block: str | None = None) -> Product:
    """The product that a block computes: the named one, or the first that is one."""
    why = "{} matrix product: C[..., i, j] += A[..., i, k] * B[..., k, j]"
    hint = f"{HINT}; of (A - a) * (B - b), sch.decompose_sum(block) makes one"
    return first(sch, block, _product, why, ("is no", "is a"), hint)[1]


def _product(block: Block) -> Product | None:
    factors = loads_of(block)
    if factors is None or not isinstance(block.body, Store) or not block.body.indices:
        return None
    roles = _roles(block, block.body.indices[-1], factors)
    if roles is None:
        return None
    wide = [i for i in block.body.indices if isinstance(i, Var) and roles.get(i) == "m"]
    roles |= dict.fromkeys(wide[:-1], "b")
    first, second = (_factor(n, load, roles) for n, load in enumerate(factors))
    output = _factor(2, block.body, roles)
    left, right = (second, first) if "n" in first.axes else (first, second)
    if left.buffer == right.buffer or not _is_matmul(left.axes, right.axes, output.axes):
        return None
    sizes = {role: [it.extent for it in block.iters if roles[it.var] == role] for role in "bmnk"}
    rows, columns, sums = (sizes[role][0] for role in "mnk")
    batches = tuple(sizes["b"])
    types = [load.buffer.dtype for load in factors]
    dtypes = (types[left.place], types[right.place], block.body.buffer.dtype)
    return Product(block.name, left, right, output.buffer, rows, columns, sums, batches, dtypes)


def factors_of(sch: Draft, block: str) -> list[str]:
    """The buffers that the two factors of a block's sum are read from, in order."""
    loads = loads_of(sch.block(block))
    assert loads is not None, "a product stays one"
    return [load.buffer.name for load in loads]


def loads_of(block: Block) -> tuple[Load, Load] | None:
    """The two elements whose product a block adds up."""
    parts = reduction_parts(block)
    return _factors(parts[2]) if parts is not None and parts[0] == "+" else None


def _factors(value: Expr) -> tuple[Load, Load] | None:
    """The two elements that a value is the product of, whatever they are converted to."""
    value = _uncast(value)
    if not isinstance(value, Binary) or value.op != "*":
        return None
    a, b = (_uncast(side) for side in (value.a, value.b))
    return (a, b) if isinstance(a, Load) and isinstance(b, Load) else None


def _uncast(value: Expr) -> Expr:
    return _uncast(value.a) if isinstance(value, Cast) else value


def _roles(block: Block, last: Expr, factors: tuple[Load, Load]) -> dict[Var, str] | None:
    """Each iter's role by where it occurs: in both factors, or in one, and whether it is summed.

    `last` is the index of the output's last axis, which only B has.
    """
    wide = [load for load in factors if last in load.indices]
    if len(wide) != 1:
        return None
    roles: dict[Var, str] = {}
    for it in block.iters:
        within = [load for load in factors if it.var in load.indices]
        if it.kind == "R":
            roles[it.var] = "k" if len(within) == 2 else "?"
        elif len(within) == 2:
            roles[it.var] = "b"
        else:
            roles[it.var] = "n" if within == wide else "m"
    return roles


def _factor(place: int, access: Load | Store, roles: dict[Var, str]) -> Factor:
    axes = "".join(roles.get(i, "?") if isinstance(i, Var) else "?" for i in access.indices)
    return Factor(place, access.buffer.name, axes)


def _is_matmul(left: str, right: str, output: str) -> bool:
    batch = "b" * output.count("b")
    return (
        output == f"{batch}mn"
        and sorted(left) == sorted(f"{batch}mk")
        and sorted(right.replace("b", "")) == ["k", "n"]
    )


def is_constant(sch: Draft, buffer: str) -> bool:
    """Whether a parameter is the same in all calls, by the attribute "constants"."""
    constants = dict(sch.func.attrs).get("constants")
    return isinstance(constants, tuple) and buffer in constants
