"""Target "opencl": kernels run by any OpenCL device, the CPU's (PoCL) among them."""
