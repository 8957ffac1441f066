"""How arguments are drawn for the primitives on memory and layout."""

from collections.abc import Callable, Sequence
from typing import Any

from minimlc.loops.ir.nodes import Load, Store
from minimlc.loops.proofs.arith import variables
from minimlc.loops.values.dtypes import holds
from minimlc.loops.values.node import structural_equal, walk
from tests.fuzz.site import Arguments, Nothing, Site

Rule = Callable[[Site], Arguments]


def _using(site: Site, uses: Callable[[str], Sequence[str]]) -> list[str]:
    """A block and one of the buffers that it uses so."""
    block = site.block(name for name in site.blocks if uses(name))
    return [block, site.buffer(uses(block))]


def _scope(site: Site) -> dict[str, Any]:
    return {"scope": site.rng.choice(["local", "shared"])} if site.chance(0.5) else {}


WIDER = {
    "int8": ("int16", "int32", "int64"),
    "uint8": ("int16", "int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64", "float64"),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
"""The dtypes that hold all of another's values."""

SHIFTED = {"int8": ("uint8", 128), "uint8": ("int8", -128)}


def _cache_read(site: Site) -> Arguments:
    block = site.block(name for name in site.blocks if site.reads(name))
    apart = [buffer for buffer in site.reads(block) if buffer not in site.writes(block)]
    buffer, options = site.buffer(apart), _scope(site)
    dtype = site.buffers[buffer].dtype
    wider = WIDER.get(dtype, ())
    if site.wild:
        options |= {"dtype": site.rng.choice(["int64", "int16", "uint8", dtype])}
        options |= {"offset": 1000} if site.chance(0.3) else {}
    elif dtype in SHIFTED and site.chance(0.2):
        options["dtype"], options["offset"] = SHIFTED[dtype]
    elif wider and site.chance(0.2):
        options["dtype"] = site.rng.choice(wider)
        if dtype.strip("u").startswith("int") and "int" in options["dtype"] and site.chance(0.3):
            options["offset"] = site.rng.choice([100, -128, 1000])
    return [block, buffer], options


def _cache_write(site: Site) -> Arguments:
    def uses(name: str) -> list[str]:
        calm = site.whole(name) and site.starts_anew(name)
        return site.writes(name) if calm else []

    return _using(site, uses), _scope(site)


def _cache_inplace(site: Site) -> Arguments:
    return _using(site, site.writes), _scope(site)


def _reindex(site: Site) -> Arguments:
    """A buffer that a block uses at one index."""

    def uses(name: str) -> list[str]:
        if not site.whole(name) or not site.starts_anew(name):
            return []
        used = dict.fromkeys([*site.reads(name), *site.writes(name)])
        return [buffer for buffer in used if _has_one_index(site, name, buffer)]

    return _using(site, uses), {}


def _has_one_index(site: Site, block: str, buffer: str) -> bool:
    """Whether a block uses a buffer at one index only, of its iters."""
    parts = [n for n in walk(site.blocks[block]) if isinstance(n, Load | Store)]
    first, *others = [n.indices for n in parts if n.buffer.name == buffer]
    own = {it.var for it in site.blocks[block].iters}
    return (
        bool(first)
        and all(set(variables(part)) <= own for part in first)
        and all(map(structural_equal, first * len(others), sum(others, ())))
    )


def _written(site: Site) -> list[str]:
    """A block and a buffer of the function's own that it writes."""
    return _using(site, lambda name: [b for b in site.writes(name) if b in site.own])


def _set_scope(site: Site) -> Arguments:
    return [*_written(site), site.rng.choice(["local", "shared", "global"])], {}


def _storage_align(site: Site) -> Arguments:
    block, buffer = _written(site)
    dims = site.buffers[buffer].ndim
    if dims < 2 and not site.wild:
        raise Nothing
    factor = site.rng.choice([2, 4, 8])
    options = {"offset": site.rng.randrange(factor)} if site.chance(0.5) else {}
    return [block, buffer, site.rng.randrange(max(1, dims - 1)), factor], options


def _transform_layout(site: Site) -> Arguments:
    block, buffer = _written(site)
    shape = site.buffers[buffer].shape
    if not shape and not site.wild:
        raise Nothing
    fill = site.buffers[buffer].dtype != "bool" and site.chance(0.3)
    options = {"pad_value": site.rng.choice([0, 7])} if fill else {}
    return [block, buffer, _index_map(site, shape, spread=True)], options


def _unsafe_set_dtype(site: Site) -> Arguments:
    block, buffer = _written(site)
    own = site.buffers[buffer].dtype
    fitting = [dtype for dtype in WIDER.get(own, ()) if holds(dtype, own)]
    if not fitting and not site.wild:
        raise Nothing
    return [block, buffer, site.rng.choice(["int16", "float64"] if site.wild else fitting)], {}


def _reindexed(writes: bool) -> Rule:
    """`reindex_cache_write` or `reindex_cache_read`: the block's iters in another order."""

    def draw(site: Site) -> Arguments:
        (block, buffer), _ = _reindex(site)
        if (buffer in site.writes(block)) is not writes and not site.wild:
            raise Nothing
        iters = site.blocks[block].iters
        parts = [n for n in walk(site.blocks[block]) if isinstance(n, Load | Store)]
        spoken = {
            v for n in parts if n.buffer.name == buffer for i in n.indices for v in variables(i)
        }
        used = [(f"i{n}", it.extent) for n, it in enumerate(iters) if it.var in spoken or site.wild]
        outputs = site.rng.sample(used, len(used))
        if site.wild and outputs and site.chance(0.5):
            outputs = outputs[1:]
        names = ", ".join(f"i{n}" for n in range(len(iters)))
        texts = [
            f"{name} // 2, {name} % 2" if size % 2 == 0 and site.chance(0.3) else name
            for name, size in outputs
        ]
        index_map = f"{names} -> {', '.join(texts) or '0'}"
        return [block, buffer, site.rng.choice(["local", "shared", "global"]), index_map], {}

    return draw


def _transform_block_layout(site: Site) -> Arguments:
    alone = [
        name
        for name in site.blocks
        if is_alone(site, name) and site.whole(name) and not site.ordered(name)
    ]
    block = site.block(alone)
    return [block, _index_map(site, [it.extent for it in site.blocks[block].iters])], {}


def is_alone(site: Site, block: str) -> bool:
    """Whether a block is its nest's only one, in serial loops, one for each iter."""
    around = site.around[block]
    return (
        0 < len(around) == len(site.blocks[block].iters)
        and all(site.loops[name].kind == "serial" for name in around)
        and sum(around[0] in loops for loops in site.around.values()) == 1
        and site.blocks[block].predicate is None
        and block not in site.inner
    )


def _index_map(site: Site, sizes: Sequence[int], spread: bool = False) -> str:
    """A one-to-one map as text; `spread`, it may leave gaps. On a wild site it may be none."""
    names = [f"i{n}" for n in range(len(sizes))]
    outputs = list(names)
    for number, (name, size) in enumerate(zip(names, sizes, strict=True)):
        divisors = [d for d in (2, 3, 4) if size % d == 0 or site.chance(0.15)]
        match site.rng.randrange(6):
            case 0 if divisors:
                by = site.rng.choice(divisors)
                outputs[number] = f"{name} // {by}, {name} % {by}"
            case 1:
                outputs[number] = f"{size - 1} - {name}"
            case 2 if site.chance(0.5):
                outputs[number] = f"({name} + {site.rng.randint(1, 4)}) % {size}"
            case 3 if spread and site.chance(0.4):
                outputs[number] = f"{name} * {site.rng.choice([2, 3, 16])} + 1"
    parts = ", ".join(outputs).split(", ")
    site.rng.shuffle(parts)
    if len(names) > 1 and site.chance(0.2):
        flat, count = f"{names[0]} * {sizes[1]} + {names[1]}", sizes[0] * sizes[1]
        divisors = [d for d in (2, 3, 4, 6, 8) if count % d == 0 or (spread and site.chance(0.2))]
        by = site.rng.choice(divisors) if divisors and site.chance(0.6) else 0
        parts = [f"({flat}) // {by}", f"({flat}) % {by}"] if by else [flat]
        parts += names[2:]
    if site.wild and site.chance(0.5):
        parts = [site.rng.choice([f"{names[0]} // 2", f"{names[-1]} * 2", *parts])] if names else []
    return f"{', '.join(names)} -> {', '.join(parts)}"


def _reorder_block_iter_var(site: Site) -> Arguments:
    block = site.block(name for name, b in site.blocks.items() if b.iters)
    count = len(site.blocks[block].iters)
    order = site.rng.sample(range(count), count)
    return [block, order[1:] if site.wild and site.chance(0.3) else order], {}


def _rolling_buffer(site: Site) -> Arguments:
    fitting = [name for name in site.spatial() if site.intermediate(name) and site.movable(name)]
    fitting = [name for name in fitting if _moved(site, name)]
    block = site.block(fitting)
    return [block, site.buffer(site.writes(block))], {}


def _moved(site: Site, block: str) -> bool:
    """Whether a block is in a loop of all that read it."""
    shared = site.shared_loops([block, *site.consumers(block)])
    return bool(shared) and site.slides(site.writes(block)[0])


MEMORY: dict[str, Rule] = {
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "cache_inplace": _cache_inplace,
    "reindex": _reindex,
    "reindex_cache_read": _reindexed(writes=False),
    "reindex_cache_write": _reindexed(writes=True),
    "set_scope": _set_scope,
    "storage_align": _storage_align,
    "transform_layout": _transform_layout,
    "transform_block_layout": _transform_block_layout,
    "reorder_block_iter_var": _reorder_block_iter_var,
    "rolling_buffer": _rolling_buffer,
    "unsafe_set_dtype": _unsafe_set_dtype,
}
