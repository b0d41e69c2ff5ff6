"""One team of lanes per state: one lane per body, in the frame of the base."""
