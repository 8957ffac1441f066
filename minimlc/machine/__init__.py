"""What this machine can do: peaks, caches, trials of instructions, and recorded runs."""
