"""The players without an install: what they compute is what the libraries say, and they play."""

import random

import pytest

from helpers.collectives import ALGORITHMS, cost
from helpers.collectives.cost import Link
from helpers.models.transformer import Config
from helpers.pipeline import Costs, families, simulate
from helpers.plots.web.page import EXPORT
from helpers.sharded import planner
from tools.site import instant

FEW = (4, 5, 16)  # ranks of collectives, in these tests
BODY = '<!doctype html><meta name="viewport" content="width=device-width"><title>x</title>'
SET = """([name, value]) => {
    const input = document.querySelector(`[data-name="${name}"]`);
    input.value = value;
    for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind));
}"""


@pytest.fixture(scope="module")
def data():
    return {
        "collectives": instant.collectives(FEW),
        "pipelines": instant.pipelines((3, 4, 8), (1, 8, 16)),
        "planner": instant.planner(),
    }


@pytest.fixture(scope="module")
def compute(browser):
    """``compute(name, *arguments)`` calls a function of ``arithmetic.js``."""
    page = browser.new_page()
    text = (instant.HERE / "arithmetic.js").read_text("utf-8")
    page.add_script_tag(content=EXPORT.sub("", text))
    yield lambda name, *given: page.evaluate(f"given => {name}(...given)", given)
    page.close()


def test_steps_bytes_and_seconds_of_collectives_are_the_librarys(data, compute):
    choose = random.Random(1)
    for one in choose.sample(data["collectives"]["plans"], 24):
        name, ranks, pieces = (one[key] for key in ("name", "ranks", "pieces"))
        plan, size = instant.plan(name, ranks, pieces), choose.choice((8e3, 1e6, 3e8))
        link = Link("", choose.uniform(0, 1e-4), choose.uniform(1e-11, 1e-8))
        said = compute("summary", one, {"alpha": link.alpha, "beta": link.beta}, size)
        assert said["steps"] == plan.steps, one
        assert said["busiest"] == pytest.approx(max(plan.sent(size)), rel=1e-4), name
        if name in ALGORITHMS and name != "two_level":  # its seconds count hosts on one machine
            seconds = cost.allreduce(name, ranks, link, pieces).at(size)
            assert said["seconds"] == pytest.approx(seconds), (name, ranks, pieces)
    frames = [frame["held"] for frame in compute("history", one, 1)]
    bits = [[[sum(1 << r for r in held) for held in row] for row in at] for at in plan.states()]
    assert frames == bits


def test_two_levels_send_one_array_between_hosts_and_a_ring_nearly_two(data, compute):
    link = {"alpha": 0, "beta": 0}
    between = {
        one["name"]: compute("summary", one, link, 160)["between"]
        for one in data["collectives"]["plans"]
        if one["ranks"] == 16 and one["pieces"] == 1
    }
    assert between["two_level"] == pytest.approx(160)
    assert between["ring"] == pytest.approx(2 * 15 / 16 * 160)


def test_timelines_are_the_simulations(data, compute):
    choose = random.Random(2)
    for one in choose.sample(data["pipelines"]["plans"], 12):
        plan, message = families.FAMILIES[one["name"]](one["ranks"], one["micro"]), choose.random()
        part = 1 / plan.chunks
        line = simulate(plan, Costs(part, part, part, message))
        orders = [[list(action) for action in order] for order in plan.orders]
        said = compute("simulate", {"orders": orders, "chunks": plan.chunks}, message)
        boxes = {(box.rank, *box.action): (box.begin, box.end) for box in line.boxes}
        assert {tuple(box[:4]): tuple(box[4:]) for box in said["boxes"]} == {
            key: pytest.approx(when) for key, when in boxes.items()
        }
        assert said["idle"] == pytest.approx(line.bubble)
        assert said["most"] == [line.most_held(rank) * part for rank in range(plan.ranks)]
        assert one["orders"] == [" ".join(map(str, order)) for order in plan.orders]


def test_plans_are_the_planners(compute):
    choose = random.Random(3)
    for _ in range(12):
        heads, layers = choose.choice((4, 12, 16)), choose.randint(2, 13)
        sizes = {"vocabulary": 96 * choose.randint(1, 9), "context": choose.randint(8, 99)}
        config = Config(layers=layers, heads=heads, width=heads * choose.randint(2, 9), **sizes)
        hosts, each = choose.choice((1, 2, 4)), choose.choice((1, 2, 3, 4))
        near, far = (Link("", choose.uniform(0, 1e-4), choose.uniform(0, 1e-8)) for _ in range(2))
        places = tuple(rank // each for rank in range(hosts * each))
        machine, batch = planner.Machine(1e9, near, far, places), choose.choice((12, 16, 48))
        expected = planner.plans(config, machine, batch, (1, 2, 4))
        links = {
            name: {"alpha": link.alpha, "beta": link.beta}
            for name, link in (("inside", near), ("between", far))
        }
        said = compute(
            "plans", vars(config), {"hosts": hosts, "each": each, "speed": 1e9} | links, batch,
            [1, 2, 4],
        )  # fmt: skip
        parts = ("seconds", "memory", "compute", "tensor", "pipeline", "data", "bubble")
        assert {
            tuple(plan[key] for key in ("d", "p", "t", "shard", "micro")): [
                plan[part] for part in parts
            ]
            for plan in said
        } == {
            (p.layout.data, p.layout.pipeline, p.layout.tensor, p.layout.shard, micro): (
                pytest.approx([getattr(p, part) for part in parts])
            )
            for p, micro in expected
        }
        assert [plan["seconds"] for plan in said] == sorted(plan["seconds"] for plan in said)


@pytest.fixture
def opened(browser, data, tmp_path):
    """``opened(name)``: a player on a telephone, where no request and no error may come."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page, trouble = context.new_page(), []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda said: said.type == "error" and trouble.append(said.text))
    page.on("request", lambda one: one.url.startswith("http") and trouble.append(one.url))

    def open_(name):
        style = f"<style>{(instant.HERE / 'instant.css').read_text('utf-8')}</style>"
        player = f"{instant.element(name, data[name])}<script>{instant.script()}</script>"
        (tmp_path / "a.html").write_text(BODY + style + player, encoding="utf-8")
        page.goto((tmp_path / "a.html").as_uri())
        return page

    yield open_
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    context.close()
    assert trouble == []
    assert wide <= 0


def test_a_collective_is_stepped_by_arrow_keys(opened):
    page = opened("collectives")
    for setting in (("ranks", 16), ("collective", "chain"), ("pieces", 4), ("size", 100)):
        page.evaluate(SET, setting)
    steps = instant.plan("chain", 16, 4).steps
    assert page.get_by_test_id("collectives-frame").inner_text() == f"step 0 of {steps}"
    page.evaluate(SET, ("link-alpha", 7))
    page.evaluate(SET, ("link-beta", 2))
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.get_by_test_id("collectives-frame").inner_text() == f"step 2 of {steps}"
    seconds = cost.allreduce("chain", 16, Link("", 7e-6, 2e-9), 4).at(1e8)
    said = page.get_by_test_id("collectives-status").inner_text()
    assert f" of {seconds:.3g} s: " in said, "the sum and its rank"
    page.get_by_test_id("collectives-play").click()
    page.wait_for_function("document.querySelector('.frame').dataset.frame === '3'")


def test_a_schedule_is_stepped_and_has_the_simulations_idle_share(opened):
    page = opened("pipelines")
    for setting in (("ranks", 8), ("micro", 16), ("schedule", "interleaved"), ("message", 0.5)):
        page.evaluate(SET, setting)
    line = simulate(families.interleaved(8, 16), Costs(0.5, 0.5, 0.5, 0.5))
    row = page.locator("tr[aria-current]").inner_text().split("\t")
    assert row[:3] == ["interleaved", f"{line.bubble:.0%}".replace("%", " %"), f"{line.span:g}"]
    assert float(row[3]) == max(line.most_held(rank) for rank in range(8)) / 2
    page.get_by_test_id("pipelines-back").click()
    assert " ranks compute" in page.get_by_test_id("pipelines-status").inner_text()


def test_the_planner_shows_the_planners_first_choice_that_fits(opened):
    page = opened("planner")
    for setting in (("model", "notebook 13's"), ("rank", "notebook 13's"), ("hosts", 2)):
        page.evaluate(SET, setting)
    layers, width, heads, vocabulary, context, batch = instant.MODELS["notebook 13's"]
    speed, memory = instant.MACHINES["notebook 13's"]
    (_, *near), (_, *far) = instant.links("NVLink 2 (V100)", "Ethernet 10G")[:2]
    places = tuple(rank // 4 for rank in range(8))
    machine = planner.Machine(speed, Link("", *near), Link("", *far), places, memory)
    config = Config(vocabulary, context, layers, heads, width)
    best, micro = planner.plans(config, machine, batch, (1, 2, 4, 8, 16, 32))[0]
    shown = page.locator("li[aria-current] div").first.inner_text()
    layout = best.layout
    assert shown.startswith(f"{layout.data} replica"), shown
    assert f" × {layout.pipeline} stage" in shown
    assert f" × {layout.tensor} part" in shown
    assert f", {micro} micro-batch" in shown
    assert f"{1e3 * best.seconds:.3g} ms, {best.memory / 1e6:.3g} MB" in shown
    page.evaluate(SET, ("layers", ""))  # while a number is being typed, the last good one counts
    assert page.locator("[aria-invalid=true]").count() == 1
    assert page.locator("li").count() >= 3
