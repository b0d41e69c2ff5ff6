"""Code shared by the schedules with a team of threads per state."""
