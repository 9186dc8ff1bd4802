"""Functions of neural networks that are more than one operator of the table."""
