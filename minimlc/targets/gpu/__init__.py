"""Lowered functions as kernels for GPUs."""
