"""Tensorized blocks as instructions: AVX-512 VNNI and BF16, AMX tiles."""

from minimlc.codegen.llvm.tensor.blocks import TensorBlocks

__all__ = ["TensorBlocks"]
