"""The attention operation: one signature, a plain reference, and faster versions that answer to it."""

from ndr.ops.attention import IMPLEMENTATIONS, Attended, geometric_attention

__all__ = ["IMPLEMENTATIONS", "Attended", "geometric_attention"]
