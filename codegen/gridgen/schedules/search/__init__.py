"""Searches: each lane or thread follows a problem from several starts."""
