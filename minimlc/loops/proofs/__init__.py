"""Proofs about programs: ranges, dependences, regions, what is well formed."""
