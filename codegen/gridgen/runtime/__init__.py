"""What computes calls at run time: no symbolic algebra, no URDF parser, no templates."""
