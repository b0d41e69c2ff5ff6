"""The host's processor: SIMD code, compiled by its C++ compiler."""
