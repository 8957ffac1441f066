"""How the arguments of each primitive are drawn, one rule per primitive."""

import random
from collections.abc import Callable

import minimlc as mlc
from minimlc.loops.ir.nodes import Binary, Block, Const, For, Load, Select, Store, Var
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.proofs.access import reducer_of
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.schedule import PRIMITIVES
from minimlc.loops.values.node import walk
from minimlc.services.tensor.intrin import find_intrin, intrins
from tests.fuzz.draw_memory import MEMORY, is_alone
from tests.fuzz.site import Arguments, Nothing, Site

WILD = 0.15
"""The share of steps whose arguments are drawn from all there is. The others are sensible: drawn so
that what the primitive documents as "Legal when" should hold, as far as `Site` can see it.
"""

Rule = Callable[[Site], Arguments]


class Step:
    """One random step: a primitive and arguments that exist."""

    def __init__(self, name: str, arguments: Arguments, wild: bool):
        self.name, self.wild = name, wild
        self.positional, self.named = arguments

    def apply(self, sch: mlc.Schedule) -> mlc.Schedule:
        return sch.apply(self.name, *self.positional, **self.named)


def random_step(sch: mlc.Schedule, rng: random.Random) -> Step:
    """A primitive with arguments."""
    site = Site(sch, rng, rng.random() < WILD)
    names = [name for name in RULES if name in PRIMITIVES]  # not in the order of registration
    rng.shuffle(names)
    for name in names:
        try:
            return Step(name, RULES[name](site), site.wild)
        except Nothing:
            continue
    raise AssertionError("no primitive can be applied")


# Loops


def _split(site: Site) -> Arguments:
    varying = site.varying()
    if varying and site.chance(0.3):
        return [site.loop(varying)], {"factors": [None, site.rng.choice([1, 2, 3, 4])]}
    loop = site.loop(site.serial())
    size = site.rng.choice([1, 2, 2, 3, 4, 4, 8])
    whole = [size, -(-site.extent(loop) // size)]
    over = [site.rng.choice([2, 3, 5, 8]), *whole]
    factors = site.rng.choice(((None, size), (size, None), (None, 2, size), whole, over))
    options = {"tail": "error"} if site.chance(0.1) and not site.extent(loop) % size else {}
    if site.extent(loop) % size and site.chance(0.2) and site.touches_own_only(loop):
        options = {"tail": "pad"}
    return [loop], {"factors": list(factors), **options}


def _fuse(site: Site) -> Arguments:
    inner = {n: loop.var.name for n in site.varying() if (loop := _only(site, n)) is not None}
    fitting = [(n, name) for n, name in inner.items() if name in site.serial(least=1)]
    if fitting and site.chance(0.5):
        return list(site.rng.choice(fitting)), {}
    return site.several(site.chain(serial=True), least=1 if site.chance(0.1) else 2), {}


def _only(site: Site, name: str) -> For | None:
    """The loop that is all that a loop holds."""
    inner = site.loops[name].body
    return inner if isinstance(inner, For) else None


def _reorder(site: Site) -> Arguments:
    chosen = site.several(site.chain())
    return site.rng.sample(chosen, len(chosen)), {}


def _loop_partition(site: Site) -> Arguments:
    """At random points, or where the guards inside change."""
    fitting = site.serial()
    guarded = [name for name in fitting if site.guards(name)]
    if guarded and site.chance(0.5):
        return [site.loop(guarded)], {}
    loop = site.loop(fitting)
    inside = range(1, max(2, site.extent(loop)))
    points = site.rng.sample(inside, min(len(inside), site.rng.choice([1, 1, 2])))
    return [loop], {"points": sorted(points)}


def _add_unit_loop(site: Site) -> Arguments:
    names = [*site.loops, *site.blocks]
    return [site.among(names, names)], {}


def _merge(site: Site) -> Arguments:
    """Neighbours of one extent."""
    pairs = [(a, b) for a, b in site.neighbours() if site.extent(a) == site.extent(b)]
    if site.wild:
        return site.several([]), {}
    if not pairs:
        raise Nothing
    first, second = site.rng.choice(pairs)
    inner, other = _only(site, first), _only(site, second)
    if inner is not None and other is not None and site.chance(0.4):
        return [inner.var.name, other.var.name], {}
    return [first, second], {}


def _independent(site: Site) -> list[str]:
    """Serial loops that feed spatial iters and nothing else."""
    return [name for name in site.serial(least=1) if site.kinds(name) <= {"S"}]


def _parallel(site: Site) -> Arguments:
    return [site.loop(_independent(site))], {}


def _vectorize(site: Site) -> Arguments:
    inner = set(site.innermost())
    return [site.loop(name for name in _independent(site) if name in inner)], {}


def _unroll(site: Site) -> Arguments:
    return [site.loop(site.serial(least=1))], {}


def _annotate(site: Site) -> Arguments:
    """A note of no meaning, or one that code generation heeds."""
    names = [*site.loops, *site.blocks]
    name, buffer = site.among(names, names), site.buffer(site.buffers)
    around = next((loops for loops in site.around.values() if name in loops), [])
    if not site.chance(0.5):
        return [name, "note", site.rng.choice([1, "a", True, 0.5])], {}
    if around and site.chance(0.3):
        outer = site.rng.choice(around[: around.index(name) + 1])
        return [name, "prefetch", (buffer, outer)], {}
    return [name, site.rng.choice(["prefetch", "nontemporal"]), buffer], {}


# Blocks


def _compute_at(site: Site) -> Arguments:
    fitting = [
        n for n in site.blocks if site.intermediate(n) and site.movable(n) and _targets(site, n)
    ]
    block = site.block(fitting)
    return [block, site.loop(_targets(site, block))], {}


def _targets(site: Site, block: str) -> list[str]:
    """The loops around all readers of a block and not around the block."""
    shared = site.shared_loops(site.consumers(block))
    names = set(shared) - {*site.around[block], *site.conditional, *site.inner}
    later = site.between(block, site.consumers(block)[-1]) if site.consumers(block) else []
    changes = any({*site.reads(block)} & {*site.writes(name)} for name in later)
    return [] if changes else [name for name in shared if name in names]


def _reverse_compute_at(site: Site) -> Arguments:
    fitting = [n for n in site.spatial() if site.movable(n) and site.whole(n) and _sources(site, n)]
    block = site.block(fitting)
    return [block, site.loop(_sources(site, block))], {}


def _sources(site: Site, block: str) -> list[str]:
    """The loops of a block's producers that run over elements it may take up one by one."""
    names = list(site.blocks)
    earlier = [n for n in site.producers(block) if names.index(n) < names.index(block)]
    around = dict.fromkeys(loop for name in earlier for loop in site.around[name])
    apart = [n for n in around if n not in site.around[block] and n not in site.conditional]
    return [
        n
        for n in apart
        if site.kinds(n) <= {"S"}
        and n not in site.inner
        and site.undisturbed(block, site.between(_last_in(site, n), block))
    ]


def _last_in(site: Site, loop: str) -> str:
    """The last block in a loop."""
    return [name for name, around in site.around.items() if loop in around][-1]


def _compute_inline(site: Site) -> Arguments:
    plain = (
        n
        for n in site.spatial()
        if site.intermediate(n)
        and site.plain(n)
        and site.movable(n)
        and not any(
            {*site.reads(n)} & {*site.writes(other)}
            for other in site.between(n, site.consumers(n)[-1])
        )
    )
    return [site.block(plain)], {}


def _reverse_compute_inline(site: Site) -> Arguments:
    fitting = []
    for name in site.spatial():
        made = [b for b in site.reads(name) if b in site.own and site.readers(b) == [name]]
        alone = [b for b in made if len(site.writers(b)) == 1]
        writer = site.writers(alone[0])[0] if alone else ""
        if writer and site.movable(name) and site.whole(name) and site.movable(writer):
            fitting += [] if site.is_reduction(writer) else [name]
    return [site.block(fitting)], {}


# Reductions


def _decompose_reduction(site: Site) -> Arguments:
    fitting = [
        n
        for n, b in site.blocks.items()
        if b.init is not None and site.around[n] and site.whole(n) and not site.ordered(n)
    ]
    block = site.block(fitting)
    around = site.around[block]
    first = next((k for k, n in enumerate(around) if "R" in site.kinds(n)), len(around) - 1)
    return [block], {"at": site.loop(around[: first + 1])}


def _rfactor(site: Site) -> Arguments:
    loop = site.loop(name for name in site.serial() if _is_factor(site, name))
    inside = [name for name in site.blocks if loop in site.around[name]]
    written = [b for name in inside for b in site.writes(name)]
    most = max([site.buffers[buffer].ndim for buffer in written], default=0)
    return [loop], {"axis": site.rng.randint(0, most)} if site.chance(0.3) else {}


def _is_factor(site: Site, loop: str) -> bool:
    """Whether a loop reduces, around one block only, which is alone in its loops."""
    inside = [name for name in site.blocks if loop in site.around[name]]
    if len(inside) != 1 or site.kinds(loop) != {"R"} or loop in site.inner:
        return False
    if not site.whole(inside[0]):
        return False
    outermost = site.around[inside[0]][0]
    return sum(outermost in around for around in site.around.values()) == 1


def _fuse_reduction_epilogue(site: Site) -> Arguments:
    """A reduction and the only block that reads what it writes, and combines it the same way."""
    pairs = [
        (made, name)
        for name in site.spatial()
        for made in site.producers(name)
        if site.intermediate(made)
        and site.consumers(made) == [name]
        and _operator(site, name) == reducer_of(site.blocks[made])
        and site.blocks[made].init is not None
        and _at_elements(site, name, made)
    ]
    if site.wild:
        return [site.block([]), site.block([])], {}
    if not pairs:
        raise Nothing
    return list(site.rng.choice(pairs)), {}


def _at_elements(site: Site, block: str, made: str) -> bool:
    """Whether a block reads what another made at its own iters, each by itself."""
    (buffer,) = site.writes(made)
    own = {it.var for it in site.blocks[block].iters}
    loads = [n for n in walk(site.blocks[block].body) if isinstance(n, Load)]
    return all(set(n.indices) == own for n in loads if n.buffer.name == buffer)


def _operator(site: Site, block: str) -> str:
    """The operator of the value that a block stores."""
    store = site.blocks[block].body
    return store.value.op if isinstance(store, Store) and isinstance(store.value, Binary) else ""


# Padding


def _decompose_padding(site: Site) -> Arguments:
    """A block that stores a value or a constant, and one of its loops."""
    fitting = []
    for name in site.spatial():
        store = site.blocks[name].body
        whole = site.blocks[name].predicate is None and name not in site.conditional
        if isinstance(store, Store) and isinstance(store.value, Select) and whole:
            parts = store.value.a, store.value.b
            asks = any(isinstance(n, Load) for n in walk(store.value.condition))
            if any(isinstance(part, Const) for part in parts) and not asks and site.movable(name):
                fitting.append(name)
    block = site.block(fitting)
    return [block, site.loop(site.around[block])], {}


def _plain_sums(site: Site) -> list[str]:
    """The blocks that add up from a constant in loops that are their iters."""
    fitting = []
    for name, block in site.blocks.items():
        constant = isinstance(block.init, Store) and isinstance(block.init.value, Const)
        if constant and reducer_of(block) == "+" and is_alone(site, name) and site.movable(name):
            fitting.append(name)
    return fitting


def _decompose_sum(site: Site) -> Arguments:
    """A sum of several terms."""
    signs = ("+", "-")
    fitting = [
        name
        for name in _plain_sums(site)
        if sum(isinstance(n, Binary) and n.op in signs for n in walk(site.blocks[name].body)) > 1
    ]
    return [site.block(fitting)], {}


def _pad_einsum(site: Site) -> Arguments:
    """A sum from a constant in loops that are its iters, padded where an iter is an index."""
    block = site.blocks[site.block(_plain_sums(site))]
    padding = [
        site.rng.choice([1, 2, 4, 5]) if site.wild or _is_index(block, it.var) else 1
        for it in block.iters
    ]
    return [block.name, padding[1:] if site.wild and site.chance(0.2) else padding], {}


def _is_index(block: Block, var: Var) -> bool:
    """Whether an iter is never part of an index, but all of it."""
    parts = [part for load in walk(block.body) if isinstance(load, Load) for part in load.indices]
    return all(part is var or var not in variables(part) for part in parts)


# Marks


def _bind(site: Site) -> Arguments:
    threads = [f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz"]
    return [site.loop(_independent(site)), site.rng.choice(threads)], {}


def _unannotate(site: Site) -> Arguments:
    items: dict[str, For | Block] = {**site.loops, **site.blocks}
    noted = [(name, key) for name, item in items.items() for key, _ in item.annotations]
    if not noted:
        raise Nothing
    return list(site.rng.choice(noted)), {}


# Blocks of blocks


def _nests(site: Site) -> list[str]:
    """Loops around a single block, all serial from there on."""
    able = set(site.serial(least=1))
    found = []
    for name, loop in site.loops.items():
        inner = [name, *(other.var.name for other in loops_in(loop.body))]
        blocks = blocks_in(loop.body)
        if set(inner) <= able and len(blocks) == 1 and name not in site.conditional:
            found += [name] if blocks[0].predicate is None else []
    return found


def _blockize(site: Site) -> Arguments:
    several = site.siblings()
    if several and site.chance(0.3):
        return [site.rng.choice(several)], {}
    return [site.loop(_nests(site))], {}


def _tensorize(site: Site) -> Arguments:
    """A nest with the extents of an intrinsic's loops; what it reads and adds is left to luck."""
    found: dict[str, list[str]] = {}
    for name in _nests(site):
        inner = [name, *(loop.var.name for loop in loops_in(site.loops[name].body))]
        (block,) = blocks_in(site.loops[name].body)
        sums = site.is_reduction(block.name) and site.reads_factors(block.name)
        for intrin in intrins():
            if (sums, sorted(map(site.extent, inner))) == _described(intrin):
                found.setdefault(intrin, []).append(name)
    intrin = site.rng.choice(list(found) or intrins())
    return [site.loop(found.get(intrin, [])), intrin], {}


def _described(intrin: str) -> tuple[bool, list[int]]:
    """Whether an intrinsic adds up products, and the extents of its loops."""
    nest = find_intrin(intrin).description.body
    (block,) = blocks_in(nest)
    sums = any(it.kind == "R" for it in block.iters)
    return sums, sorted(constant_value(loop.extent) or 0 for loop in loops_in(nest))


RULES: dict[str, Rule] = {
    "split": _split,
    "fuse": _fuse,
    "reorder": _reorder,
    "loop_partition": _loop_partition,
    "merge": _merge,
    "add_unit_loop": _add_unit_loop,
    "parallel": _parallel,
    "vectorize": _vectorize,
    "unroll": _unroll,
    "annotate": _annotate,
    "unannotate": _unannotate,
    "bind": _bind,
    "rfactor": _rfactor,
    "decompose_sum": _decompose_sum,
    "fuse_reduction_epilogue": _fuse_reduction_epilogue,
    "decompose_padding": _decompose_padding,
    "pad_einsum": _pad_einsum,
    "blockize": _blockize,
    "tensorize": _tensorize,
    "compute_at": _compute_at,
    "reverse_compute_at": _reverse_compute_at,
    "compute_inline": _compute_inline,
    "reverse_compute_inline": _reverse_compute_inline,
    "decompose_reduction": _decompose_reduction,
    **MEMORY,
}
