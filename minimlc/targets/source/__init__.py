"""What the targets share that write source text in a language."""
