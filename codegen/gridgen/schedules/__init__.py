"""Schedules: who computes what."""
