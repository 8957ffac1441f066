"""Proofs about programs: ranges, dependences, regions, well-formedness."""
