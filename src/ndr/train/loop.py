"""One run, from recipe to result."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch.nn.functional import cross_entropy, mse_loss
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ndr.data import Split, open_split
from ndr.errors import Refusal, out_of_memory, require
from ndr.models import NeuralDataRouter
from ndr.models.network import Network, build
from ndr.models.settings import CopyGated, Texts
from ndr.nn import CopyGate, CrispSigmoid, GeometricAttention
from ndr.tasks import Task
from ndr.train.checkpoint import checksum, seal, write_json, write_whole
from ndr.train.evaluate import Score, evaluate
from ndr.train.folder import Holding, RunFolder
from ndr.train.memory import check_memory
from ndr.train.open import load_best, open_network
from ndr.train.optimise import build_optimisers, optimiser_tensors, rate_at, restore_optimisers, set_rate
from ndr.train.recipe import Recipe
from ndr.train.report import Report
from ndr.train.sampling import (
    Pace,
    Place,
    pace_at,
    place_at,
    pool_at,
    schedule,
    seed_device,
    sizes_of,
    surround,
    torch_seed,
    wake_inside,
    wake_late,
)

SAVE_SECONDS = 60.0


@dataclass
class Progress:
    """Where a run stands: everything besides weights and optimiser that the next iteration depends on."""

    iteration: int = 0
    seconds: float = 0.0
    processor_seconds: float | None = 0.0
    """over all threads, whatever else the machine does; unknown for runs begun by a version that did not count them"""
    best_iteration: int = 0
    best_valid: float = -1.0
    perfect_in_a_row: int = 0
    level: int = 0
    """of the curriculum, and the running accuracy there"""
    solved: float = 0.0
    reached: int | None = None
    """the iteration at which the curriculum came to its end"""
    milestones: dict[str, float] = field(default_factory=dict)


def train(
    recipe: Recipe,
    seed: int,
    out: Path | str,
    *,
    task: Task | None = None,
    data: Path | None = None,
    devices: int = 1,
    nodes: int = 1,
    accelerator: str = "auto",
    loggers: tuple[str, ...] = ("tensorboard",),
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run a recipe with a seed into its folder; continue it where it stopped; return the result if it has one.

    `task` stands in for the recipe's own when it is not one of the package's. `watch` is told of each evaluation.
    """
    if not 0 <= seed < 2**63:
        raise Refusal(f"a seed lies between 0 and {2**63 - 1}, not {seed}")
    fabric = start_engine(recipe, devices, nodes, accelerator)
    if fabric.world_size > recipe.batch:
        raise Refusal(f"a batch of {recipe.batch} cannot be shared by {fabric.world_size} devices")
    return continue_run(recipe, seed, RunFolder(Path(out)), fabric, task or recipe.open_task(), data, loggers, watch)


def continue_run(
    recipe: Recipe,
    seed: int,
    folder: RunFolder,
    fabric: Any,
    task: Task,
    data: Path | None,
    loggers: tuple[str, ...],
    watch: Callable[[dict[str, Any]], None] | None,
) -> dict[str, Any]:
    """The run in this folder, after the one that it begins with, if there is one."""
    trained, before = recipe.start, recipe.before()
    if before is not None and not folder.is_under_way():
        if before.task.name != task.name:
            before = before.on_task(task)
        first = RunFolder(folder.path.with_name(f"{before.name}-seed{seed}"))
        continue_run(before, seed, first, fabric, task, data, loggers, watch)
        trained = str(first.path)
    if watch is not None and recipe.iterations_before:
        watch = counted_on(watch, recipe.iterations_before)
    with Holding(folder.path) if fabric.global_rank == 0 else nullcontext():
        if fabric.global_rank == 0:
            folder.begin(recipe, seed)
        fabric.barrier()
        finished = folder.result()
        if finished is not None:
            return finished
        with Report(folder, recipe, loggers if fabric.global_rank == 0 else None, watch) as report:
            return run(recipe, seed, trained, folder, fabric, report, task, data)


def counted_on(watch: Callable[[dict[str, Any]], None], before: int) -> Callable[[dict[str, Any]], None]:
    """Tells of iterations as if those before belonged to the same run."""
    return lambda row: watch({**row, "iteration": row["iteration"] + before})


def run(
    recipe: Recipe,
    seed: int,
    trained: str | None,
    folder: RunFolder,
    fabric: Any,
    report: Report,
    task: Task,
    data: Path | None,
) -> dict[str, Any]:
    """The whole story: build or restore, learn, look, keep, and at the end test what was kept."""
    splits = {
        name: open_split(task, name, seed=recipe.task.seed, folder=data) for name in ("train", "iid", "valid", "test")
    }
    check_memory(recipe, int(splits["train"].lengths.min()), fabric.device)
    torch.manual_seed(torch_seed(seed, 0, 0))
    network = build(recipe.model)
    if trained is not None and not folder.is_under_way():
        begin_with(network, trained)
    lab = Lab(recipe, folder, fabric, report, network, splits)
    progress = lab.restore()
    samples = schedule(recipe, splits["train"], lab.sizes, seed)
    saved = time.monotonic()
    report.begin(progress.iteration)
    try:
        while progress.iteration < recipe.iterations and not lab.satisfied(progress):
            began, began_work = time.perf_counter(), time.process_time()
            seed_device(torch_seed(seed, progress.iteration, fabric.global_rank), fabric.device)
            start = recipe.phases_start(progress.reached)
            pool = pool_at(recipe, progress.iteration, start)
            indices = samples(progress.iteration, progress.level, pool)
            depth = int(splits["train"].depths[indices].max())
            length = int(lab.lengths[indices].max())
            pace = pace_at(recipe, seed, progress.iteration, depth, length, start)
            place = place_at(recipe, seed, progress.iteration)
            loss, accuracy = lab.learn(indices, progress.iteration, pace, start, place, pool)
            if pace.sleep is None and not pace.late:
                lab.grow(progress, indices, accuracy)
            progress.iteration += 1
            progress.seconds += time.perf_counter() - began
            if progress.processor_seconds is not None:
                progress.processor_seconds += time.process_time() - began_work
            report.step(progress.iteration, loss)
            if progress.iteration % recipe.evaluate_every == 0 or progress.iteration == recipe.iterations:
                lab.look(progress)
                lab.save(progress)
                saved = time.monotonic()
            elif time.monotonic() - saved > SAVE_SECONDS:
                lab.save(progress)
                saved = time.monotonic()
    except KeyboardInterrupt:
        lab.save(progress)
        raise Refusal(
            f"stopped at iteration {progress.iteration}; the same command goes on from there ({folder.path})"
        ) from None
    return lab.finish(progress, seed)


class Lab:
    """A network in training, with its optimisers, its data and its folder."""

    def __init__(
        self, recipe: Recipe, folder: RunFolder, fabric: Any, report: Report, network: Network, splits: dict[str, Split]
    ) -> None:
        self.recipe, self.folder, self.fabric, self.report, self.splits = recipe, folder, fabric, report, splits
        # Gradient scaling and fused steps do not go together.
        optimisers = build_optimisers(network, recipe.optimiser, fused=recipe.precision != "16-mixed")
        self.network = network
        compiled = torch.compile(network) if recipe.compile else network
        self.model, *self.optimisers = fabric.setup(compiled, *optimisers)
        if isinstance(network, NeuralDataRouter):
            self.model.mark_forward_method("classify")
        self.lengths = np.asarray(splits["train"].lengths)
        self.sizes = sizes_of(recipe, splits["train"])
        self.ladder = np.unique(self.sizes)
        self.best: dict[str, torch.Tensor] = {}
        halts = isinstance(network, NeuralDataRouter) and network.settings.halting is not None
        self.cost_weight = recipe.ponder if halts else recipe.thrift
        linger = recipe.steps.linger if recipe.steps else None
        self.rest_weight = linger.rest if linger else 0.0
        self.brackets = brackets_of(splits["train"].task, fabric.device) if linger and linger.inside else None
        memory = recipe.optimiser.averaging
        self.average = None if memory is None else averaged(network, memory)
        self.stretched: list[tuple[Any, float]] = [
            (part, part.stretch) for part in network.modules() if isinstance(part, GeometricAttention | CrispSigmoid)
        ]

    @property
    def evaluated(self) -> Network:
        """The network that is judged and kept: the average if there is one."""
        network = self.network if self.average is None else self.average.module
        assert isinstance(network, Network)
        return network

    def learn(
        self,
        indices: Any,
        iteration: int,
        pace: Pace,
        start: int = 0,
        place: Place | None = None,
        pool: int = 1,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """One iteration: forward, backward, clip, step. The loss and, if a curriculum asks for it, the accuracy.

        If `pool` times as many samples as a batch holds are given, it learns from those with the highest losses.
        """
        recipe, rank, world = self.recipe, self.fabric.global_rank, self.fabric.world_size
        share = indices[rank::world]
        batch = self.splits["train"].batch(share)
        tokens, answers = batch.tokens.to(self.fabric.device), batch.answers.to(self.fabric.device)
        lengths = None if batch.lengths is None else batch.lengths.to(self.fabric.device)
        if not self.model.training:
            self.model.train()
        if recipe.sharpening:
            self.sharpen(recipe.sharpening.share((iteration - start) / max(recipe.iterations - start, 1)))
        if isinstance(self.network, NeuralDataRouter):
            put_to_sleep(self.network, pace.sleep)
            ask, inner = None, tokens
            if place is not None:
                tokens, ask = surround(tokens, place, len(self.network.settings.tokens))
            if pool > 1:
                with torch.no_grad():
                    scores = self.model.classify(tokens, lengths, steps=pace.steps, ask=ask).scores
                looked_at = scores.float(), answers
                hardest = cross_entropy(*looked_at, reduction="none").topk(len(answers) // pool).indices
                tokens, answers, inner = tokens[hardest], answers[hardest], inner[hardest]
            wake = self.wake(pace.late, tokens, inner, place) if pace.late else None
            logits, cost, read = self.model.classify(
                tokens, lengths, steps=pace.steps, ask=ask, wake=wake, rest=pace.rest
            )
        else:
            logits, cost, read = self.model(tokens, lengths), None, None
        loss = total = cross_entropy(logits.float(), answers)
        weight = self.rest_weight if pace.rest else self.cost_weight
        if cost is not None and weight:
            total = total + weight * cost
        if recipe.likeness and isinstance(self.network, NeuralDataRouter):
            total = total + recipe.likeness * mse_loss(read, self.network.embed_answers(answers))
        # Gradients are averaged over the processes; shares may differ in size by one.
        self.fabric.backward(total if world == 1 else total * (len(share) * world / len(indices)))
        set_rate(self.optimisers, rate_at(iteration, recipe.iterations, recipe.optimiser, start))
        if recipe.optimiser.clip is not None:
            self.fabric.clip_gradients(self.model, self.optimisers[0], max_norm=recipe.optimiser.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.network)
        if pool > 1:
            logits, answers = looked_at
            loss = cross_entropy(logits, answers)
        if recipe.curriculum is None:
            return loss.detach(), None
        accuracy = (logits.argmax(-1) == answers).float().mean()
        return loss.detach(), accuracy if world == 1 else self.fabric.all_reduce(accuracy)

    def wake(self, step: int, tokens: torch.Tensor, problem: torch.Tensor, place: Place | None) -> torch.Tensor:
        """The step at which each column wakes up, B and E and the problem's surroundings included."""
        framed = (len(tokens), tokens.shape[1] + 2)
        if self.brackets is None:
            return wake_late(framed, step, tokens.device)
        wake = torch.zeros(framed, dtype=torch.int32, device=tokens.device)
        first = 1 + (place.left if place else 0)
        wake[:, first : first + problem.shape[1]] = wake_inside(problem, *self.brackets, step)
        return wake

    def grow(self, progress: Progress, indices: Any, accuracy: torch.Tensor | None) -> None:
        """Let the next size in once the newest is solved."""
        if accuracy is None or progress.level >= len(self.ladder) - 1:
            return
        if self.sizes[indices[0]] != self.ladder[progress.level]:
            return
        progress.solved += 0.05 * (float(accuracy) - progress.solved)
        if self.recipe.curriculum and progress.solved > self.recipe.curriculum.solved:
            progress.level, progress.solved = progress.level + 1, 0.0
            if progress.level == len(self.ladder) - 1:
                progress.reached = progress.iteration

    def sharpen(self, share: float) -> None:
        """Take this share of the stretches that the settings ask for."""
        for part, stretch in self.stretched:
            part.stretch = share * stretch

    def look(self, progress: Progress) -> None:
        """Evaluate on iid and valid; keep the network if it is the best on valid so far, the latest on ties."""
        self.report.check_finite(progress.iteration)
        self.sharpen(1.0)
        scores = {name: evaluate(self.evaluated, self.splits[name]) for name in ("iid", "valid")}
        valid = scores["valid"].accuracy
        perfect = min(score.accuracy for score in scores.values()) == 1.0
        progress.perfect_in_a_row = progress.perfect_in_a_row + 1 if perfect else 0
        if valid >= progress.best_valid:
            progress.best_valid, progress.best_iteration = valid, progress.iteration
            self.keep()
        if progress.iteration in self.recipe.milestones:
            progress.milestones[str(progress.iteration)] = evaluate(self.kept(), self.splits["test"]).accuracy
        self.report.evaluated(progress.iteration, progress.seconds, scores)

    def satisfied(self, progress: Progress) -> bool:
        wanted = self.recipe.stop_when_perfect
        return wanted is not None and progress.perfect_in_a_row >= wanted

    def keep(self) -> None:
        self.best = {name: value.detach().cpu().clone() for name, value in self.evaluated.state_dict().items()}
        self.write_best()

    def write_best(self) -> None:
        if self.fabric.global_rank == 0 and self.best:
            save_network(self.network.settings, self.best, self.folder.best, self.folder.mark())

    def kept(self) -> Network:
        self.fabric.barrier()
        return load_best(self.folder).to(self.fabric.device)

    def save(self, progress: Progress) -> None:
        self.report.check_finite(progress.iteration)
        if self.fabric.global_rank:
            return
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        if self.average is not None:
            tensors |= {f"average.{name}": value for name, value in self.average.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors |= optimiser_tensors(self.optimisers)
        self.folder.save(tensors, {"progress": asdict(progress), "curve": self.report.curve})

    def restore(self) -> Progress:
        """Go on from the newest whole checkpoint, or from the beginning."""
        found = self.folder.restore()
        if found is None:
            self.report.go_on_with([])
            return Progress()
        tensors, state = found
        try:
            self.network.load_state_dict(part_of(tensors, "network."))
            if self.average is not None:
                self.average.load_state_dict(part_of(tensors, "average."))
            restore_optimisers(self.optimisers, tensors)
            progress = Progress(**{"processor_seconds": None, **state["progress"]})
            progress = TypeAdapter(Progress).validate_python(asdict(progress))
            self.report.go_on_with(state.get("curve") or self.report.noted(progress.iteration))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            raise (
                error
                if isinstance(error, Refusal) or out_of_memory(error)
                else Refusal(
                    f"the checkpoints in {self.folder.path} do not fit this run; remove them and it begins again"
                )
            ) from error
        # The best network stands in the checkpoint too, so that no damage to its own folder loses it.
        self.best = part_of(tensors, "best.")
        self.write_best()
        return progress

    def finish(self, progress: Progress, seed: int) -> dict[str, Any]:
        """Test the kept network, once, and write the result."""
        best = self.kept()
        scores: dict[str, dict[str, Score]] = {
            "best": {name: evaluate(best, self.splits[name]) for name in ("iid", "valid", "test")},
            # Table 4 of the paper reports the last network, without selection.
            "last": {name: evaluate(self.evaluated, self.splits[name]) for name in ("iid", "valid", "test")},
        }
        result = {
            "recipe": self.recipe.model_dump(mode="json"),
            "seed": seed,
            "iterations": progress.iteration,
            "seconds": round(progress.seconds, 1),
            "processor_seconds": None if progress.processor_seconds is None else round(progress.processor_seconds, 1),
            "best_iteration": progress.best_iteration,
            "milestones": progress.milestones,
            **{which: {name: score.record() for name, score in each.items()} for which, each in scores.items()},
            "curve": self.report.curve,
        }
        if self.fabric.global_rank == 0:
            self.report.finish(result)
            self.folder.finish(result)
        return result


def brackets_of(task: Task, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens that begin, and those that end, a problem within a problem."""
    opening, closing = ([task.tokens.index(token) for token in side] for side in task.brackets)
    if not opening or not closing:
        raise Refusal(f"{task.name} does not say which tokens begin and end a problem inside, so none can be late")
    return torch.tensor(opening, device=device), torch.tensor(closing, device=device)


def begin_with(network: Network, trained: str) -> None:
    """Give the network the weights of a trained one, which must be as large and know the same tokens and answers."""
    other, own = open_network(trained).network, network.settings
    if (other.settings.tokens, other.settings.answers) != (own.tokens, own.answers):
        raise Refusal(f"a run on this task cannot begin with {trained}, which knows other tokens or answers")
    try:
        network.load_state_dict(other.state_dict())
    except RuntimeError as error:
        raise Refusal(f"a run cannot begin with {trained}, whose weights have other names or sizes") from error


def put_to_sleep(network: NeuralDataRouter, chance: float | None) -> None:
    """Let columns sleep through steps with this chance, or with that of the settings."""
    update, settings = network.encoder.layer.update, network.settings.update
    if isinstance(update, CopyGate) and isinstance(settings, CopyGated):
        update.gate_dropout = settings.gate_dropout if chance is None else chance


def start_engine(recipe: Recipe, devices: int, nodes: int, accelerator: str) -> Any:
    """Lightning Fabric: devices, precision and data-parallel training."""
    if devices < 1 or nodes < 1:
        raise Refusal(f"a run needs at least one device on one node, not {devices} on {nodes}")
    engine = require("lightning_fabric", "train")
    try:
        fabric = engine.Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy="ddp" if devices * nodes > 1 else "auto",
            # Half precision is for GPUs; on a CPU the same recipe runs in float32.
            precision="32-true" if on_cpu(accelerator) else recipe.precision,
        )
    except (ValueError, RuntimeError, engine.utilities.exceptions.MisconfigurationException) as error:
        raise Refusal(f"this machine cannot train so: {' '.join(str(error).split())[:300]}") from error
    fabric.launch()
    return fabric


def on_cpu(accelerator: str) -> bool:
    return accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())


def save_network(settings: Texts, weights: dict[str, torch.Tensor], folder: Path, mark: str | None = None) -> None:
    """A folder that `from_pretrained` reads; its files are replaced in one piece each, under a checksum."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", seal({"settings": settings.model_dump(mode="json")}))
    plain = {name: value.contiguous() for name, value in weights.items()}
    write_whole(folder / "model.safetensors", save(plain, {"checksum": checksum(plain), "run": mark or ""}))


def averaged(network: Network, memory: float) -> AveragedModel:
    """An exponential average of the weights over iterations."""
    average = get_ema_multi_avg_fn(memory)  # type: ignore[no-untyped-call]
    return AveragedModel(network, multi_avg_fn=average, use_buffers=True)


def part_of(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
