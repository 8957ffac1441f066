"""Rare primitives, one file for each, called by its name."""

from minimlc.services.primitives import (  # noqa: F401 (each enters itself in the table)
    decompose_padding,
    decompose_sum,
    fuse_reduction_epilogue,
    loop_partition,
    pad_einsum,
    reindex,
    rfactor,
    rolling_buffer,
    transform_block_layout,
    unsafe_set_dtype,
)
