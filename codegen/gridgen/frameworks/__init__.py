"""Frameworks that transform what is called: their tracers come in, and derivatives go through.

Each is imported when one of its values comes.
"""
