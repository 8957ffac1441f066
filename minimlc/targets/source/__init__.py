"""Common parts of the targets that write source text in a language."""
