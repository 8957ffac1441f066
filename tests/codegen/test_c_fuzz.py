"""Random small programs in C: loops of mixed kinds, guards, local buffers, odd sizes."""

import pytest

from minimlc.loops.values.dtypes import is_float
from tests.codegen.c_programs import agree
from tests.codegen.test_llvm_fuzz import Program
from tests.helpers import some_and_more

pytestmark = pytest.mark.requires("cc")


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8", "float64", "int64"])
@pytest.mark.parametrize("seeds", some_and_more(range(5), range(20)), ids=len)
def test_random_programs(seeds, dtype):
    functions = [Program(seed, dtype).func() for seed in seeds]
    agree(functions, exact=not is_float(dtype))
