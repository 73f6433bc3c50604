"""What names, annotations and use say of values whose making is not seen."""
