"""Facts of torch, of the frameworks around it and of other libraries, and the values of their names."""
