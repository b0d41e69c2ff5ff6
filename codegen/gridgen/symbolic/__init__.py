"""Symbolic specialization: a scalar graph, the joints' transforms, traced programs, their text."""
