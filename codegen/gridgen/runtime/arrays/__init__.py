"""Array arguments and results: checks, layouts, other libraries, copies, streams of a GPU."""
