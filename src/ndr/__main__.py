"""`python -m ndr` is `ndr`."""

from ndr.cli import main

main()
