"""Every operator and every dtype it takes, compiled by LLVM: numpy's answers."""

from collections import defaultdict

import pytest

from tests.fuzz.operators import failures
from tests.graph.op_cases import cases

pytestmark = pytest.mark.many

GROUPS = defaultdict(list)
for case in cases():
    GROUPS[case.op].append(case)


@pytest.mark.parametrize("op", GROUPS)
def test_operator(op):
    assert list(failures(GROUPS[op], "llvm")) == []
