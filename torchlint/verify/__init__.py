"""The runtime observer: replays flagged code under torch and says whether the fault is real."""
