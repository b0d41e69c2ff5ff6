"""What a module has: its files, its description, its kernels."""
