"""The constraint-force algorithm on the teams of the scan schedule."""
