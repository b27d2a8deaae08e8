"""The command `ndr`."""
