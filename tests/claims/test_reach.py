"""Which experiments need to run again: a line changed, a record read back, a report counted."""

from dataclasses import replace

import pytest

import claims
from helpers import records
from tools import reach
from tools.reach import ROW, SUITE, Code

FILES = {
    "lessons/__init__.py": "",
    "lessons/01_a.py": "def run():\n    from parts import near\n",
    "lessons/02_b.py": "import parts.kernels\nSTART = ['-m', 'parts.ranks']\n",
    "parts/__init__.py": "",
    "parts/near.py": "from parts import shared\n",
    "parts/shared.py": "y = 1\n",
    "parts/kernels/__init__.py": "",
    "parts/kernels/cpu/add.cu": "// add\n",
    "parts/ranks/__init__.py": "",
    "parts/ranks/__main__.py": "import parts.shared\n",
    "parts/unused.py": "",
    "data/digits.npz": "0123",
    "data/bench/run.json": "{}",
    "requirements.txt": "torch==2.13\n",
}
A, B = "lessons.01_a", "lessons.02_b"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def prints(tree):
    code = Code("lessons", "parts", root=tree)
    return {topic: code.fingerprint(topic) for topic in (A, B)}


@pytest.mark.parametrize(
    ("name", "topics"),
    [
        ("lessons/01_a.py", {A}),
        ("parts/near.py", {A}),  # imported in a function
        ("parts/shared.py", {A, B}),
        ("parts/__init__.py", {A, B}),  # runs before its modules
        ("parts/ranks/__main__.py", {B}),  # named in a string
        ("parts/kernels/cpu/add.cu", {B}),
        ("data/digits.npz", {A, B}),
        ("requirements.txt", {A, B}),
        ("parts/unused.py", set()),
        ("data/bench/run.json", set()),
    ],
)
def test_a_change_counts_for_the_topics_that_reach_it(tree, name, topics):
    before = prints(tree)
    with (tree / name).open("a") as file:
        file.write("# changed\n")
    after = prints(tree)
    assert {topic for topic in before if before[topic] != after[topic]} == topics


def test_a_new_file_and_a_new_name_count(tree):
    before = prints(tree)[B]
    path = tree / "parts/kernels/cpu/add.cu"
    (tree / "data/__pycache__").mkdir(parents=True)
    (tree / "data/__pycache__/archive.pyc").write_text("compiled")
    assert prints(tree)[B] == before
    path.with_name("sub.cu").write_text("")
    added = prints(tree)[B]
    path.with_name("sub.cu").rename(path.with_name("mul.cu"))
    assert len({before, added, prints(tree)[B]}) == 3


@pytest.mark.parametrize(
    ("topic", "there", "absent"),
    [
        ("15_cuda_threads_that_meet", "helpers/cuda/kernels/histogram.cu", "helpers/cluster/"),
        ("10_local_sgd", "helpers/cluster/rank/engine.py", "helpers/cuda/"),
    ],
)
def test_the_courses_topics_reach_what_they_use(topic, there, absent):
    names = [str(path.relative_to(reach.ROOT)) for path in reach.code().files(f"claims.{topic}")]
    assert there in names
    assert "data/mnist/digits.npz" in names
    assert not [name for name in names if name.startswith((absent, "data/bench", "data/claims"))]


def write(folder, failed=0, date="2026-11-25T00:00:00Z", **changed):
    found = [
        records.Row(ROW.format(topic=topic), 1, "tests", parameters={"failed": failed} | print_)
        for topic, now in reach.fingerprints().items()
        for print_ in [{"fingerprint": changed.get(f"_{topic}", now)}]
    ]
    made = records.make({SUITE: found}, "make test-all PART=claims")
    records.write(replace(made, date=date), folder)


def test_only_the_newest_record_of_a_topic_with_its_code_and_no_failure_counts(tmp_path):
    assert reach.seen(tmp_path) == set()
    write(tmp_path, _03_gru_derivation="other")
    assert reach.seen(tmp_path) == set(claims.topics()) - {"03_gru_derivation"}
    write(tmp_path, date="2026-11-26T00:00:00Z")
    assert reach.seen(tmp_path) == set(claims.topics())
    write(tmp_path, failed=1, date="2026-11-27T00:00:00Z")
    assert reach.seen(tmp_path) == set()


CASE = """<testcase classname="tests.claims.test_claims" name="{name}[{claim}]">
<properties><property name="fingerprint" value="abc" /></properties>{below}</testcase>"""


def report(folder, names, first=""):
    path, test = folder / "report.xml", "test_every_experiment_of_the_course_runs"
    cases = [CASE.format(name=test, claim=claim, below="") for claim in names]
    cases[0] = cases[0].replace("</testcase>", f"{first}</testcase>")
    cases.append(CASE.format(name="test_another", claim="03-gap", below="<failure />"))
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return [(row.name, row.parameters) for row in reach.rows(path)]


@pytest.mark.parametrize(
    ("first", "less", "failed"),
    [("", 0, 0), ("<failure />", 1, 1), ("<error />", 1, 1), ("<skipped />", 1, 0)],
)
def test_a_report_becomes_a_row_for_each_whole_topic(tmp_path, first, less, failed):
    whole = [*claims.of("13_sharding")]
    counts = {"fingerprint": "abc", "passed": len(whole) - less, "failed": failed}
    assert report(tmp_path, whole, first=first) == [("claims 13_sharding", counts)]
    assert report(tmp_path, whole[:-1]) == []
