"""Functions that are made of operators, by the module of chx that they are in."""

from . import arranging, averages, calculus, choosing, forms, padding

__all__ = ["arranging", "averages", "calculus", "choosing", "forms", "padding"]
