"""The host's processor: SIMD code from its C++ compiler."""
