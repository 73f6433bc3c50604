"""The static observer: reads code with LibCST and infers on which device every value lives."""
