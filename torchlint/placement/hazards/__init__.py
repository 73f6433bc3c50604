"""What is noted besides mixed devices: waits, dropped results, kept graphs, comparisons, loads, workers."""
