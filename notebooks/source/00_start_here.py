# %% [markdown]
# # Start here: see what your machine can do
#
# In twenty minutes you will know that everything works here, you will have seen four processes compute at the same time, and you will have solved the first exercises.
#
# This is what you will work with. The notebook hands cells to four processes, called ranks, which send messages to each other; all of them share the cores of your machine, as many as the picture shows.

# %%
import matplotlib.pyplot as plt

from helpers.machine import usable_cores
from helpers.plots import style
from helpers.plots.processes import processes

style.use()
processes(usable_cores(), ranks=4)
plt.show()

# %% [markdown]
# **You will be able to**
#
# - say how many cores and how much memory your machine has, and which MPI and compiler;
# - run a cell on four processes at once, and read what each of them prints;
# - explain why four ranks on two cores take at least twice as long as one, and see them take turns;
# - solve an exercise, check it, and get a fresh copy of a notebook.
#
# **You need** some Python; nothing else. *Time:* 20 minutes, of which your machine works for less than two. *Cores:* any number. *GPU:* none.
#
# Words that are new stand in the [glossary](glossary.md). Run a cell with <kbd>Shift</kbd>+<kbd>Enter</kbd>; run them all with *Run → Run All Cells*.

# %% [markdown]
# ## What this machine has
#
# Every number in the course is measured on the machine that you use, so first see what that is.

# %%
from IPython.display import Markdown, display

from helpers.checkup import describe
from helpers.exercises import start_here as check

Markdown(describe())

# %% [markdown]
# A [core](glossary.md#core) executes instructions, one stream of them at a time. (Many processors offer each core twice; such a pair shares one core's arithmetic and is worth less than two.) The number above counts the cores that this Python may use: a container or a batch system often gives you fewer than the machine has. The [memory](glossary.md#memory) is shared by all the processes that you will start.
#
# The versions of what is installed decide some of the numbers, so they are written down too.

# %%
from helpers.checkup import installed

Markdown(installed())

# %% [markdown]
# ### Exercise 1: try the check
#
# *Difficulty ●○○, 1 minute.* Replace `None` by the number of cores in the first table. Run the check once before and once after; try a wrong number too.
#
# <details><summary>Hint</summary>
#
# It is in the third row. The check counts them again, so nothing that you type is compared with a number written down somewhere.
#
# </details>

# %% exercise="cores"
number_of_cores = None
# BEGIN SOLUTION
number_of_cores = usable_cores()
# END SOLUTION

# %% check="cores" points=1
check.cores(number_of_cores)

# %% [markdown]
# A check says *not attempted*, *correct*, or what is wrong. It never gives the answer away, and you may run it as often as you like.

# %% [markdown]
# ## Test everything, in about a minute
#
# Each line below is a small computation whose result is known: a gradient, a compiled loop, a drawn picture, four processes that add up their numbers, a message over a network. *works* means that the result was right, *not here* that the course goes on without, *FAILS* that something must be put right first, and the line says what.

# %%
from helpers.checkup import checkup

findings = []
for finding in checkup():
    print(finding)
    findings.append(finding)

# %%
failed = [finding.name for finding in findings if finding.status == "FAILS"]
took = sum(finding.seconds for finding in findings)
print(f"{len(findings)} tests in {took:.0f} s;", f"failed: {failed}" if failed else "none failed")

# %% [markdown]
# The line *several hosts* is about later notebooks. A *host* is a machine in a network; systems such as Linux can divide one machine into several, each with a network of its own, linked at a speed of your choice. Where yours may not, the line says what lets it; `make hosts` in a terminal tries that line alone and then opens the course.

# %% [markdown]
# ## Four processes in a notebook
#
# This notebook is one process: the *kernel*, which executes the cells. The course is about many. The next cell starts four more, called [ranks](glossary.md#rank), which can send messages to each other by [MPI](glossary.md#mpi).

# %% tags=["parameters"]
from dataclasses import dataclass

from helpers.cluster import Cluster
from helpers.exercises.predictions import Predictions

# %load_ext helpers.cluster


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    steps: int = 4_000_000  # additions of each process: about a fifth of a second


P = Parameters()
guess = Predictions()
cluster = Cluster(n=P.ranks)

# %% [markdown]
# A cell that begins with `%%ranks` does not run in the kernel: it runs on every rank. There `rank` is the number of the process, from 0, and `size` is how many there are. What each prints appears under the cell, with its number in front, in the order of the ranks; what several print alike stands there once, with all their numbers, such as `[0-3]`.

# %%
# %%ranks
import os

print(f"I am rank {rank} of {size}; my process has the number {os.getpid()}")
rank**2

# %% [markdown]
# The last line of the cell, `rank**2`, gave a value on each rank, and each was shown. Variables stay where they were made: every rank has its own `x` below, and the kernel has none.

# %%
# %%ranks
x = 10 * rank
comm.allreduce(x)  # the sum over all ranks, on each of them

# %% [markdown]
# `comm` is the group of all ranks, and `allreduce` adds up what each of them gives and hands the sum to all. The whole of notebook 08 is about how it does that. `rank`, `size` and `comm` mean the rank's own, also in a function that you write in the kernel.
#
# From the kernel you call a function on all ranks with `cluster.run`, which returns a list with one result for each rank:

# %%
cluster.run(lambda: x + 1)

# %% [markdown]
# ### Exercise 2: an answer on every rank
#
# *Difficulty ●○○, 2 minutes.* Make a variable `mine` on every rank that holds the square of the rank's number.
#
# <details><summary>Hint</summary>
#
# The cell runs on all ranks, and `rank` differs from one to the next, so that one line is enough for all of them.
#
# </details>

# %% exercise="squares"
# %%ranks
mine = None
# BEGIN SOLUTION
mine = rank**2
# END SOLUTION

# %% check="squares" points=1
check.squares(cluster.run(lambda: mine))

# %% [markdown]
# ## Do they really run at the same time?
#
# Each rank will now add numbers in a loop. After every 5 000 additions it looks at two clocks: that on the wall, and one that goes on only while this process has a core. If the first has gained 0.3 ms on the second, somebody else had the core meanwhile. So each notes when it *really* ran.
#
# > **Predict:** on the cores that your machine has, will the four ranks need the time of one process, of two, or of four? Replace the dots by a number.

# %%
guess["time of four ranks ÷ time of one process"] = ...


# %%
def work(steps):
    """Add numbers; return the stretches [begin, end] in which this process ran."""
    import time

    total, began, last, used, ran = 0, time.time(), time.time(), time.thread_time(), []
    for _ in range(steps // 5_000):
        for step in range(5_000):
            total += step
        now, spent = time.time(), time.thread_time()
        if now - last > spent - used + 0.0003:  # somebody else had the core
            ran.append((began, last))
            began = now
        last, used = now, spent
    return [*ran, (began, last)]


def seconds(everybody):
    return max(ran[-1][1] for ran in everybody) - min(ran[0][0] for ran in everybody)


alone = min(([work(P.steps)] for _ in range(3)), key=seconds)
together = min((cluster.run(work, P.steps) for _ in range(3)), key=seconds)

# %%
figure, axes = plt.subplots(figsize=(9, 3.2))
start = min(ran[0][0] for ran in together)
for lane, ran in enumerate(together):
    bars = [(begin - start, end - begin) for begin, end in ran]
    whole = [(ran[0][0] - start, ran[-1][1] - ran[0][0])]
    axes.broken_barh(whole, (lane - 0.06, 0.12), color=style.GREY)
    axes.broken_barh(bars, (lane - 0.35, 0.7), color=style.colour(lane))
axes.axvline(seconds(alone), color=style.BLACK, linestyle="--", linewidth=1.5)
axes.annotate(
    "one process alone", (seconds(alone), 1.0), xycoords=("data", "axes fraction"),
    xytext=(0, 4), textcoords="offset points", ha="center",
)  # fmt: skip
axes.set(xlabel="time (s)", ylabel="rank", yticks=range(P.ranks), xlim=(0, None))
axes.invert_yaxis()
plt.show()

# %%
print(f"alone {seconds(alone):.2f} s, {P.ranks} ranks together {seconds(together):.2f} s")
print(f"cores {usable_cores()}, ranks {P.ranks}")
guess.answer("time of four ranks ÷ time of one process", seconds(together) / seconds(alone))

# %% [markdown] claims="00-turns 00-lanes"
# Each lane is a process. A bar is a stretch in which it ran, a grey line one in which it waited for a core. At any moment there are as many bars as cores at most: with four cores or more the lanes are full and end near the dashed line; with two cores the four ranks *take turns*, and cannot be done in less than twice the time of one. Other programs on your machine take their turns as well. (Each time is the least of three.)
#
# That the lanes *overlap* says nothing yet: on two cores, three or four ranks have begun and not ended while at most two run. The bars tell the two apart, and so does a record of several runs:

# %%
from helpers import claims

for name in ("00-turns", "00-lanes"):
    display(claims.evidence(name))

# %% [markdown]
# So more processes than cores do not run more at once. The course uses them often all the same, since messages between ranks can be studied on any machine. (Where the system counts each core twice, you have half as many as it counts: a core for each of four ranks then takes *eight* counted ones.)

# %% [markdown]
# ### Exercise 3: how long at least?
#
# *Difficulty ●○○, 3 minutes.* Each of some ranks has work that takes `alone` seconds when it has a core to itself. They share `cores` cores and take turns without losing time over it, in turns much shorter than the work. After how many seconds, at the earliest, are all of them done?
#
# <details><summary>Hint</summary>
#
# How many seconds of a core do all ranks need together, and how many do the cores give in one second? And can a single rank be done sooner than it would be alone?
#
# </details>


# %% exercise="at-least"
def at_least(ranks, cores, alone):
    """Return the least seconds in which all ranks are done."""
    # BEGIN SOLUTION
    return alone * max(1, ranks / cores)
    # END SOLUTION


# %% check="at-least" points=1
check.at_least(at_least)

# %% [markdown]
# Your bound, beside what the ranks needed:

# %%
if check.at_least.passed(at_least):
    bound = at_least(P.ranks, usable_cores(), seconds(alone))
    print(f"at least {bound:.2f} s; measured {seconds(together):.2f} s")
else:
    print("Exercise 3 first")

# %% [markdown]
# ### One job for four ranks
#
# So far every rank did the whole work. Now the four share what one process did. In Exercise 4 you say who does how much.
#
# > **Predict:** how many times as long does the one process take as the four ranks that share its work?

# %%
guess["one process ÷ four ranks that share its work"] = ...

# %% [markdown]
# ### Exercise 4: share the work
#
# *Difficulty ●○○, 5 minutes.* Ten items of work, four ranks: who does how many? Write a function that returns the number of items for each rank, so that no rank has more than one item more than another. Every parallel program has such a function somewhere, and the remainder is where it goes wrong.
#
# <details><summary>Hint</summary>
#
# `divmod(items, ranks)` gives two numbers: what every rank gets for certain, and how many items are left over after that. Let the first ranks take one of those each.
#
# </details>


# %% exercise="shares"
def shares(items, ranks):
    """Return a list with the number of items for each rank: shares(8, 4) is [2, 2, 2, 2]."""
    # BEGIN SOLUTION
    each, left_over = divmod(items, ranks)
    return [each + 1 if rank < left_over else each for rank in range(ranks)]
    # END SOLUTION


# %% check="shares" points=2
check.shares(shares)


# %%
def one_share(steps):
    return work(int(steps[rank]))


if check.shares.passed(shares):
    parts = shares(P.steps, P.ranks)
    shared = min((cluster.run(one_share, parts) for _ in range(3)), key=seconds)
    print(f"{P.steps:,} additions: one process {seconds(alone):.2f} s;", end=" ")
    print(f"{P.ranks} ranks, {parts[0]:,} each, {seconds(shared):.2f} s")
    guess.answer("one process ÷ four ranks that share its work", seconds(alone) / seconds(shared))

# %% [markdown]
# Each rank has a quarter of the work. By your bound of Exercise 3 the four are at most four times as fast as the one process, or as many times as there are cores if these are fewer. What is missing to that is yours to look for in the course: ranks that begin late, ranks with more to do, and, in the next notebook, messages.

# %% [markdown]
# ## How the course works
#
# | you want to | do this |
# |---|---|
# | stop a cell that takes too long | *Kernel → Interrupt*: the ranks survive, or are replaced within seconds |
# | start the ranks anew | `cluster.restart()` |
# | start the notebook anew | *Kernel → Restart Kernel*: its ranks end with it |
# | have a fresh copy of this notebook | `make reset NB=00` in a terminal; your copy goes to `work/backups` |
# | read the code behind a call | `checkup??` in a cell |
# | read it all without running it | `make html` executes the notebooks and writes pages to `build/html` |
#
# Your notebooks are copies in the folder `work`, which an update of the course does not touch.

# %% [markdown]
# ## What breaks
#
# Less than you think. Here rank 2 divides by zero, while the others go on. The error names the rank and the line, what the others printed is kept, and so are all variables.

# %% tags=["raises-exception"]
# %%ranks
x = 1 / (rank - 2)
print(f"x is {x:+.2f}")

# %% [markdown]
# The ranks are still there, and still know `mine`:

# %%
# %%ranks
print(f"mine is {mine}, and x is {x:+.2f}")

# %% [markdown]
# On rank 2 the assignment never happened, so it still has the `x` from before: 20. In [01_mpi_basics](01_mpi_basics.ipynb) you will make ranks wait for each other for ever, and see who waits for whom.

# %% [markdown]
# ## Summary
#
# - The table at the top tells what you have; the one-minute test tells that it works. When something fails later, run the test again first.
# - `%%ranks` runs a cell on every rank, `cluster.run` a function; each rank is a process with variables of its own.
# - Ranks share the cores: as many as you have cores run at the same time, more than that take turns. (Counted twice by the system, a core is still one.)
# - A check says what is wrong; `make reset NB=00` gives you a fresh copy.
#
# **In practice** ranks are started by `mpiexec` or a batch system (`srun` of Slurm), one for each core or GPU, on many machines; the code on the ranks is the same. `Cluster` takes a launcher for that.
#
# **References**
#
# - [ipyparallel](https://ipyparallel.readthedocs.io/), with which the ranks are reached from the notebook.
# - [mpi4py](https://mpi4py.readthedocs.io/), MPI for Python: what `comm` can do.
# - [The Jupyter notebook's keys and menus](https://jupyterlab.readthedocs.io/en/stable/user/notebook.html).
#
# **Next**: [01_mpi_basics](01_mpi_basics.ipynb), where the ranks talk to each other.

# %%
cluster.stop()
