"""Evaluation of calls at run time, without symbolic algebra, URDF parser or templates."""
