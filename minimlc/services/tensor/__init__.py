"""Blocks of blocks, and tensor intrinsics in their place."""

from minimlc.services.tensor import blockize, tensorize  # noqa: F401 (they enter the table)
from minimlc.services.tensor.intrin import TensorIntrin, find_intrin, intrins, register_intrin

__all__ = ["TensorIntrin", "find_intrin", "intrins", "register_intrin"]
