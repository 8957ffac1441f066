"""Group calls that are worth running as one."""

from minimlc.graphs.ir.nodes import Binding, BindingBlock, Call, Expr, Function, TensorType, Var
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.passes.kinds import Kind, kind_of
from minimlc.graphs.passes.outlined import outlined
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import nodes_of, replace

PRIMITIVE = (("primitive", True),)
LARGEST = 32
"""Calls in one group at most: longer chains gain nothing, and later steps stay quick."""


@module_pass
def fuse_ops(mod: IRModule) -> IRModule:
    """Make graph functions, marked primitive, of calls of primitive functions that fit together.

        lv = R.call_tir("matmul", (x, w), ...)        def fused_matmul_add(x, w, b): # primitive
        lv1 = R.call_tir("add", (lv, b), ...)   -->       lv = R.call_tir("matmul", (x, w), ...)
                                                          lv1 = R.call_tir("add", (lv, b), ...)
                                                          return lv1
                                                      lv1 = fused_matmul_add(x, w, b)

    A group has one result, and nothing else of it is used outside, so it can run at the place of
    its last call. It holds any number of injective functions and at most one reduction or anchor,
    whose result the rest of the group uses element for element. `fuse_tir` makes each group one
    primitive function.
    """
    return _Fuse(mod)(mod)


class _Group:
    """Bindings that become one function; `members` from the last one backwards."""

    def __init__(self, last: Binding, kind: Kind):
        self.members = [last]
        self.shape = last.var.type
        self.anchor: Binding | None = last if kind >= Kind.REDUCTION else None
        self.anchor_kind = kind
        self.straight = {last} if kind <= Kind.BROADCAST else set()

    def takes(self, binding: Binding, kind: Kind, users: set[Binding]) -> bool:
        """Whether a binding, used by nothing but the members `users`, fits in."""
        if len(self.members) >= LARGEST:
            return False
        if kind <= Kind.INJECTIVE:
            return self.anchor not in users or self.anchor_kind == Kind.REDUCTION
        return (
            kind < Kind.OPAQUE
            and self.anchor is None
            and users <= self.straight
            and self._same_shape(binding)
        )

    def add(self, binding: Binding, kind: Kind, users: set[Binding]) -> None:
        self.members.append(binding)
        if kind >= Kind.REDUCTION:
            self.anchor, self.anchor_kind = binding, kind
        elif kind <= Kind.BROADCAST and users <= self.straight and self._same_shape(binding):
            self.straight.add(binding)

    def _same_shape(self, binding: Binding) -> bool:
        mine, other = self.shape, binding.var.type
        if not isinstance(mine, TensorType) or not isinstance(other, TensorType):
            return False
        return mine.shape == other.shape


class _Fuse(Mutator):
    def __init__(self, mod: IRModule):
        self.functions = mod.functions
        self.kinds: dict[str, Kind] = {}

    def rewrite_function(self, func: Function) -> Function:
        users: dict[Var, set[Binding]] = {}
        for binding in func.bindings():
            for var in nodes_of(binding.value, Var):
                users.setdefault(var, set()).add(binding)
        outside = set(nodes_of(func.result, Var))
        blocks = [self.block(block, users, outside) for block in func.blocks]
        return replace(func, blocks=blocks)

    def block(
        self, block: BindingBlock, users: dict[Var, set[Binding]], outside: set[Var]
    ) -> BindingBlock:
        groups = self.groups(block, users, outside)
        bindings = []
        for binding in block.bindings:
            group = groups.get(binding)
            if group is None or len(group.members) == 1:
                bindings.append(binding)
            elif binding is group.members[0]:
                members, results = group.members[::-1], [binding.var]
                call = outlined(self.builder, members, results, _name(members), PRIMITIVE)
                bindings.append(replace(binding, value=call))
        return replace(block, bindings=bindings)

    def groups(
        self, block: BindingBlock, users: dict[Var, set[Binding]], outside: set[Var]
    ) -> dict[Binding, _Group]:
        """The group of each binding that has one.

        A binding joins the group that holds all its users. As nothing else uses it, no path leaves
        the group and comes back, so groups never wait for each other in a circle.
        """
        group_of: dict[Binding, _Group] = {}
        for binding in reversed(block.bindings):
            kind = self.kind(binding.value)
            if kind == Kind.OPAQUE:
                continue
            mine = users.get(binding.var, set())
            theirs = {id(group_of.get(user)): group_of.get(user) for user in mine}
            group = next(iter(theirs.values())) if len(theirs) == 1 else None
            if group and binding.var not in outside and group.takes(binding, kind, mine):
                group.add(binding, kind, mine)
                group_of[binding] = group
            else:
                group_of[binding] = _Group(binding, kind)
        return group_of

    def kind(self, value: Expr) -> Kind:
        if not isinstance(value, Call) or value.op != "call_tir":
            return Kind.OPAQUE
        if value.callee not in self.kinds:
            func = self.functions.get(value.callee)
            self.kinds[value.callee] = kind_of(func) if isinstance(func, PrimFunc) else Kind.OPAQUE
        return self.kinds[value.callee]


def _name(members: list[Binding]) -> str:
    """fused_matmul_add_relu; long groups are cut short."""
    names = [m.value.callee.rstrip("0123456789") for m in members if isinstance(m.value, Call)]
    more = f"_{len(names) - 6}_more" if len(names) > 6 else ""
    return "fused_" + "_".join(name.removeprefix("fused_") for name in names[:6]) + more
