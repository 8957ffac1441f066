"""A GPU simulated by numpy: what it would compute, what that would cost, and where threads race."""
