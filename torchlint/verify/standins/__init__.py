"""Stand-ins: what takes the place of values that the code under test does not define, inside of a replay."""
