"""The Neural Data Router: a library of its parts, and the lab around them."""

__version__ = "0.1.0"
