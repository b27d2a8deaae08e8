"""Compiles each `src/ndr/<room>/<name>.cpp` to a plain shared library beside it.

The libraries use no Python and no torch headers, so one build serves every Python and torch version.
A source must not share its name with a Python module beside it: Python would import the library in its place.
Without a compiler the package still installs: each room falls back to its plain implementation.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
# torch's wheel carries libgomp under its ordinary name: whoever is loaded second shares the first one's
# threads, so our loops and torch's use one pool. Contraction to fused multiply-add is the only licence taken.
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-fopenmp"]


class NativeBuildHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        sources = sorted(Path(self.root, "src", "ndr").glob("*/*.cpp"))
        if not compiler or not sys.platform.startswith("linux"):
            self.app.display_warning("ndr: no native build on this machine; the plain implementations will be used")
            return
        for source in sources:
            library = source.with_suffix(SUFFIX)
            unfinished = library.with_suffix(f"{SUFFIX}.{os.getpid()}")
            subprocess.run([compiler, *FLAGS, str(source), "-o", str(unfinished)], check=True)
            unfinished.replace(library)
            build_data["artifacts"].append(str(library.relative_to(self.root)))
        if sources:
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"
