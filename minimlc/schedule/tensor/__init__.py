"""Blocks of blocks, and tensor intrinsics in their place."""
