"""Gradients in Python: modes, backward and grad, and checks of gradients."""
