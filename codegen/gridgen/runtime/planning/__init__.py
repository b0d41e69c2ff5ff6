"""Which kernel serves a call best, by prediction and by measurement."""
