"""What a kernel costs on a device: predictions from counts and published figures."""
