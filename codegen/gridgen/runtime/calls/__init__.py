"""From a request to results: the kernel that serves it, launches, bound calls, products."""
