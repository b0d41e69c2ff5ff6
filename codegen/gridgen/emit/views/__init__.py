"""Data of the templates: strings and lists of strings, without logic."""
