import json
import re
import subprocess
import sys

import pytest
from small_networks import LISTOPS

from ndr.cli import main


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("ndr: ") and message.count("\n") == 1
    return message


def test_figure_from_a_checkpoint(folders, tmp_path, capsys):
    out = tmp_path / "map.svg"
    main(["figure", str(folders["router"]), "101 d a b", "--out", str(out), "--steps", "0", "6", "--head", "1"])
    # Step 6 is beyond the network's own five, so it is given more.
    assert "head 1, t = 6" in out.read_text()
    assert re.match(r"the network says \d{3} \(right", capsys.readouterr().out)


def test_figures_from_samples(folders, tmp_path, capsys):
    out = tmp_path / "routing.json"
    main(["figure", str(folders["router"]), "--kind", "routing", "--samples", "8", "--out", str(out)])
    assert json.loads(out.read_text())["every"]["operations"] > 8
    main(["figure", str(folders["halting"]), "--kind", "ponder", "--samples", "8", "--out", str(tmp_path / "p.png")])
    assert (tmp_path / "p.png").is_file()


def test_figure_refusals(folders, tmp_path, capsys):
    router, out = folders["router"], tmp_path / "a.png"
    assert "no folder" in refused(capsys, "figure", "nowhere", "101 d", "--out", out)
    assert "at 4" in refused(capsys, "figure", router, "101 x", "--out", out)
    assert "needs a text" in refused(capsys, "figure", router, "--out", out)
    assert "leave the text out" in refused(capsys, "figure", router, "101 d", "--kind", "routing", "--out", out)
    assert "must end in" in refused(capsys, "figure", router, "101 d", "--out", tmp_path / "a.jpeg")
    assert "must end in" in refused(capsys, "figure", router, "--kind", "routing", "--out", tmp_path / "a.gif")
    assert "at least 1" in refused(capsys, "figure", router, "101 d", "--total-steps", "0", "--out", out)
    for kind, network in (("routing", router), ("ponder", folders["halting"])):
        many = ("--kind", kind, "--total-steps", 10**12, "--out", out)
        assert "too much to show" in refused(capsys, "figure", network, *many)
    assert "no step 20000" in refused(capsys, "figure", router, "101 d", "--steps", "20000", "--out", out)
    assert "has none" in refused(capsys, "figure", folders["transformer"], "--kind", "routing", "--out", out)
    assert not out.exists()


def test_export_is_one_file_that_asks_nobody(folders, tmp_path, capsys):
    out = tmp_path / "view.html"
    names = [str(folders["listops"]), str(folders["router"])]
    main(["explore", *names, "--export", str(out), "--text", LISTOPS, "--text", "[MAX 1 2 ]", "--steps", "3"])
    page = out.read_text()
    assert "connect-src" not in page and "default-src 'none'" in page and 'src="' not in page
    data = json.loads(re.search(r'id="recorded">(.*?)</script>', page, re.S)[1])
    assert [record["text"] for record in data["records"][:2]] == [LISTOPS, "[MAX 1 2 ]"]
    assert data["records"][0]["trace"]["steps"] == 3 and "unknown symbol" in data["records"][2]["problem"]


def test_explore_refusals(folders, tmp_path, capsys):
    router = folders["router"]
    assert "must end in .html" in refused(capsys, "explore", router, "--export", tmp_path / "view.txt")
    assert "at 4" in refused(capsys, "explore", router, "--export", tmp_path / "v.html", "--text", "101 x")
    assert "at least 1" in refused(capsys, "explore", router, "--export", tmp_path / "v.html", "--steps", "-1")
    assert "belong to --export" in refused(capsys, "explore", router, "--steps", "3")
    assert "between 0 and 65535" in refused(capsys, "explore", router, "--port", "99999")
    assert "cannot listen" in refused(capsys, "explore", router, "--host", "256.1.1.1")


def test_a_trace_is_made_by_one_thread_and_without_heavy_imports(folders, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    program = f"""
import sys
from ndr.cli import main
main(["explore", {str(folders["router"])!r}, "--export", {str(tmp_path / "view.html")!r}])
import torch
heavy = {{"huggingface_hub", "matplotlib", "lightning_fabric", "sympy", "torch._dynamo", "torch._inductor"}}
print(torch.get_num_threads(), sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "1 []"


def test_a_server_without_networks_ends_with_the_reason(tmp_path):
    # The page is served while the networks are opened, so this needs a process, and a loop, of its own.
    command = [sys.executable, "-m", "ndr", "explore", "nowhere", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith('ndr: there is no folder "nowhere"') and done.stderr.count("\n") == 1


def test_a_port_in_use_is_refused(folders, capsys):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "cannot listen" in refused(capsys, "explore", folders["router"], "--port", port)
