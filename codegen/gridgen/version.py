"""The version of grid-gen."""

__version__ = "0.1.0"
#: Number of the form of a module: of its ``model.json``, and of the functions of compiled code that
#: Python calls. A module runs with every version of grid-gen that has its number.
MODULE_FORM = "1"
