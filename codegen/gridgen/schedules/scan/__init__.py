"""One team of lanes per state: one lane per body, parallel prefix sums."""
