"""Whether two programs are the same: by their form up to names, or by running both."""
