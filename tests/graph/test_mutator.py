import pytest

from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Call, TensorType, Var, call_function
from minimlc.graphs.mutator import Mutator
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.node import structural_equal
from tests.helpers import assert_same, refuses

X = Var("x", TensorType((3, 4), "float32"))
Y = Var("y", TensorType((3, 4), "float32"))


class MultiplyAdd(Mutator):
    def visit_Call(self, call):
        call = self.visit_children(call)
        product = self.lookup_binding(call.args[0]) if call.op == "add" else None
        if isinstance(product, Call) and product.op == "multiply":
            return op.ewise_fma(*product.args, call.args[1])
        return call


class Nothing(Mutator):
    pass


def module():
    bb = BlockBuilder()
    with bb.function("main", [X, Y]):
        with bb.dataflow():
            lv = bb.emit(op.multiply(X, Y))
            gv = bb.emit_output(op.add(lv, Y))
        bb.emit_func_output(gv)
    return bb.get()


def operators(mod):
    return [binding.value.op for binding in mod["main"].bindings()]


def test_multiply_add():
    before = module()
    after = verify(MultiplyAdd()(before))
    assert operators(after) == ["multiply", "ewise_fma"]
    assert_same(before, after, exact=True)
    assert operators(before) == ["multiply", "add"]


def test_a_rewrite_that_changes_nothing_returns_the_same_object():
    before = module()
    assert Nothing()(before) is before
    after = MultiplyAdd()(before)
    assert MultiplyAdd()(after) is after


def test_a_value_can_become_its_operand():
    class Drop(Mutator):
        def visit_Call(self, call):
            return call.args[0] if call.op == "multiply" else call

    after = verify(Drop()(module()))
    assert operators(after) == ["add"]
    (binding,) = after["main"].bindings()
    assert [arg.name for arg in binding.value.args] == ["x", "y"]


def test_nested_values_get_bindings():
    class Square(Mutator):
        def visit_Call(self, call):
            return op.multiply(op.relu(call), op.exp(call)) if call.op == "add" else call

    before = module()
    after = verify(Square()(before))
    assert operators(after) == ["multiply", "add", "relu", "exp", "multiply"]
    names = [binding.var.name for binding in after["main"].bindings()]
    assert names == ["lv", "lv1", "lv2", "lv3", "gv"]


def test_a_value_of_another_type_gets_a_new_variable():
    class Halve(Mutator):
        def visit_Call(self, call):
            return op.cast(call, "float16") if call.op == "add" else call

    after = verify(Halve()(module()))
    assert after["main"].result.type == TensorType((3, 4), "float16")


def test_functions_can_be_added():
    class Outline(Mutator):
        def visit_Call(self, call):
            if call.op != "add":
                return call
            a, b = (Var(name, arg.type) for name, arg in zip("ab", call.args, strict=True))
            bb = BlockBuilder()
            with bb.function("outlined", [a, b]):
                bb.emit_func_output(bb.emit(op.add(a, b)))
            name = self.builder.add_func(bb.get()["outlined"], "outlined")
            return call_function(name, call.args, call.type)

    before = module()
    after = verify(Outline()(before))
    assert set(after.functions) == {"main", "outlined"}
    assert_same(before, after, func="main", exact=True)


def test_bindings_can_be_emitted_before():
    class Emit(Mutator):
        def visit_Call(self, call):
            if call.op != "add":
                return call
            first = self.builder.emit(op.negative(call.args[0]))
            assert self.lookup_binding(first).op == "negative"
            return op.subtract(call.args[1], first)

    before = module()
    assert_same(before, verify(Emit()(before)), exact=True)


def test_a_variable_from_elsewhere_is_refused():
    class Wrong(Mutator):
        def visit_Call(self, call):
            return op.add(call.args[0], Var("z", call.type))

    refuses("E212", lambda: Wrong()(module()), '"z"')


def test_a_misspelt_method_fails_when_the_class_is_made():
    with pytest.raises(TypeError, match=r'visit_Cal: .* did you mean "Call"'):
        type("Typo", (Mutator,), {"visit_Cal": lambda self, call: call})
    for name in ("call", "call_", "calls", "Operator", "laod", "tuple_get_item", "Expr", "expr"):
        with pytest.raises(TypeError, match=f"visit_{name}: no node is called"):
            type("Typo", (Mutator,), {f"visit_{name}": lambda self, call: call})


def test_a_method_of_ones_own_may_be_called_like_a_visit():
    class Outer(Mutator):
        def visit_Call(self, call):
            return self.visit_pattern(call, *call.args)

        def visit_pattern(self, call, *args):
            return self.visit_product(*args) if call.op == "multiply" else call

        def visit_product(self, x, y):
            return op.multiply(y, x)

    class Inner(Outer):
        def visit_product(self, x, y):
            return op.multiply(x, x)

    before = module()
    assert_same(before, verify(Outer()(before)), exact=True)
    (product, _) = verify(Inner()(before))["main"].bindings()
    assert product.value.args == (X, X)


def test_rewriting_leaves_the_original_alone():
    before = module()
    text = before.script()
    MultiplyAdd()(before)
    assert before.script() == text
    assert structural_equal(before, module())
