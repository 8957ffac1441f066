"""What this machine can do: peaks, caches, instructions tried out, and runs written down."""
