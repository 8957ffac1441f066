"""Every operator, in every dtype it takes, compiled by LLVM: numpy's answers."""

import warnings
from collections import defaultdict

import pytest

from minimlc.module import IRModule
from minimlc.runtime.build import build
from tests.graph.op_cases import cases

GROUPS = defaultdict(list)
for case in cases():
    GROUPS[case.op].append(case)


@pytest.mark.parametrize("op", GROUPS)
def test_operator(op):
    kernels = {}
    for case in GROUPS[op]:
        mod, name = case.module()
        kernels[case.name.replace("-", "_")] = mod[name]
    lib = build(IRModule.of(kernels), cache=False)
    for case in GROUPS[op]:
        results = case.outputs()
        lib[case.name.replace("-", "_")](*case.arrays, *results)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.check(results)
