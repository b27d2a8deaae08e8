"""Everything that reads what others wrote: each makes an input from a random generator and accepts or refuses it."""

import asyncio
import contextlib
import io
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch

from ndr.cli import COMMANDS, main
from ndr.data import open_split
from ndr.data.public import read_listops
from ndr.data.vocabulary import Vocabulary
from ndr.errors import Refusal
from ndr.models import CopyGated, Geometric, NeuralDataRouter, RouterSettings
from ndr.paper import results_page
from ndr.paper.far import read_reaches, summary
from ndr.scale.jobs import jobs_of_file
from ndr.scale.search import named_recipe
from ndr.scale.space import read_search
from ndr.tasks import TASKS, MalformedText, get_task
from ndr.train import load_recipe
from ndr.train.checkpoint import load_checkpoint, save_checkpoint
from ndr.train.folder import RunFolder
from ndr.train.loop import save_network
from ndr.train.open import load_whole
from ndr.train.predict import lines_of
from ndr.view.server import make_app
from ndr.view.studio import Exhibit, Studio

from . import mutate

Parser = Callable[[random.Random], None]
RECIPE = "ctl-forward-ndr-small"
WORDS = [
    *(
        "--split",
        "--seed",
        "--count",
        "--steps",
        "--depths",
        "--set",
        "--out",
        "--kind",
        "--text",
        "--threads",
        "--task",
    ),
    *(
        "--variant",
        "--scale",
        "--rows",
        "--seeds",
        "--total-steps",
        "--panels",
        "--from",
        "--format",
        "--json",
        "--help",
    ),
    *(
        "0",
        "1",
        "3",
        "-1",
        "1.5",
        "99999999999999999999",
        "test",
        "depth-3",
        "auto",
        "out.png",
        "x=1",
        "batch=2",
        "3-5",
    ),
]


def tiny_router() -> NeuralDataRouter:
    task = get_task("ctl-forward")
    torch.manual_seed(3)
    parts = {"width": 8, "steps": 2, "attention": Geometric(heads=2), "update": CopyGated(hidden=8)}
    return NeuralDataRouter(RouterSettings(task=task.name, tokens=task.tokens, answers=task.answers, **parts)).eval()


class Parsers:
    """The parsers and the valid inputs from which hostile ones are made, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.router = tiny_router()
        self.texts = {
            name: [get_task(name).sample(np.random.default_rng(seed), 1 + seed % 5) for seed in range(40)]
            for name in TASKS
        }
        self.pieces = {name: [*get_task(name).tokens, " ", "(", ")", "]"] for name in TASKS}
        self.recipe = load_recipe(RECIPE).model_dump(mode="json")
        save_checkpoint(
            folder / "valid.safetensors",
            {"network.a": torch.ones(2, 3), "b": torch.arange(4)},
            {"progress": {"iteration": 3}},
        )
        self.checkpoint = (folder / "valid.safetensors").read_bytes()
        self.network = folder / "network"
        save_network(self.router.settings, self.router.state_dict(), self.network)
        self.network_files = {path.name: path.read_bytes() for path in self.network.iterdir()}
        split = open_split(get_task("ctl-forward"), "depth-3", count=20, folder=folder / "data")
        assert split.folder is not None
        self.split = split.folder
        self.split_files = {path.name: path.read_bytes() for path in self.split.iterdir()}
        run = RunFolder(folder / "run")
        run.path.mkdir()
        run.begin(load_recipe(RECIPE), 3)
        run.finish({"recipe": self.recipe, "seed": 3, "best": {}})
        self.run = run
        self.run_files = {path.name: path.read_bytes() for path in run.path.glob("*.json")}
        self.app = make_app(Studio([Exhibit("one", self.router, get_task("ctl-forward"))]))
        self.loop = asyncio.new_event_loop()
        network = str(self.network)
        self.commands = [
            ["data", "show", "ctl-forward", "--split", "depth-3", "--count", "20"],
            ["data", "stats", "ctl-forward", "--split", "depth-3", "--count", "20", "--out", "out.svg"],
            ["data", "export", "ctl-forward", "--split", "depth-3", "--count", "20", "--out", "out.csv"],
            ["predict", network, "101 d", "--steps", "3"],
            ["eval", network, "--split", "depth-3", "--count", "20", "--steps", "auto", "--csv", "out.csv"],
            ["figure", network, "101 d", "--kind", "gates", "--steps", "0", "1", "--head", "1", "--out", "out.svg"],
            ["figure", network, "--kind", "routing", "--samples", "3", "--depths", "2", "--out", "out.json"],
            ["explore", network, "--export", "out.html", "--text", "101 d", "--steps", "2"],
            ["explore", network, "--port", "0", "--host", "127.0.0.1"],
            ["train", RECIPE, "--seed", "1", "--set", "batch=2", "--out", "out", "--threads", "1"],
            ["recipes", RECIPE],
            ["grid", RECIPE, "--seeds", "2", "--set", "batch=2", "--dry-run"],
            ["reproduce", "table1", "--rows", "ndr", "--seeds", "1", "--dry-run"],
            ["search", "table10", "--recipe", RECIPE, "--runs", "3", "--objective", "valid=1"],
            *([name] for name in COMMANDS),
        ]

    def expression(self, chance: random.Random) -> None:
        """Texts of every task."""
        name = chance.choice(list(TASKS))
        given = mutate.text(chance, self.texts[name], self.pieces[name])
        task = get_task(name)
        try:
            answer = task.evaluate(given)
        except MalformedText as refused:
            assert 0 <= refused.position <= len(given) and "\n" not in str(refused)
            raise
        root = task.parse(given)
        assert answer in task.answers and (root.value, root.depth) == (answer, task.depth(given))
        assert Vocabulary.of(task).encode(task.tokenize(given))

    def split_name(self, chance: random.Random) -> None:
        """Names of splits, such as depth-9-12,length-100-200."""
        valid = ["depth-20", "depth-9-12,length-100-200", "depth-4,arguments-6-8", "train", "test"]
        name = mutate.text(chance, valid, ["depth", "length", "arguments", "-", ",", "7", "100", "999999"])
        spec = get_task(chance.choice(list(TASKS))).describe(name, chance.choice((None, 1, 50)))
        assert len(spec) > 0

    def recipe_file(self, chance: random.Random) -> None:
        """Recipes as JSON and TOML."""
        if chance.random() < 0.7:
            path = self.folder / "recipe.json"
            said = json.dumps(mutate.record(chance, self.recipe))
            path.write_text(
                said if chance.random() < 0.6 else mutate.text(chance, [said], ["{", "}", "[", '"', ":", ","]),
                errors="replace",
            )
        else:
            path = self.folder / "recipe.toml"
            valid = '[task]\nname = "listops"\n[model]\npreset = "ndr"\nwidth = 16\n[optimiser]\nkind = "muon"\n'
            path.write_text(
                mutate.text(chance, [valid], ["[", "]", "=", '"', "'''", "\n", "task", "model", "1979-05-27"]),
                errors="replace",
            )
        recipe = load_recipe(path)
        place = (self.folder / "runs" / f"{recipe.name}-seed0").resolve()
        assert place.parent == (self.folder / "runs").resolve(), "a recipe chose a folder of its own"

    def override(self, chance: random.Random) -> None:
        """What --set is given."""
        keys = [
            "model.width",
            "model.attention.heads",
            "optimiser.betas",
            "name",
            "task.name",
            "task.seed",
            "steps",
            "columns",
        ]
        given = f"{mutate.text(chance, keys, ['.', 'model', 'task'])}={json.dumps(mutate.value(chance))}"
        load_recipe(RECIPE, [given if chance.random() < 0.8 else mutate.text(chance, [given], ["=", ".", '"'])])

    def grid_file(self, chance: random.Random) -> None:
        """Files of many runs."""
        valid = {
            "seeds": 2,
            "set": {"batch": 7},
            "grid": {"model.width": [8, 16]},
            "runs": [{"recipe": RECIPE, "name": "mine"}],
        }
        path = self.folder / "grid.json"
        path.write_text(json.dumps(mutate.record(chance, valid)), errors="replace")
        jobs = jobs_of_file(path, chance.choice((None, 1)), ())
        assert all("/" not in job.name for job in jobs[:50])

    def search_file(self, chance: random.Random) -> None:
        """Files that say what to search."""
        valid = {
            "recipe": RECIPE,
            "set": {"batch": 7},
            "runs": 3,
            "objective": {"valid": 1.0},
            "space": {
                "optimiser.learning_rate": {"low": 1e-5, "high": 0.1, "log": True},
                "model.steps": {"low": 4, "high": 20, "step": 1},
                "model.width": {"choices": [32, 64]},
                "model.update.hidden": {"choices": [1, 2], "times": "model.width"},
            },
        }
        path = self.folder / "search.json"
        path.write_text(json.dumps(mutate.record(chance, valid)), errors="replace")
        search = read_search(str(path), {})
        # As a trial does: what comes out is a recipe or a refusal.
        trial = optuna.trial.FixedTrial({key: (each.choices or [each.low])[0] for key, each in search.space.items()})
        try:
            chosen = {key: each.suggest(trial, key) for key, each in search.space.items()}
        except ValueError:
            # FixedTrial is stricter than a study: it takes no number that lies between the steps.
            return
        named_recipe(search, chosen, "trial-0000")

    def result_file(self, chance: random.Random) -> None:
        """Results and sweeps of others, as tables and pages take them."""
        score = {"accuracy": 0.5, "count": 9, "depths": {"3": {"accuracy": 0.5, "count": 9}}}
        scores = dict.fromkeys(("iid", "valid", "test"), score)
        valid = {"recipe": self.recipe, "seed": 3, "iterations": 9, "seconds": 1.5, "processor_seconds": None}
        valid |= {"best_iteration": 9, "milestones": {"5": 0.25}, "best": scores, "last": scores, "curve": []}
        folder = self.folder / "results"
        (folder / "depths").mkdir(parents=True, exist_ok=True)
        (folder / f"{RECIPE}-seed3.json").write_text(json.dumps(mutate.record(chance, valid)), errors="replace")
        sweep = {"10": {"accuracy": 0.5, "count": 9, "steps": 7}, "20": {"accuracy": 0.25, "count": 9, "steps": 7}}
        said = mutate.record(chance, sweep) if chance.random() < 0.5 else sweep
        (folder / "depths" / f"{RECIPE}-seed3.json").write_text(json.dumps(said), errors="replace")
        assert results_page(folder)
        assert summary(read_reaches(folder))

    def listops_file(self, chance: random.Random) -> None:
        """The public ListOps files, in both orders."""
        lines = [
            "6\t[MED 4 8 5 [MAX 8 4 9 ] ]",
            "9\t( ( ( [MAX 2 ) 9 ) ] )",
            "4\t[SM 1 3 ]",
            "Source\tTarget",
            "( [MAX 2 ) 9 ]\t9",
        ]
        valid = ["\n".join(chance.sample(lines[:3], 2)) + "\n", "\n".join(lines[3:])]
        path = self.folder / "public.tsv"
        said = mutate.text(chance, valid, ["\t", "\n", "(", ")", "]", "[MAX", "7", "\r\n"]).encode(
            errors="surrogatepass"
        )
        path.write_bytes(said if chance.random() < 0.8 else mutate.content(chance, said or b"\n"))
        assert len(read_listops(path)) > 0

    def checkpoint_file(self, chance: random.Random) -> None:
        """Checkpoints of runs: damaged is None, never a stumble."""
        path = self.folder / "hostile.safetensors"
        path.write_bytes(mutate.content(chance, self.checkpoint))
        found = load_checkpoint(path)
        if found is None:
            raise Refusal("damaged")
        assert found[1] == {"progress": {"iteration": 3}}

    def network_folder(self, chance: random.Random) -> None:
        """A saved network's settings and weights."""
        name = chance.choice(list(self.network_files))
        valid = self.network_files[name]
        hostile = mutate.content(chance, valid)
        if name == "config.json" and chance.random() < 0.7:
            record = json.loads(valid)
            record.pop("checksum")
            hostile = json.dumps(mutate.record(chance, record)).encode()
        with self.damaged(self.network / name, hostile):
            assert isinstance(load_whole(self.network), torch.nn.Module)

    def split_folder(self, chance: random.Random) -> None:
        """A split's arrays and what it says about itself."""
        name = chance.choice(list(self.split_files))
        with self.damaged(self.split / name, mutate.content(chance, self.split_files[name])):
            split = open_split(get_task("ctl-forward"), "depth-3", count=20, folder=self.folder / "data")
            assert len(split.text(0)) and split.batch([0, 19]).tokens.max() < len(split.task.tokens)

    def run_folder(self, chance: random.Random) -> None:
        """What a run wrote about itself."""
        name = chance.choice(list(self.run_files))
        valid = self.run_files[name]
        hostile = (
            mutate.content(chance, valid)
            if chance.random() < 0.5
            else json.dumps(mutate.record(chance, json.loads(valid))).encode()
        )
        with self.damaged(self.run.path / name, hostile):
            self.run.recipe()
            self.run.result()
            self.run.differences()

    @contextlib.contextmanager
    def damaged(self, path: Path, hostile: bytes) -> Any:
        valid = path.read_bytes()
        path.write_bytes(hostile)
        try:
            yield
        finally:
            path.write_bytes(valid)

    def input_line(self, chance: random.Random) -> None:
        """Lines on standard input."""
        said = mutate.text(chance, self.texts["ctl-forward"], ["\n", "\r", "101"]).encode(errors="surrogatepass")
        for line in lines_of(io.TextIOWrapper(io.BytesIO(said), errors="replace")):
            with contextlib.suppress(MalformedText):
                get_task("ctl-forward").evaluate(line)

    def request(self, chance: random.Random) -> None:
        """Requests to the explorer: path, headers and body."""
        path = (
            mutate.text(
                chance, ["/api/trace", "/api/parse", "/api/models", "/", "/page/app.js"], ["/", "..", "%2e", "page"]
            )
            if chance.random() < 0.2
            else chance.choice(("/api/trace", "/api/parse"))
        )
        asked = {
            "model": 0,
            "text": mutate.text(chance, self.texts["ctl-forward"], self.pieces["ctl-forward"]),
            "steps": 2,
        }
        said = json.dumps(mutate.record(chance, asked) if chance.random() < 0.4 else asked).encode()
        body = said if chance.random() < 0.8 else mutate.content(chance, said)
        headers = {"host": "localhost", "content-type": "application/json"}
        if chance.random() < 0.2:
            name = chance.choice(("host", "content-type", "origin", "content-length", "accept", "transfer-encoding"))
            headers[name] = chance.choice(mutate.STRANGE)
        method = chance.choice((*["POST"] * 16, "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "\x00"))
        status = self.loop.run_until_complete(ask(self.app, method, path, headers, body))
        assert status < 500, status
        if status >= 400:
            raise Refusal(str(status))

    def arguments(self, chance: random.Random) -> None:
        """Words on the command line. What would take long is replaced by a refusal."""
        words = list(chance.choice(self.commands))
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            place = chance.randrange(len(words) + 1)
            words[place : place + chance.randrange(2)] = [
                chance.choice(WORDS if chance.random() < 0.6 else mutate.STRANGE)
            ]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                main(words)
            except SystemExit as left:
                assert left.code in (0, 1, 2, None) and "Traceback" not in said.getvalue(), left.code
                if left.code:
                    raise Refusal(said.getvalue()) from None


async def ask(app: Any, method: str, path: str, headers: dict[str, str], body: bytes) -> int:
    """The status of an answer, without a server in between."""
    status = 0
    told = False

    async def receive() -> dict[str, Any]:
        nonlocal told
        if told:
            return {"type": "http.disconnect"}
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    raw = [(name.encode(), value.encode(errors="replace")) for name, value in headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(errors="replace"),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": raw,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    return status


def refuse_long_work() -> None:
    """Training, making splits and serving begin only after every argument was read: there the fuzzing ends."""
    import ndr.bench.commands
    import ndr.data.store
    import ndr.demo
    import ndr.scale.grid
    import ndr.scale.search
    import ndr.train.loop
    import ndr.view.commands
    import ndr.view.server

    def too_long(*_: object, **__: object) -> None:
        raise Refusal("this would take long")

    places = [
        (ndr.train.loop, "train"),
        (ndr.data.store, "make"),
        (ndr.scale.grid, "run_grid"),
        (ndr.scale.search, "run_search"),
    ]
    places += [(ndr.view.server, "serve"), (ndr.demo, "demo"), (ndr.bench.commands, "bench")]
    for module, name in places:
        signature = getattr(module, name)
        stub = too_long if name not in ("demo", "bench") else refusing_like(signature)
        setattr(module, name, stub)
    os.environ["NDR_DATA"] = "data"


def refusing_like(real: Callable[..., Any]) -> Callable[..., None]:
    """A command with the arguments of another that only refuses."""
    import functools

    @functools.wraps(real)
    def stub(*_: object, **__: object) -> None:
        raise Refusal("this would take long")

    return stub


# Of a million inputs, so many go to each: the quick ones get most.
SHARES: dict[str, int] = {
    "expression": 550_000,
    "split_name": 80_000,
    "recipe_file": 80_000,
    "override": 30_000,
    "grid_file": 10_000,
    "search_file": 5_000,
    "result_file": 5_000,
    "listops_file": 80_000,
    "checkpoint_file": 50_000,
    "network_folder": 15_000,
    "split_folder": 25_000,
    "run_folder": 25_000,
    "input_line": 20_000,
    "request": 24_000,
    "arguments": 2_000,
}
