"""Every operator, in every dtype it takes, as generated C: numpy's answers, in one compile."""

import warnings
from collections import defaultdict

import pytest

from minimlc.module import IRModule
from minimlc.runtime.build import build
from tests.graph.op_cases import cases

pytestmark = pytest.mark.requires("cc")
CASES = {f"{number}_{case.name}".replace("-", "_"): case for number, case in enumerate(cases())}
GROUPS = defaultdict(list)
for name, case in CASES.items():
    GROUPS[case.op].append(name)


@pytest.fixture(scope="module")
def library():
    kernels = {}
    for name, case in CASES.items():
        mod, function = case.module()
        kernels[name] = mod[function]
    return build(IRModule.of(kernels), "c", cache=False)


@pytest.mark.parametrize("op", GROUPS)
def test_operator(op, library):
    for name in GROUPS[op]:
        results = CASES[name].outputs()
        library[name](*CASES[name].arrays, *results)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CASES[name].check(results)
