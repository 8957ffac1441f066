"""What an executable can do besides being called: profiles, memory plans, files."""
