"""How long the explorer takes from the command to its first drawn trace, against `import torch` alone.

    python benchmarks/bench_view.py                       # all shipped networks
    python benchmarks/bench_view.py ndr-listops-small     # this one

The browser is open already; the page itself notes when it has been drawn. Seconds depend on what else the machine does.
"""

import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "view"))
from find_browser import LAUNCH, find_or_install

TIMES = 5
DRAWN = ".panel .score svg"
NOTE_WHEN_DRAWN = f"""new MutationObserver(() => {{
    if (window.drawn || !document.querySelector("{DRAWN}")) return;
    requestAnimationFrame(() => {{ window.drawn = performance.timeOrigin + performance.now() }});
}}).observe(document, {{ childList: true, subtree: true }})"""


def first_view(page: Page, networks: list[str]) -> tuple[float, float]:
    """Seconds until the page answers, and until its first trace is drawn."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    began = time.time()
    words = [str(Path(sys.executable).with_name("ndr")), "explore", *networks, "--port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            while True:
                try:
                    urlopen(address).read()
                    break
                except URLError:
                    time.sleep(0.01)
            answered = time.time() - began
            page.goto(address, wait_until="commit")
            page.wait_for_selector(DRAWN)
            # The selector is looked for seldom; the page noted the moment itself, at its next frame.
            page.wait_for_timeout(100)
            return answered, page.evaluate("window.drawn") / 1000 - began
        finally:
            server.terminate()


def seconds_to_import() -> float:
    began = time.time()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.time() - began


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_or_install(), args=list(LAUNCH))
        page = browser.new_page()
        page.add_init_script(NOTE_WHEN_DRAWN)
        views = [first_view(page, sys.argv[1:]) for _ in range(TIMES)]
        browser.close()
    imports = median(seconds_to_import() for _ in range(TIMES))
    answered, drawn = zip(*views, strict=True)
    for what, seconds in (("the page answers after", answered), ("its first trace is drawn after", drawn)):
        each = ", ".join(f"{one:.2f}" for one in seconds)
        print(f"{what} {median(seconds):.2f} s (median of {each}), {median(seconds) / imports:.2f} times import torch")


if __name__ == "__main__":
    main()
