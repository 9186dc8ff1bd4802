"""NumPy's routines, in files named after the chapters of its reference. chx/__init__.py exports them."""
