"""Tensorized blocks as instructions: AVX-512 VNNI and BF16, AMX tiles."""
