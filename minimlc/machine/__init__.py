"""The abilities of this machine: peaks, caches, trials of instructions, and recorded runs."""
