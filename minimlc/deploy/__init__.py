"""Uses of an executable besides calls: profiles, memory plans, files."""
