# %% [markdown]
# # Start here: see what your machine can do
#
# In 25 minutes you test your machine, see how four processes share its cores, and solve the first exercises.
#
# The next cell starts four processes, called *ranks*. They pass a ball (a message) around a ring: each rank waits for it, then sends it on.

# %% tags=["parameters"]
from dataclasses import dataclass

from helpers.cluster import Cluster
from helpers.plots.ring_html import pass_round, ring

# %load_ext helpers.cluster


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    steps: int = 4_000_000  # additions of each process: about a fifth of a second


P = Parameters()
cluster = Cluster(n=P.ranks)
ring(cluster.run(pass_round, 3))

# %% [markdown]
# The picture repeats in slow motion what your four processes did. The line above it has the measured times. With fewer cores than ranks a hop can take milliseconds: a rank may have to wait for a core. If the cell failed, go on to *Test everything*: it says what is missing.

# %% [markdown]
# **You will be able to**
#
# - say how many cores and how much memory your machine has;
# - run a cell on four processes at once, and read what each prints;
# - explain why four ranks on two cores take at least twice as long as one;
# - solve an exercise, check it, and get a fresh copy of a notebook.
#
# **You need** some Python. *Time:* 25 minutes, of which your machine works less than two. *Cores:* any number. *GPU:* none.
#
# The [glossary](glossary.md) explains new words. Run a cell with <kbd>Shift</kbd>+<kbd>Enter</kbd>; run them all with *Run → Run All Cells*.

# %% [markdown]
# ## What this machine has

# %%
from IPython.display import Markdown

from helpers.checkup import describe, installed
from helpers.exercises import start_here as check

Markdown(describe())

# %% [markdown]
# A [core](glossary.md#core) executes one stream of instructions at a time. (Many processors show each core as two, which share arithmetic units and do less than two real cores.) The table counts the cores that this Python may use: a container or a batch system often allows fewer than the machine has. All processes together must fit into the [memory](glossary.md#memory).
#
# Some measurements depend on the installed versions:

# %%
Markdown(installed())

# %% [markdown]
# ### Exercise 1: try the check
#
# *Difficulty ●○○, 1 minute.* Replace `None` by the number of cores in the first table. Run the check once before and once after; try a wrong number too.
#
# <details><summary>Hint</summary>
#
# It is in the third row.
#
# </details>

# %% exercise="cores"
number_of_cores = None
# BEGIN SOLUTION
from helpers.machine import usable_cores

number_of_cores = usable_cores()
# END SOLUTION

# %% check="cores" points=1
check.cores(number_of_cores)

# %% [markdown]
# A check says *not attempted*, *correct*, or what is wrong. Run it as often as you like; it never gives the answer away.

# %% [markdown]
# ## Test everything
#
# Each row below is a small computation whose result is known: a gradient, a compiled program, a drawn picture, a sum over four processes, a message over a network. *works*: the result was right. *not here*: the part is missing, and the course runs without it. *FAILS*: you must repair something first; the row says what.

# %%
from helpers.checkup import report

findings = report()

# %% [markdown]
# A *host* is a machine in a network. Later notebooks emulate several hosts on your machine, joined by links whose speed you choose. If your system forbids this, the row *several hosts* says how to allow it.

# %% [markdown]
# ## Four processes in a notebook
#
# This notebook is one process: the *kernel*, which executes the cells. At the top, `Cluster` started four more: the [ranks](glossary.md#rank), which send messages to each other by [MPI](glossary.md#mpi).
#
# A cell that begins with `%%ranks` runs on every rank instead of in the kernel. There `rank` is the rank's number, from 0, and `size` is the number of ranks. Each printed line has its rank's number in front. A line that several ranks print appears once, with all their numbers, such as `[0-3]`.

# %%
# %%ranks
import os

print(f"I am rank {rank} of {size}, process {os.getpid()} of this machine")
rank**2

# %% [markdown]
# The last line, `rank**2`, has one value for each rank; the notebook shows all four. Variables stay on the rank that made them: every rank has its own `x` below, and the kernel has none.

# %%
# %%ranks
x = 10 * rank
comm.allreduce(x)  # the sum over all ranks, on each of them

# %% [markdown]
# `comm` is the group of all ranks. `allreduce` adds up one number from each rank and gives every rank the sum; notebook 08 shows how.
#
# From the kernel, `cluster.run` calls a function on all ranks and returns a list with one result for each rank. The function sees the variables of its rank, `rank`, `size` and `comm` included:

# %%
cluster.run(lambda: x + 1)

# %% [markdown]
# ### Exercise 2: a share on every rank
#
# *Difficulty ●○○, 3 minutes.* Every rank has a value, the square of the rank's number. On every rank, compute its share `mine`: its value divided by the sum of all ranks' values.
#
# <details><summary>Hint</summary>
#
# One line is enough. `comm.allreduce` gave every rank a sum of `x`. Which numbers' sum do you need?
#
# </details>

# %% exercise="squares"
# %%ranks
mine = None
# BEGIN SOLUTION
mine = rank**2 / comm.allreduce(rank**2)
# END SOLUTION

# %% check="squares" points=1
check.squares(cluster.run(lambda: mine))

# %% [markdown]
# ## Do four ranks really run at once?
#
# First one process adds numbers in a loop. Then four ranks run the whole loop each, at the same time. In the loop a process reads two clocks: the wall clock (`time.time`), which never stops, and a processor clock (`time.thread_time`), which stops while the process has no core. Their difference is the time without a core.
#
# > **Predict:** what is the time of four ranks ÷ the time of one process? Replace the dots by a number.

# %%
from helpers.exercises.predictions import Predictions

guess = Predictions()
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


# %%
from helpers.timing import Others

with Others() as others:
    rounds = [([work(P.steps)], cluster.run(work, P.steps)) for _ in range(5)]
alone, together = (min(each, key=seconds) for each in zip(*rounds, strict=True))
single = sum(end - begin for begin, end in alone[0])  # without waiting for a core

# %% [markdown]
# Each lane is a rank. On a coloured bar the rank has a core; on the grey line between two bars it waits for one. (Ranks may start late.) The second picture shows 30 ms of the first.

# %%
import matplotlib.pyplot as plt

from helpers.machine import usable_cores
from helpers.plots import style
from helpers.plots.timeline import turns

style.use()
axes = turns(together, single)
axes.figure.set_label("When each rank computes, and how long one process takes alone")
style.doubt(axes.figure, others)
closer = turns(together, single)
closer.figure.set_label("The same during 30 ms: who has a core, who waits")
closer.set_xlim(single / 2, single / 2 + 0.03)
closer.texts[0].remove()
plt.show()

# %%
print(f"alone {single:.2f} s, {P.ranks} ranks together {seconds(together):.2f} s")
print(f"cores {usable_cores()}, ranks {P.ranks}")
guess.answer("time of four ranks ÷ time of one process", seconds(together) / single)

# %% [markdown]
# Only as many as you have cores: any vertical line in the second picture meets at most so many bars; where it meets fewer, the cores change ranks, or another program has one. On two cores the four ranks *take turns*, and need at least twice the time of one process. On four cores or more each lane should be one bar that ends near the dashed line. (Each time is the best of five.)

# %% [markdown]
# ### Exercise 3: how long at least?
#
# *Difficulty ●○○, 3 minutes.* Each of `ranks` ranks has work that takes `alone` seconds on a core of its own. The ranks share `cores` cores and take short turns; a change of turns costs no time. After how many seconds, at the earliest, is all the work done?
#
# <details><summary>Hint</summary>
#
# How many core-seconds do all ranks need together, and how many do the cores give in one second? Can a rank be done sooner than alone?
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
# Your bound and the measured time (both vary when other programs run):

# %%
if check.at_least.passed(at_least):
    bound = at_least(P.ranks, usable_cores(), single)
    print(f"at least {bound:.2f} s; measured {seconds(together):.2f} s")
else:
    print("Exercise 3 first")

# %% [markdown]
# ### One job for four ranks
#
# So far every rank did the whole work. Now four ranks share it.
#
# > **Predict:** how many times as fast as one process are four ranks that share its work?

# %%
guess["one process ÷ four ranks that share its work"] = ...

# %% [markdown]
# ### Exercise 4: share the work
#
# *Difficulty ●○○, 5 minutes.* Four ranks share ten items of work: how many does each do? Return the list of these numbers, for any `items` and `ranks`. Shares may differ by one item at most.
#
# <details><summary>Hint</summary>
#
# `divmod(items, ranks)` gives two numbers: the items that every rank gets, and the items left over. Let the first ranks take one of those each.
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
    with Others() as others:
        shared = min((cluster.run(one_share, parts) for _ in range(5)), key=seconds)
    others.say()
    print(f"{P.steps:,} additions: one process {single:.2f} s;", end=" ")
    print(f"{P.ranks} ranks, {parts[0]:,} each, {seconds(shared):.2f} s")
    guess.answer("one process ÷ four ranks that share its work", single / seconds(shared))

# %% [markdown]
# By your bound of Exercise 3, four ranks with a quarter each are at most four times as fast as one process, and on two cores at most twice. Ranks beyond the number of cores gain no time. The course often starts more anyway: any machine can show who sends what to whom. Cores that slow each other down, other programs, a late start, unequal shares, and messages make ranks slower than the bound. The next notebook measures messages.

# %% [markdown]
# ## How the course works
#
# | you want to | do this |
# |---|---|
# | stop a cell that takes too long | *Kernel → Interrupt*: the ranks survive, or are replaced in seconds |
# | restart the ranks | `cluster.restart()` |
# | restart the notebook | *Kernel → Restart Kernel*: its ranks end with it |
# | get a fresh copy of this notebook | `make reset NB=00` in a terminal; your old copy goes to `work/backups` |
# | read the code behind a call | `report??` in a cell |
# | read the course as web pages | `make html` executes the notebooks and writes pages to `build/html` |
#
# Your notebooks are copies in the folder `work`, which no update touches. Your predictions and solved exercises are kept in the same folder. They leave your machine only if you send them to your class's board. The next cell and the file `progress.md` show what you have solved.

# %%
from helpers import progress

progress.show()

# %% [markdown]
# ## What breaks
#
# An error on one rank does not stop the others. Here rank 2 divides by zero. The error names the rank and the line. The other ranks' output and all variables are kept.

# %% tags=["raises-exception"]
# %%ranks
x = 1 / (rank - 2)
print(f"x is {x:+.2f}")

# %% [markdown]
# The ranks still have `mine`:

# %%
# %%ranks
print(f"mine is {mine and round(mine, 3)}, and x is {x:+.2f}")

# %% [markdown]
# On rank 2 the assignment never happened, so rank 2 still has its earlier `x`, 20. In notebook [01](01_mpi_basics.ipynb) you will make ranks wait for each other for ever, and see who waits for whom.

# %% [markdown]
# ## Summary
#
# - The first table says what your machine has. When something fails later, run the test again.
# - `%%ranks` runs a cell on every rank; `cluster.run` calls a function on every rank. Each rank is a process with its own variables.
# - Ranks share the cores: each core runs at most one rank at a time, and the other ranks wait.
# - A check says what is wrong; `make reset NB=00` gives you a fresh copy.
#
# **In practice** ranks are started by `mpiexec` or by a batch system (Slurm's `srun`), one for each core or GPU, on many machines. The code on the ranks is the same.
#
# **References**
#
# - [ipyparallel](https://ipyparallel.readthedocs.io/), which connects the notebook to the ranks.
# - [mpi4py](https://mpi4py.readthedocs.io/), MPI for Python: what `comm` can do.
# - [The Jupyter notebook's keys and menus](https://jupyterlab.readthedocs.io/en/stable/user/notebook.html).
#
# **Next**: [01 Let processes work together by messages](01_mpi_basics.ipynb), where the ranks talk to each other.

# %%
cluster.stop()
