"""`tvm.error`: every error is one of minimlc's."""

from minimlc.errors import CompileError

InternalError = TVMError = CompileError
