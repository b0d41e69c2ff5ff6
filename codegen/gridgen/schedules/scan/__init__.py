"""One team of lanes for each state: a lane for each body, parallel prefix sums."""
