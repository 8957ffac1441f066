"""The roles of a convolution's iters in a block: images, channels, pixels, windows."""

from typing import NamedTuple

from minimlc.loops.ir.nodes import Binary, Block, BlockIter, Const, Expr, Load, Store, Var
from minimlc.loops.proofs.arith import linear, variables
from minimlc.recipes.lowprec import are_multiplied
from minimlc.recipes.product import loads_of
from minimlc.recipes.views import Draft, first


class Convolution(NamedTuple):
    """out[n, o, i, j] += image[...] * weights[o, c, p, q]; `iters` in the block's order.

    `dtypes` are of the image, the weights and the sums.
    """

    iters: str
    sizes: dict[str, int]
    output: str
    image: str
    weights: str
    dtypes: tuple[str, str, str]
    in_order: bool
    """Whether the image is read as the output is written: one image, one pixel for each."""
    alike: int
    """Output channels in a row that read the same input channels: the size of a group."""


def find_convolution(sch: Draft, block: str | None) -> tuple[str, Convolution]:
    """The convolution that a block computes: the named one, or the first that is one."""
    kind = "out[n, o, i, j] += image[...] * w[o, c, p, q] of floats"
    why = f"conv2d: {{}} {kind}, added up in float32 or float64"
    return first(sch, block, _convolution, why, ("is not", "is"))


def _convolution(block: Block) -> Convolution | None:
    loads = loads_of(block)
    if loads is None or not isinstance(block.body, Store):
        return None
    output = block.body
    for weights, image in (loads, loads[::-1]):
        roles = _roles(output, weights, block.iters)
        dtypes = (image.buffer.dtype, weights.buffer.dtype, output.buffer.dtype)
        floats = dtypes[2].startswith("float") and are_multiplied(dtypes)
        if roles is None or not floats or len(image.indices) < 3:
            continue
        iters = "".join(roles[it.var] for it in block.iters)
        sizes = {roles[it.var]: it.extent for it in block.iters}
        by_channel = any(roles.get(var) == "o" for var in variables(image.indices[1]))
        if sizes["c"] == 1 and by_channel:
            continue
        names = [part.buffer.name for part in (output, image, weights)]
        alone = sizes["n"] == sizes["p"] == sizes["q"] == 1
        pixels = image.buffer.shape[2:]
        in_order = alone and pixels == output.buffer.shape[-len(pixels) :]
        alike = _in_a_group(image.indices[1], sizes["c"]) if by_channel else sizes["o"]
        return Convolution(iters, sizes, names[0], names[1], names[2], dtypes, in_order, alike)
    return None


def _in_a_group(channel: Expr, inputs: int) -> int:
    """k, if an input channel has the number o // k * inputs + c; else 1."""
    for atom, step in linear(channel).terms.items():
        match atom.expr:
            case Binary("//", Var(), Const(k)) if step == inputs:
                return int(k)
            case _:  # other nodes: only quotients show groups
                continue
    return 1


def _roles(output: Store, weights: Load, iters: tuple[BlockIter, ...]) -> dict[Var, str] | None:
    """Each iter's letter: n, o, i, j by the output's axes and c, p, q by the weights'. A window of
    one row, or of one column, may have no axis for it.
    """
    letters = {4: "cpq", 3: "cq"}.get(len(weights.indices))
    if len(output.indices) != 4 or letters is None:
        return None
    places = [*zip(output.indices, "noij", strict=True)]
    places += zip(weights.indices[1:], letters, strict=True)
    roles = {index: letter for index, letter in places if isinstance(index, Var)}
    missing = [letter for letter in "pq" if letter not in roles.values()]
    single = [it.var for it in iters if it.var not in roles and it.extent == 1]
    roles |= dict(zip(single, missing, strict=False))
    plain = sorted(roles.values()) == sorted("noijcpq") and set(roles) == {it.var for it in iters}
    right = plain and all(it.kind == "RS"[roles[it.var] in "noij"] for it in iters)
    return roles if right and weights.indices[0] is output.indices[1] else None
