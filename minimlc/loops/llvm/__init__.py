"""Lowered functions as LLVM IR and machine code."""
