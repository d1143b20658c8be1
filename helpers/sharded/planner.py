"""How long a step takes, and how much memory a rank needs, for a model split in a given way.

A step is m + p − 1 slots of a pipeline (m micro-batches, p stages; the slowest stage sets the
pace), each of arithmetic and of what tensor ranks and stages say to each other, and then what
replicas say. A message of b bytes takes α + b·β on the link that its ranks share; where s groups of
an axis cross the same link at once, each has 1/s of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from helpers.collectives.cost import Link
from helpers.models.transformer import Config
from helpers.sharded import counts
from helpers.sharded.arrays import cut_dimension
from helpers.sharded.counts import flops
from helpers.sharded.hybrid import stage_pieces
from helpers.sharded.mesh import Layout
from helpers.sharded.zero import FLOAT32, at_rest


@dataclass(frozen=True)
class Machine:
    """Where ranks run."""

    speed: float  #: operations in a second, of each rank
    inside: Link  #: what joins ranks of one host
    between: Link  #: what joins hosts
    places: tuple[int, ...]  #: the host of each rank
    memory: float = float("inf")  #: bytes of a rank


@dataclass(frozen=True)
class Plan:
    """What a layout is predicted to need: seconds of a step, and bytes of the fullest rank."""

    layout: Layout
    compute: float
    tensor: float  # messages of this axis, as of the next two
    pipeline: float
    data: float
    bubble: float  # slots in which the slowest stage waits
    memory: float

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.compute + self.tensor + self.pipeline + self.data + self.bubble


def stage_parameters(config: Config, pieces: range, tensor: int) -> int:
    """Count the parameters of one rank's ``pieces``: its own, and what its tensor ranks have too.

    ``tensor`` ranks share each matrix.
    """
    C, V = config.width, config.vocabulary
    shapes: dict[str, list[tuple[str, int]]] = {
        "embedding": [("0.token.weight", V * C), ("0.position.weight", config.context * C)],
        "head": [("9.norm.weight", 2 * C), ("9.scores.weight", V * C)],
        "block": [("1.first_norm.weight", 4 * C)]
        + [(f"1.attention.{n}.weight", C * C + C) for n in ("query", "key", "value")]
        + [("1.attention.out.weight", C * C), ("1.attention.out.bias", C)]
        + [("1.perceptron.up.weight", 4 * C * C + 4 * C)]
        + [("1.perceptron.down.weight", 4 * C * C), ("1.perceptron.down.bias", C)],
    }
    total = 0
    for piece in pieces:
        kind = "embedding" if piece == 0 else "head" if piece == config.layers + 1 else "block"
        for name, count in shapes[kind]:
            total += count // (1 if cut_dimension(name) is None else tensor)
    return total


def activations(config: Config, pieces: range, tensor: int, sequences: int) -> float:
    """Count the numbers that a forward pass keeps for the backward pass.

    A block keeps 10 T C for each sequence that every tensor rank has (its input, what norms and the
    ends of pairs give), and of each rank's own part 4 T C of queries, keys, values and their mix,
    8 T C of the perceptron, and nothing of T²: scores are computed again (Korthikanti et al., 2022,
    equation 2, in float32 and without dropout).
    """
    T, C = config.context, config.width
    blocks = sum(1 for piece in pieces if 1 <= piece <= config.layers)
    kept = blocks * (10 + 12 / tensor) * T * C
    if config.layers + 1 in pieces:
        kept += 2 * T * C + 2 * T * config.vocabulary / tensor
    return kept * sequences


def predict(config: Config, layout: Layout, machine: Machine, batch: int, micro: int = 1) -> Plan:
    """Predict the seconds and bytes of a step.

    Parameters
    ----------
    batch
        Sequences of all replicas.
    micro
        Micro-batches of each replica.

    Raises
    ------
    ValueError
        If the layout does not divide the batch or the model, or is for another number of ranks.
    """
    d, p, t = layout.data, layout.pipeline, layout.tensor
    if len(machine.places) != layout.ranks:
        raise ValueError(f"{layout} has {layout.ranks} ranks; the machine {len(machine.places)}")
    if batch % (d * micro) or config.heads % t or config.vocabulary % t or p > config.layers:
        raise ValueError(f"{layout}, {micro} micro-batches: does not divide {batch=}, {config}")
    rows, size, T, C = batch // (d * micro), int(FLOAT32.parameter), config.context, config.width
    cut = stage_pieces(config, p)
    slowest = max(cut, key=lambda pieces: flops(config, pieces, rows, T))
    work = 3 * flops(config, slowest, rows, T) / t / machine.speed
    blocks = sum(1 for piece in slowest if 1 <= piece <= config.layers)
    # as counts.tensor: 4 allreduces a block; the embedding's, the head's and the loss's once
    stream = counts.all_reduce(rows * T * C, t, size)
    ends = stream.times(2) + counts.all_reduce(rows * T, t, size)
    ends += counts.all_reduce(2 * rows * T, t, size)
    edge = 1 if p > 1 else 2  # of the two ends; a stage has one of them, or both
    talk = stream.times(4 * blocks) + counts.Sent(ends.messages * edge // 2, ends.bytes * edge / 2)
    said = _seconds(talk, "tensor", layout, machine)
    handed = _seconds(counts.Sent(2, 2 * rows * T * C * size), "pipeline", layout, machine)
    handed = handed if p > 1 else 0.0
    slot = work + said + handed
    most = max(stage_parameters(config, pieces, t) for pieces in cut)
    volume = counts.half(most, d, size).times(3 if layout.shard == 3 else 2)
    rest = at_rest(layout.shard, d).total
    alive = micro * rows  # GPipe: all forwards first
    kept = max(activations(config, pieces, t, alive) for pieces in cut)
    return Plan(
        layout,
        compute=micro * work,
        tensor=micro * said,
        pipeline=micro * handed,
        data=_seconds(volume, "data", layout, machine) if d > 1 else 0.0,
        bubble=(p - 1) * slot,
        memory=most * rest + kept * size,
    )


def least(config: Config, layout: Layout, machine: Machine, batch: int, micro: int = 1) -> float:
    """Return the seconds of a step in which all that can overlap does, in the same units.

    :func:`predict` counts more for a pipeline: it takes the slowest stage's time for every stage;
    no message between stages travels while its sender computes the next micro-batch; and gradients
    wait until all stages are done, although the last stage has its own before the first.
    """
    plan = predict(config, layout, machine, batch, micro)
    d, p, t = layout.data, layout.pipeline, layout.tensor
    rows = batch // (d * micro)
    work = [3 * flops(config, pieces, rows, config.context) / t / machine.speed
            for pieces in stage_pieces(config, p)]  # fmt: skip
    uneven = p * max(work) - sum(work)
    # from the end of the last stage's backward pass to the end of the first stage's
    early = sum(work[:-1]) * 2 / 3 + (p - 1) * (plan.tensor + plan.pipeline) / micro / 2
    shared = bool(groups_per_link(layout, "data", machine.places))
    gradients = min(early, plan.data * (p - 1) / p) if shared else 0.0  # the first stage's are last
    return plan.seconds - uneven - plan.pipeline - gradients


def plans(
    config: Config, machine: Machine, batch: int, micro: Sequence[int] = (1, 2, 4)
) -> list[tuple[Plan, int]]:
    """Predict every layout that fits in memory, and its micro-batches, the fastest first."""
    ranks, found = len(machine.places), []
    for d in range(1, ranks + 1):
        for p in range(1, ranks // d + 1):
            if ranks % (d * p):
                continue
            for shard in (0, 1) if d > 1 else (0,):
                for m in micro:
                    layout = Layout(d, p, ranks // (d * p), shard)
                    try:
                        plan = predict(config, layout, machine, batch, m)
                    except ValueError:
                        continue
                    if plan.memory <= machine.memory:
                        found.append((plan, m))
    return sorted(found, key=lambda pair: pair[0].seconds)


def groups_per_link(layout: Layout, axis: str, places: Sequence[int]) -> int:
    """Return how many groups of an axis share a host's link; 0 if none leaves its host."""
    loads: dict[int, int] = {}
    for group in layout.groups(axis):
        for rank, right in zip(group, [*group[1:], group[0]], strict=True):
            if places[rank] != places[right]:
                loads[places[rank]] = loads.get(places[rank], 0) + 1
    return max(loads.values(), default=0)


def _seconds(sent: counts.Sent, axis: str, layout: Layout, machine: Machine) -> float:
    """What an axis's messages take, one after another."""
    sharing = groups_per_link(layout, axis, machine.places)
    link = machine.between if sharing else machine.inside
    return sent.messages * link.alpha + sent.bytes * link.beta * max(1, sharing)
