"""What the templates see: strings and lists of strings, nothing to compute."""
