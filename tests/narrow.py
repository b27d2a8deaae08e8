"""The networks of the paper with few channels, where something else than width is under test."""


def narrow(settings, width=6, heads=2, steps=3):
    """The same network with few channels; the sizes under test are those that are given."""
    if settings.kind == "router":
        attention = settings.attention.model_copy(update={"heads": heads})
        update = settings.update.model_copy(update={"hidden": 7})
        sizes = {"width": width, "steps": steps, "test_steps": None, "attention": attention, "update": update}
    elif settings.kind == "recurrent":
        sizes = {"hidden": 2 * width, "embedding": width}
    else:
        sizes = {"hidden": width, "embedding": width, "cells": 3, "reads": 1}
    # Through validation: what is built here must be legal.
    return type(settings).model_validate(settings.model_dump() | {k: dump(v) for k, v in sizes.items()})


def dump(value):
    return value.model_dump() if hasattr(value, "model_dump") else value
