"""One thread, or SIMD lane, per state: straight-line code, or loops over bodies."""
