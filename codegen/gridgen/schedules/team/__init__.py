"""What the schedules with a team of threads for each state have in common."""
