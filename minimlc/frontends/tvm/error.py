"""`tvm.error`: every error is one of minimlc's."""

from minimlc.loops.values.errors import CompileError

InternalError = TVMError = CompileError
