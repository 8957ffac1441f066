"""Target "cuda": kernels on NVIDIA's GPUs, through CuPy."""
