"""Symbolic specialization: scalar graph, joint transforms, traced programs and their text."""
