"""Hosts that hide part of what their CPU has: `MINIMLC_TEST_HOST=no-avx512 python -m pytest …`."""
