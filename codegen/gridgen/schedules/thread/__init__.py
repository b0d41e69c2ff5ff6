"""One thread for each state, or one SIMD lane: straight-line code, or loops over bodies."""
