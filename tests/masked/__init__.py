"""Hosts that hide features of their CPU: `MINIMLC_TEST_HOST=no-avx512 python -m pytest …`."""
