"""Find a Chromium for the browser tests, or install one. As a script: `python tests/view/find_browser.py`.

The order: NDR_CHROMIUM (a path), a Chromium of the system, Playwright's own, then an installation: Debian's package for
root, Playwright's own browser for everybody else.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# A container has neither a GPU nor the kernel features of Chromium's sandbox; the rest keeps it off the network.
LAUNCH = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SYSTEM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class NoBrowser(Exception):
    """Why there is none."""


def find() -> str | None:
    """The path of a browser, if there is one."""
    named = os.environ.get("NDR_CHROMIUM")
    if named:
        if not Path(named).is_file():
            raise NoBrowser(f"NDR_CHROMIUM names {named}, which does not exist")
        return named
    for name in SYSTEM:
        if path := shutil.which(name):
            return path
    # Asked in a process of its own: Playwright's loop would stay in this one.
    code = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    own = asked.stdout.strip()
    return own if own and Path(own).is_file() else None


def install() -> None:
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        commands = [["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]]
    else:
        commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoBrowser(f"{' '.join(command)}: {error}") from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise NoBrowser(f"{' '.join(command)}: {last[-1]}")


def find_or_install() -> str:
    """The path of a browser, or NoBrowser with one sentence."""
    found = find()
    if found is None:
        install()
        found = find()
    if found is None:
        raise NoBrowser("the installation brought no browser")
    return found


if __name__ == "__main__":
    try:
        print(find_or_install())
    except NoBrowser as reason:
        sys.exit(f"no browser: {reason}")
