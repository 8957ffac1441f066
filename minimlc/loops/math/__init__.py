"""Functions such as exp and tanh as programs of float32 arithmetic."""
