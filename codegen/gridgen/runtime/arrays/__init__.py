"""Array arguments and results: validation, layouts, other libraries, copies, GPU streams."""
