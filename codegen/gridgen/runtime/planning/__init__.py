"""Selection of kernels, by predicted and measured times."""
