"""Tensor instructions are tried in another process before they are used in this one."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.loops.llvm.kernel import machine_of
from minimlc.loops.llvm.machine import compile_object
from minimlc.loops.llvm.value import symbol
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.target import Target
from minimlc.machine import hardware
from minimlc.machine.hardware import TRIED, passes, trial_of, trusted, works
from tests.codegen.machines import X86
from tests.recipes.test_lowprec import arguments, exact, product

only_x86 = pytest.mark.skipif(not X86, reason="these are x86's instructions")
HAVE = Target.host().features.split(",")


def compiled(body: str) -> bytes:
    text = f"define i32 @{symbol('f')}(ptr %a, ptr %c) {{\n{body}\n}}\ndeclare void @llvm.trap()\n"
    return compile_object(text, machine_of(Target.host()))


COPY = "  %x = load i64, ptr %a\n  store i64 %x, ptr %c\n  ret i32 0"
CASES = {
    "right": (COPY, True),
    "wrong": ("  store i64 3, ptr %c\n  ret i32 0", False),
    "an error": (COPY.replace("ret i32 0", "ret i32 2"), False),
    "an illegal instruction": ("  call void @llvm.trap()\n  unreachable", False),
    "outside of memory": ("  store i64 3, ptr null\n  ret i32 0", False),
}


@pytest.mark.parametrize("case", CASES)
def test_another_process_takes_what_may_go_wrong(case):
    body, good = CASES[case]
    array, result = np.array([5]), np.array([0])
    assert passes(symbol("f"), compiled(body), [array, result], array, tiles=False) is good
    assert result[0] == 0


@pytest.mark.parametrize("feature", TRIED)
@only_x86
def test_what_this_cpu_does_not_list_does_not_work(feature):
    """Each unit's trial is real code: where the CPU has no such instruction, it ends there."""
    if feature in HAVE:
        print(f"this CPU lists {feature}; its trial says {works(feature)}")
        return
    assert works(feature) is False
    name, code, arrays, result = trial_of(feature)
    assert passes(name, code, arrays, result, feature.startswith("+amx")) is False


@only_x86
def test_the_trial_of_portable_code_is_right(monkeypatch):
    """The product that is tried, without an instruction of its own, gives what is expected."""
    unit = TRIED["+avx512vnni"]._replace(intrin="dot_i16i16i32", left="int16", right="int16")
    monkeypatch.setitem(TRIED, "+sse2", unit._replace(depth=2))
    name, code, arrays, result = trial_of("+sse2")
    assert passes(name, code, arrays, result, tiles=False) is True


PRODUCTS = {
    "+amx-bf16": ("bfloat16", "bfloat16", "float32"),
    "+amx-int8": ("int8", "int8", "int32"),
    "+avx512vnni": ("uint8", "int8", "int32"),
}


@only_x86
@pytest.mark.parametrize("feature", PRODUCTS)
def test_where_a_trial_fails_the_portable_code_is_used(feature, monkeypatch):
    """As on a machine that lists a feature which its system does not let it use."""
    tiles = ["+amx-tile"] if feature.startswith("+amx") else []
    host = Target.host()
    others = [each for each in host.features.split(",") if "amx" not in each and "vnni" not in each]
    target = Target("llvm", host.cpu, ",".join([*others, feature, *tiles]), 256)
    monkeypatch.setattr(hardware, "works", lambda name: False)
    monkeypatch.setattr(hardware, "missing_features", lambda target: ())
    mod = product(40, 50, 70, *PRODUCTS[feature])
    scheduled = recipes.matmul(Schedule(mod, check=False), target=target).mod
    with pytest.warns(RuntimeWarning, match=f"{feature[1:]}.*portable code is used"):
        safe = trusted(scheduled.functions, target)
    assert not {feature, "+amx-tile"} & set(safe.features.split(","))
    with pytest.warns(RuntimeWarning, match="portable code is used"):
        lib = mlc.build(scheduled, target=target, cache=False)
    assert lib.target == safe
    arrays = arguments(mod)
    lib["mm"](*arrays)
    expected = exact((False, False), arrays)
    np.testing.assert_allclose(arrays[2], expected, rtol=1e-5, atol=1e-4)


@only_x86
@pytest.mark.parametrize("feature", PRODUCTS)
def test_products_on_this_machine_are_right_with_the_units_that_work(feature):
    """Whether the unit is there or not: tried first, then used; or the portable code is."""
    has = feature in HAVE and works(feature)
    print(f"{feature}: {'used' if has else 'not here, portable code'}")
    mod = product(70, 90, 200, *PRODUCTS[feature])
    scheduled = recipes.matmul(Schedule(mod, check=False)).mod
    arrays = arguments(mod)
    mlc.build(scheduled, cache=False)["mm"](*arrays)
    np.testing.assert_allclose(arrays[2], exact((False, False), arrays), rtol=1e-5, atol=1e-4)


def test_code_for_another_machine_and_plain_code_are_not_tried(monkeypatch):
    def tried(name):
        raise AssertionError(name)

    monkeypatch.setattr(hardware, "works", tried)
    mod = product(40, 50, 70, "int8", "int8", "int32")
    other = Target("llvm", "sapphirerapids", "+amx-tile,+amx-int8,+avx512f,+avx512vnni", 512)
    scheduled = recipes.matmul(Schedule(mod, check=False), target=other).mod
    if not {"+amx-int8", "+avx512vnni"} <= set(HAVE):
        assert trusted(scheduled.functions, other) is other
    plain = recipes.matmul(Schedule(product(40, 50, 70, *["float32"] * 3), check=False)).mod
    assert trusted(plain.functions, Target.host()) == Target.host()
