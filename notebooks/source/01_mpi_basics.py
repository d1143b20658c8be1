# %% [markdown]
# # Let processes work together by messages
#
# You will make four processes exchange messages, break such a program on purpose, and measure what a message costs.

# %% [markdown]
# ## Set-up

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from helpers import claims
from helpers.cluster import Cluster
from helpers.exercises import mpi_basics as check
from helpers.exercises.predictions import Predictions
from helpers.machine import usable_cores
from helpers.plots import messages, style
from helpers.plots.timeline import timeline
from helpers.plots.timeline_html import timeline_html
from helpers.timing import Others

# %load_ext helpers.cluster


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    image_rows: int = 320  # of the shared picture
    image_columns: int = 640


# %%
P = Parameters()
style.use()
guess = Predictions()
cluster = Cluster(n=P.ranks)

# %% [markdown]
# You now have four processes, called [ranks](glossary.md#rank). No rank can read another rank's variables; values travel as messages. Below, a number goes from rank 0 to rank 3, and ranks 1 and 2 each add one.

# %%
# %%ranks --trace first
from helpers.waiting import meet

meet(comm)  # all ranks wait for each other
if rank == 0:
    comm.send(1, dest=1)
else:
    number = comm.recv(source=rank - 1)
    if rank < size - 1:
        comm.send(number + 1, dest=rank + 1)

# %%
timeline_html(first)

# %% [markdown]
# **Point at a box or an arrow.** Each lane is a rank, each box an [MPI](glossary.md#mpi) call, each arrow a message. While a box is hatched, the other rank has not made the matching call yet. With fewer cores than ranks, a rank may begin late, or wait for a core inside a call. `--trace first` recorded this just now, in `first`.
#
# **You will be able to**
#
# - write a program for many ranks with blocking and non-blocking messages, and run it in a notebook and with `mpiexec`;
# - find a [deadlock](glossary.md#deadlock) from a table of who waits for whom;
# - build broadcast, scatter, gather, reduce, allgather and allreduce from sends and receives;
# - predict how long a message takes, and how much time more ranks save.
#
# **You need** notebook [00](00_start_here.ipynb) and some NumPy. *Time:* 150 minutes: five for this introduction, three lessons of 44, 48 and 18, *What breaks* 10, and a project of 25 minutes. Each lesson and *What breaks* need only the set-up. *Cores:* any number; one core shows no speed-up in lesson 3. *GPU:* none.
#
# | symbol | meaning |
# |---|---|
# | $N$ | number of ranks, numbered $0 \dots N-1$ |
# | $m$ | size of a message, in bytes (B) |
# | $\alpha$ | [latency](glossary.md#latency): the time of a message of no bytes |
# | $\beta$ | time for each byte; $1/\beta$ is the [bandwidth](glossary.md#bandwidth) |
# | $T_N$, $S_N$ | time of a computation on $N$ ranks; its [speed-up](glossary.md#speed-up) $T_1/T_N$ |
# | $s$ | [serial fraction](glossary.md#serial-fraction): the part of $T_1$ that only one rank can do |
# | step | a round in which each rank sends at most one message and receives at most one; what arrives in a step can be sent on in the next |

# %% [markdown]
# ## Lesson 1. Your send has returned: has the message arrived?
#
# *44 minutes.* A program calls `send`, and the call returns. Does the receiver have the message now?
#
# ### One program, many processes
#
# All ranks run **the same program**. They differ only in `rank`, a rank's own number; `size` is the number of ranks. Both come from a [communicator](glossary.md#communicator), a group of ranks that can send messages to each other. `comm`, MPI's `COMM_WORLD`, has all ranks.
#
# > **Predict.** Below, only rank 0 gives `x` another value. What is `x` on rank 3? Type your prediction (text in quotes) in place of the dots.

# %%
guess["x on rank 3"] = ...

# %%
# %%ranks
import os

x = "red"
if comm.Get_rank() == 0:
    x = "green"
print(f"I am rank {rank} of {comm.Get_size()}, process {os.getpid()}: my x is {x}")

# %%
guess.answer("x on rank 3", cluster.run(lambda: x)[3])

# %% [markdown]
# Each process has its own `x`.
#
# `%%ranks` gives a cell the names `MPI`, `comm`, `rank` and `size`. A script defines them in three lines, and `mpiexec -n 4 python script.py` starts it as four processes. Here is the cell above as a script, and what it prints:

# %%
from helpers.cluster.script import as_script, run_script

script = as_script(containing="I am rank")
print(script)
print(run_script(script, n=4))

# %% [markdown]
# These lines may change their order from run to run; `%%ranks` sorts them by rank.
#
# ### Send and receive
#
# `comm.send(value, dest=1)` turns any Python object into bytes by `pickle` and sends them. `comm.recv(source=0)` waits for a message from rank 0 and returns the object. The upper-case calls `Send` and `Recv` transfer a NumPy array's memory without pickling. MPI writes the bytes into an array of the right size, which the receiver provides.

# %%
# %%ranks
import numpy as np

if rank == 0:
    comm.send({"lesson": 1, "ranks": [0, 1, 2, 3]}, dest=1)
    comm.Send(np.arange(4.0), dest=1)
elif rank == 1:
    print("an object:", comm.recv(source=0))
    box = np.empty(4)
    comm.Recv(box, source=0)
    print("an array: ", box)

# %% [markdown]
# A message carries a [tag](glossary.md#tag), a number that you may choose; a receive with a tag takes only messages with that tag. Two messages from one sender with one tag never overtake each other, so the object came first. Messages from different senders may come in any order: `source=MPI.ANY_SOURCE` takes whichever comes first.
#
# ### Exercise 1: your first message
#
# *Difficulty ●○○, 7 minutes.* Send rank 0's `value`, any Python object (even 0), to the *last* rank of `comm`, in one message. The last rank returns it; all other ranks return `None`. If `comm` has a single rank, that rank sends nothing and returns its value. Use `comm.Get_rank()` and `comm.Get_size()`: the check tries communicators of several sizes.
#
# <details><summary>Hint</summary>
#
# Three cases: I am alone; I am rank 0; I am the last.
#
# </details>


# %% exercise="hand-over"
def hand_over(value, comm):
    """Return, on the last rank, the value that rank 0 has; None elsewhere."""
    # BEGIN SOLUTION
    last = comm.Get_size() - 1
    if comm.Get_rank() == 0 and last > 0:
        comm.send(value, dest=last)
        return None
    if comm.Get_rank() == last:
        return comm.recv(source=0) if last > 0 else value
    return None
    # END SOLUTION


# %% check="hand-over" points=1
check.hand_over(hand_over, cluster=cluster)

# %% [markdown]
# ### Blocking and non-blocking
#
# `send` and `recv` are **[blocking](glossary.md#blocking)**: they return when *your side* is done. A receive is done when the message is there. A send is done when you may overwrite what you sent, even if the message has not arrived. **[Non-blocking](glossary.md#non-blocking)** calls, `isend` and `irecv`, return at once with a [request](glossary.md#request). Later, `request.wait()` blocks until your side is done.
#
# Below, rank 1 is busy for 20 ms before it receives. (`--only 0,1` runs a cell on two ranks; `comm.Split`, explained in lesson 2, makes a communicator of them.)
#
# > **Predict.** After how many milliseconds does each of these calls on rank 0 return: `Send` of 8 bytes, `Send` of 4 MB, `Isend` of 4 MB?

# %%
guess["ms of Send, 8 B"] = ...
guess["ms of Send, 4 MB"] = ...
guess["ms of Isend, 4 MB"] = ...

# %%
# %%ranks
pair = comm.Split(0 if rank < 2 else 1)

# %%
# %%ranks --only 0,1 --trace returns
import time

small, large = np.zeros(1), np.zeros(500_000)
for mode in ("small", "large", "large, non-blocking"):
    data = small if mode == "small" else large
    meet(pair)
    if rank == 0:
        request = comm.Isend(data, dest=1) if "non" in mode else comm.Send(data, dest=1)
        if request is not None:
            request.Wait()
    else:
        time.sleep(0.02)  # rank 1 is busy
        comm.Recv(data, source=0)

# %%
took = {f"{e.call}, {'8 B' if e.bytes == 8 else '4 MB'}": 1e3 * e.duration for e in returns.of(0)}
for call in ("Send, 8 B", "Send, 4 MB", "Isend, 4 MB"):
    print(f"{call:11} returned after {took[call]:7.3f} ms")
    guess.answer(f"ms of {call}", round(took[call], 3))
ax = timeline(returns, title="What returns when: rank 0 sends to a rank that is busy")
ax.figure.set_label("Send of 8 B, Send of 4 MB and Isend of 4 MB to a rank that is busy for 20 ms")
plt.show()

# %% [markdown] claims="01-send-waits 01-isend-returns"
# `Send` of 8 B returned long before rank 1 received: the library copied the bytes (an **[eager](glossary.md#eager)** send). `Send` of 4 MB waited (hatched) until rank 1 called `Recv`, and only then moved the bytes (a **[rendezvous](glossary.md#rendezvous)**). `Isend` of 4 MB returned at once, and `Wait` waited.
#
# Eight recorded runs of each size agree. The *effect* is the second column ÷ the third; its 95 % interval decides the [verdict](glossary.md#verdict). *Equal* (as the first claim is for 4 MB): the whole interval lies between 1/1.25 and 1.25.

# %%
for name in ("01-send-waits", "01-isend-returns"):
    display(claims.evidence(name))

# %% [markdown]
# For 4 MB, *equal* supports the first claim: `Send` took as long as rank 1 was busy. For 8 B it fails: `Send` did not wait.
#
# ### Where does eager end?
#
# The MPI standard leaves this to the library, so we measure it. The receiver comes 15 ms late:


# %%
# %%ranks
def send_seconds(nbytes, late=0.015):
    box = np.zeros(nbytes, dtype=np.uint8)
    if rank == 1:
        comm.send("ready", dest=0)
        time.sleep(late)
        comm.Recv(box, source=0)
    if rank == 0:
        comm.recv(source=1)
        begin = time.perf_counter()
        comm.Send(box, dest=1)
        return time.perf_counter() - begin


late_sizes = [2**k for k in range(3, 23)]
late_sends = [[send_seconds(nbytes) for _ in range(5)] for nbytes in late_sizes]

# %%
asked, found = cluster.run(lambda: (late_sizes, late_sends))[0]
found = np.median(found, axis=1)  # of five: other programs may disturb some
messages.end_of_eager(asked, found, late=0.015)
plt.show()

# %% [markdown]
# Left of the band `Send` returns at once; right of it, `Send` waits for the receiver, 15 ms.
#
# ### Exercise 2: which statements hold?
#
# *Difficulty ●○○, 4 minutes.* Rank 0 sends the array `box` to rank 1. Which statements are true for *any* MPI library and *any* size? Give their letters, such as `"AB"`. (`Ssend`, a *synchronous* send, is a `Send` that is never eager.)
#
# - A: after `comm.Send(box, 1)` has returned, rank 0 may overwrite `box`;
# - B: after `comm.Isend(box, 1)` has returned, rank 0 may overwrite `box`;
# - C: after `Wait()` on the request of that `Isend`, rank 0 may overwrite `box`;
# - D: after `comm.Send(box, 1)` has returned, rank 1 has received the message;
# - E: after `comm.Ssend(box, 1)` has returned, rank 1 has begun to receive the message.
#
# <details><summary>Hint</summary>
#
# What does an eager send do with the bytes? What must MPI still read after `Isend` has returned?
#
# </details>

# %% exercise="statements"
statements = None
# BEGIN SOLUTION
statements = "ACE"
# END SOLUTION

# %% check="statements" points=1
check.statements(statements)

# %% [markdown]
# ### Deadlock, and how to read it
#
# Four ranks form a ring, in which rank 3 is the left neighbour of rank 0. Each rank needs its left neighbour's number, so each receives from the left and then sends its own number to the right. The notebook ends the cell after 3 seconds.
#
# > **Predict.** For which rank does rank 0 wait, if for any?

# %%
guess["rank 0 waits for rank"] = ...

# %% tags=["raises-exception"]
# %%ranks --timeout 3
left, right = (rank - 1) % size, (rank + 1) % size
got = comm.recv(source=left)
comm.send(rank, dest=right)

# %%
guess.answer("rank 0 waits for rank", P.ranks - 1)

# %% [markdown]
# Every rank receives before it sends, so no rank ever sends. Follow the column *waits for* from rank 0: 3, 2, 1, and again 0, a circle.
#
# Ranks that wait for each other so that none can go on are in a [deadlock](glossary.md#deadlock). To find the fault, ask in which call each rank waits, and for which rank.
#
# There are three cures. *Order*: even ranks send first, odd ranks receive first. *Both at once*: `sendrecv` sends and receives in one call. *Requests*: start the send or the receive without blocking. Here is `Sendrecv`, with arrays of 8 MB:

# %%
# %%ranks
left, right = (rank - 1) % size, (rank + 1) % size
full, empty = np.full(1_000_000, float(rank)), np.empty(1_000_000)
comm.Sendrecv(full, right, 0, empty, left, 0)  # the first use of memory costs extra

# %%
# %%ranks --trace ring
meet(comm)
comm.Sendrecv(full, right, 0, empty, left, 0)
float(empty[0])

# %%
ax = timeline(ring, title="Each rank sends to the right and receives from the left")
ax.figure.set_label("Four ranks in a ring: every message is on its way in the same step")
plt.show()
print(f"messages: {len(ring.messages)}, steps: {ring.steps()}")

# %% [markdown]
# All messages travel in one step: no rank has to finish its send before it receives. A `Sendrecv` is hatched until the rank that it *receives from* has made its call.
#
# ### Exercise 3: shift around the ring
#
# *Difficulty ●●○, 8 minutes.* Write the ring yourself, with requests and without `sendrecv`: send `value` to the right neighbour, and return the value that the left neighbour sent. `comm` may have any number of ranks, even one; `value` may be any Python object, of any size.
#
# <details><summary>Hint</summary>
#
# Start the send with `isend`, receive, and then call `wait` on the request: only then is your send done.
#
# </details>


# %% exercise="shift"
def shift(value, comm):
    """Return the value of the left neighbour on the ring of all ranks of comm."""
    # BEGIN SOLUTION
    rank, size = comm.Get_rank(), comm.Get_size()
    request = comm.isend(value, dest=(rank + 1) % size)
    received = comm.recv(source=(rank - 1) % size)
    request.wait()
    return received
    # END SOLUTION


# %% check="shift" points=2
check.shift(shift, cluster=cluster)

# %% [markdown]
# **Answer.** Not necessarily: a send that has returned says only that *you* may overwrite the array. The library copied a small message before anybody received it. A large one waited for its receiver, and without a receiver it waits for ever. *Evidence: both pictures of `Send`, from this run; eight recorded runs of each size.*

# %% [markdown]
# ## Lesson 2. How do all ranks get a result, and what does that cost?
#
# *48 minutes.* In training, every rank needs the sum of arrays that all ranks computed. Which messages bring every rank the sum, and in how many steps? How long does one message take?
#
# ### Six collectives by hand
#
# A [collective](glossary.md#collective) is a pattern of messages for which MPI has a call. *All* ranks of the communicator must make that call. The *root* is the one rank that sends to all others or receives from all others.
#
# - **Broadcast**: the root sends every rank the same value. **Scatter**: it sends each rank a value of its own.
# - **Gather**: the root gets all values as a list. **Reduce**: it gets them combined by `MPI.SUM`, `MPI.MAX` or another operation.
# - **Allgather**: every rank gets the list of all values. **Allreduce**: every rank gets the combined value.


# %%
# %%ranks
import numpy as np

from helpers.waiting import meet


def broadcast(value, root=0):
    if rank != root:
        return comm.recv(source=root)
    for peer in set(range(size)) - {root}:
        comm.send(value, dest=peer)
    return value


def scatter(values, root=0):
    if rank != root:
        return comm.recv(source=root)
    for peer in set(range(size)) - {root}:
        comm.send(values[peer], dest=peer)
    return values[root]


# %%
# %%ranks
def gather(value, root=0):
    if rank == root:
        return [value if peer == root else comm.recv(source=peer) for peer in range(size)]
    comm.send(value, dest=root)


def reduce(value, root=0):
    values = gather(value, root)
    return sum(values) if rank == root else None


def allgather(value):
    return broadcast(gather(value))


def allreduce(value):
    return broadcast(reduce(value))


# %% [markdown]
# We compare each with MPI's own call:

# %%
# %%ranks
mine, one_each = rank + 1, [0, 10, 20, 30]
pairs = {
    "broadcast": (broadcast(mine), comm.bcast(mine)),
    "scatter": (scatter(one_each), comm.scatter(one_each)),
    "gather": (gather(mine), comm.gather(mine)),
    "reduce": (reduce(mine), comm.reduce(mine, op=MPI.SUM)),
    "allgather": (allgather(mine), comm.allgather(mine)),
    "allreduce": (allreduce(mine), comm.allreduce(mine)),
}
for name, (ours, mpi) in pairs.items():
    assert ours == mpi, name

# %% [markdown]
# A row is a rank: left what it gave, right what it got. An arrow says whose value reaches whom.

# %%
gave = cluster.run(lambda: mine)
got = cluster.run(lambda: {name: ours for name, (ours, _) in pairs.items()})
messages.collectives(gave, got, listed=[0, 10, 20, 30])
plt.show()

# %% [markdown]
# After gather and reduce only the root has the result; the other ranks get `None` (blank). With a *receive buffer*, an array for the result, a reduction keeps its input. With `MPI.IN_PLACE` the result replaces the input:

# %%
# %%ranks
entered, summed = np.full(2, float(rank + 1)), np.empty(2)
comm.Allreduce(entered, summed)
kept = entered.copy()
comm.Allreduce(MPI.IN_PLACE, entered)
print(f"with a receive buffer {kept} is kept; in place it becomes {entered}")

# %% [markdown]
# ### Fewer steps: a tree
#
# > **Predict.** How many steps does a broadcast to 1024 ranks take if rank 0 sends one message after another? How many if every rank that has the value helps to send it?

# %%
guess["steps to 1024 ranks, one by one"] = ...
guess["steps to 1024 ranks, all help"] = ...

# %%
# %%ranks --trace one_by_one
meet(comm)
seven = broadcast(7 if rank == 0 else None)

# %%
# %%ranks --trace as_a_tree
from helpers import collectives

meet(comm)
tree = np.array([7.0 if rank == 0 else 0.0])
collectives.broadcast(tree, comm, root=0)
handed = []  # will hold your tree

# %%
flat, high = one_by_one.steps(), as_a_tree.steps()
print(f"broadcast on {P.ranks} ranks: {flat} steps one by one, {high} as a tree")
guess.answer("steps to 1024 ranks, one by one", 1024 - 1)
guess.answer("steps to 1024 ranks, all help", int(np.log2(1024)))

# %% [markdown]
# One by one, a broadcast takes $N-1$ steps. In a **tree** every rank that has the value sends it on, so the number of ranks that have it doubles with each step: it takes $\lceil\log_2 N\rceil$ steps.
#
# ### Exercise 4: broadcast as a tree
#
# *Difficulty ●●○, 15 minutes.* Broadcast rank 0's `value` on any communicator as a tree, with `send` and `recv`: $N - 1$ messages in $\lceil\log_2 N\rceil$ steps. Every rank returns rank 0's value; ignore the other ranks' `value`.
#
# <details><summary>Hint</summary>
#
# After $k$ steps ranks $0 \dots 2^k - 1$ have the value. In the next step each of them sends it to the rank $2^k$ further on, if there is one.
#
# </details>


# %% exercise="tree-broadcast"
def tree_broadcast(value, comm):
    """Return, on every rank of comm, the value that rank 0 has."""
    # BEGIN SOLUTION
    me, n, have = comm.Get_rank(), comm.Get_size(), 1
    while have < n:
        if me < have and me + have < n:
            comm.send(value, dest=me + have)
        elif have <= me < 2 * have:
            value = comm.recv(source=me - have)
        have *= 2
    return value
    # END SOLUTION


# %% check="tree-broadcast" points=3
check.tree_broadcast(tree_broadcast, cluster=cluster)

# %% [markdown]
# A rank's line is blue once it has the value. Count the blue lines after each step: your tree doubles them.

# %%
right_tree = check.tree_broadcast.passed(tree_broadcast, cluster=cluster)
if right_tree:
    cluster.run(lambda f: handed.append(f), tree_broadcast)

# %%
# %%ranks --trace your_tree
meet(comm)
for of_yours in handed:
    of_yours("from rank 0" if rank == 0 else None, comm)

# %%
if right_tree:
    messages.broadcasts({"one by one": one_by_one, "your tree": your_tree}, P.ranks)
    plt.show()
else:
    print("Exercise 4 first")

# %% [markdown]
# ### Groups
#
# `comm.Split(colour, key)` makes smaller communicators; all ranks of `comm` must call it. Ranks that give the same `colour` form a group, numbered from 0 in the order of `key`. Below, even ranks form one group and odd ranks another, and each group adds up its members' ranks in `comm`.

# %%
# %%ranks
group = comm.Split(rank % 2, key=rank)
print(f"I am rank {group.Get_rank()} of {group.Get_size()} in my group")
group.allreduce(rank)

# %% [markdown]
# A message in one communicator is never taken for a message in another. In training, ranks with the same part of a model average its gradients in one group.
#
# ### Exercise 5: rows and columns
#
# *Difficulty ●●○, 8 minutes.* Place the ranks of `comm` on a grid with two columns, row by row: ranks 0 and 1 in the first row, 2 and 3 in the second. `comm` may have any even number of ranks. Return the sums of `value` over the ranks of your row and of your column.
#
# <details><summary>Hint</summary>
#
# Call `Split` twice. Which number do all ranks of a row have in common? And all ranks of a column?
#
# </details>


# %% exercise="grid-sums"
def grid_sums(value, comm):
    """Return (sum over my row, sum over my column)."""
    # BEGIN SOLUTION
    rank = comm.Get_rank()
    row = comm.Split(rank // 2, key=rank)
    column = comm.Split(rank % 2, key=rank)
    return row.allreduce(value), column.allreduce(value)
    # END SOLUTION


# %% check="grid-sums" points=2
check.grid_sums(grid_sums, cluster=cluster)

# %% [markdown]
# ### What one message costs
#
# In Hockney's model (1994) a message of $m$ bytes takes
#
# $$t(m) = \alpha + \beta\, m.$$
#
# To measure $\alpha$ and $\beta$, ranks 0 and 1 play **ping-pong**: rank 0 sends a message, rank 1 sends it back, and half the round trip is the time of one message. We take the smallest of twelve medians.
#
# > **Predict.** Take the time of a message of 16 B as 1. What is the time of a message of 1 kB? And of 1 MB?

# %%
guess["1 kB ÷ 16 B"] = ...
guess["1 MB ÷ 16 B"] = ...

# %%
from helpers.board import offer
from helpers.collectives import cost, measure

with Others() as others:
    runs = [cluster.run(measure.ping_pong, measure.SIZES, 3, timeout=60)[0] for _ in range(12)]
samples = np.min(runs, axis=0)  # the quickest: whatever disturbs a measurement makes it longer
link = cost.fit(samples, "this machine")
m, seconds = samples.T
others.say()
for name, wanted in (("1 kB", 1_000), ("1 MB", 1_000_000)):
    near = np.abs(m - wanted).argmin()
    guess.answer(f"{name} ÷ 16 B", float(seconds[near] / seconds[m.argmin()]))

# %%
ax = messages.message_times(samples, link)
style.doubt(ax.figure, others)
plt.show()
offer("a message", **{"α [µs]": 1e6 * link.alpha, "1/β [GB/s]": 1e-9 * link.bandwidth})

# %% [markdown] claims="01-pickling"
# On the left the line is nearly flat: a message costs $\alpha$, whatever its size. On the right the time is proportional to the bytes. At the dashed line, $m = \alpha/\beta$, latency and bytes take equal time. By hand, with $\alpha$ = 3 µs and $1/\beta$ = 6 GB/s, 1 MB takes 3 + 167 = 170 µs. On a quiet machine, points off the line show what the model ignores, such as rendezvous.
#
# Does it matter what is sent? In the record, a pickled object takes longer than an array of the same size:

# %%
claims.evidence("01-pickling")

# %% [markdown]
# **Answer.** By an allreduce, such as a reduce and then a broadcast. A broadcast takes $N-1$ steps if the root alone sends, and $\lceil\log_2 N\rceil$ as a tree. A reduce is the same tree run backwards, so this allreduce takes $2\lceil\log_2 N\rceil$ steps. Each message takes about $\alpha + \beta m$. *Evidence: the steps of broadcasts, counted in your traces (the allreduce's follow from them); the line fitted to the measured times.*

# %% [markdown]
# ## Lesson 3. Four ranks: four times as fast?
#
# *18 minutes.* Four ranks share a computation. How many times as fast is it as on one rank, and what decides that?
#
# ### A picture in rows
#
# We compute a picture of the Mandelbrot set. Rank $r$ computes the rows $r, r + N, r + 2N, \dots$, and rank 0 gathers all rows. Then rank 0 alone smooths the picture and spreads its shades evenly. Every row takes 60 rounds, so the shares are equal.


# %%
# %%ranks
import numpy as np
from scipy.ndimage import median_filter


def mandelbrot(rows, height, width, rounds=60):
    """Count, for each pixel of the rows, for how many rounds z -> z² + c stays small."""
    c_real = np.linspace(-2.0, 0.6, width)
    image = np.zeros((len(rows), width), dtype=np.int16)
    for line, row in zip(image, rows, strict=True):
        c = c_real + 1j * 2.4 * (row / height - 0.5)
        z = np.zeros(width, dtype=complex)
        for _ in range(rounds):
            z = z * z + c
            small = z.real**2 + z.imag**2 < 4
            line += small
            z[~small] = 2 + 2j
    return image


# %%
# %%ranks
import time

from helpers.waiting import doze


def finish(image):
    """Smooth the picture and spread its shades evenly; needs the rows of all ranks."""
    smooth = median_filter(image, size=7)
    values, pixels = np.unique(smooth, return_counts=True)
    return np.interp(smooth, values, np.cumsum(pixels) / image.size)


# %% [markdown]
# `render` times the picture on the first $n$ ranks; the others `doze`, which keeps no core busy. `render` also returns which part of rank 0's time was serial; for $n = 1$ this is $s$. The clock `process_time` stands still while other programs have the core.


# %%
# %%ranks
def render(n, height, width):
    """Return the seconds, and the serial fraction of rank 0's processor time."""
    group, told = comm.Split(0 if rank < n else 1), None
    if rank < n:
        group.Barrier()
        begin, start = time.perf_counter(), time.process_time()
        parts = group.gather(mandelbrot(range(rank, height, n), height, width))
        if rank == 0:
            gathered, picture = time.process_time(), np.empty((height, width), dtype=np.int16)
            for peer, rows in enumerate(parts):
                picture[peer::n] = rows
            globals()["picture"] = finish(picture)
            end = time.process_time()
            told = time.perf_counter() - begin, (end - gathered) / (end - start)
    doze(comm)
    return told


# %% [markdown]
# ### The same work on more ranks: strong scaling
#
# Let $s$ be the serial fraction of $T_1$. If $N$ ranks with a core each share the rest evenly, **Amdahl's law** (1967) says
#
# $$T_N = s\,T_1 + \frac{(1-s)\,T_1}{N}, \qquad S_N = \frac{T_1}{T_N} = \frac{1}{s + (1-s)/N} < \frac{1}{s}.$$
#
# By hand, with $s = 0.2$ and $N = 4$: $S_4 = 1/(0.2 + 0.2) = 2.5$, and with any number of ranks never more than 5. With fewer cores than ranks, the number of cores takes the place of $N$: four ranks on two cores reach $1/(0.2 + 0.4) = 1.67$, as two ranks do.
#
# > **Predict.** Guess $s$ for our picture. Which speed-up do you expect on 2 and on 4 ranks of your machine?

# %%
guess["speed-up on 2 ranks"] = ...
guess["speed-up on 4 ranks"] = ...


# %%
def amdahl(N, s):
    return 1 / (s + (1 - s) / N)


counts, cores = [n for n in (1, 2, 4) if n <= P.ranks], usable_cores()
times = {n: [] for n in counts}
with Others() as others:
    for _ in range(5):
        for n in counts:
            told = cluster.run(lambda *a: render(*a), n, P.image_rows, P.image_columns)
            times[n].append(told[0])
quickest = {n: min(each) for n, each in times.items()}
serial = quickest[1][1]
speed_up = {n: quickest[1][0] / quickest[n][0] for n in counts}
print(f"one rank needs {quickest[1][0]:.3f} s, serial fraction s = {serial:.3f}")
others.say()
for n in counts[1:]:
    guess.answer(f"speed-up on {n} ranks", speed_up[n])

# %% [markdown]
# The solid line is the law with a core for each rank. With fewer cores, expect the dash-dotted line.

# %%
ax = messages.speed_ups(speed_up, amdahl, serial, cores)
style.doubt(ax.figure, others)
plt.show()
for n in counts[1:]:
    law = amdahl(min(n, cores), serial)
    tested = "not tested: busy machine" if others.disturb else f"{speed_up[n] / law - 1:+.0%}"
    print(f"N={n} on {cores} cores: {speed_up[n]:.2f}, by the law {law:.2f} ({tested})")

# %% [markdown]
# On two cores, four ranks cannot reach the solid line. Points may lie off their line by chance (each is the best of five runs). They may also lie below it: two cores may be one core shown as two ([00](00_start_here.ipynb)), and the law ignores messages and memory.

# %%
rendered = cluster.run(lambda: picture if rank == 0 else None)[0]
messages.mandelbrot_set(rendered, max(counts))
plt.show()

# %% [markdown]
# ### Exercise 6: how many ranks?
#
# *Difficulty ●●○, 9 minutes.* Turn Amdahl's law around: return the smallest whole number of ranks that reaches `speed_up` with the serial fraction `serial`, or `math.inf` (`import math`) if no number does.
#
# <details><summary>Hint</summary>
#
# Solve $1 / (s + (1-s)/N) \ge S$ for $N$, and round up. When is the divisor zero or negative?
#
# </details>


# %% exercise="ranks-for"
def ranks_for(speed_up, serial):
    """Return the smallest N with amdahl(N, serial) >= speed_up, or math.inf."""
    # BEGIN SOLUTION
    import math

    if serial > 0 and speed_up >= 1 / serial:
        return math.inf
    return math.ceil((1 - serial) / (1 / speed_up - serial) - 1e-9)
    # END SOLUTION


# %% check="ranks-for" points=2
check.ranks_for(ranks_for)

# %% [markdown]
# How many ranks does our picture need, with a core each and the measured serial fraction?

# %%
if check.ranks_for.passed(ranks_for):
    for wanted in (1.5, 2, 3, 10):
        needed = ranks_for(wanted, serial)
        words = f"{needed} ranks" if needed < float("inf") else "no number of ranks is enough"
        print(f"{wanted:3} times as fast: {words}")
else:
    print("Exercise 6 first")

# %% [markdown]
# **Answer.** No. With serial fraction $s$, four ranks with a core each are at most $1/(s + (1-s)/4)$ times as fast. They reach four only if $s = 0$, the shares are equal, and messages cost nothing. (People also use more ranks for *more* work: [A1](A1_more_of_mpi.ipynb).) *Evidence: the differences from Amdahl's law, printed above; on a busy machine only $s$ is measured.*

# %% [markdown]
# ## What breaks
#
# > **Predict.** In a ring every rank calls `Send` and then `Recv`. With 800 B it works. Does it with 8 MB ("yes" or "no")? In a second program rank 0 starts to send 8 MB of ones with `Isend`, and at once overwrites them with −1. What per cent of the numbers arrive as −1?

# %%
guess["the ring works with 8 MB"] = ...
guess["per cent of −1"] = ...

# %% [markdown]
# **Send first, then receive.** With 800 B the ring works:

# %%
# %%ranks
import time

import numpy as np

left, right = (rank - 1) % size, (rank + 1) % size
box = np.empty(100)
comm.Send(np.full(100, float(rank)), dest=right)
comm.Recv(box, source=left)
print("received", box[0])

# %% [markdown]
# We change only the size, to 8 MB:

# %% tags=["raises-exception"]
# %%ranks --timeout 3
box = np.empty(1_000_000)
comm.Send(np.full(1_000_000, float(rank)), dest=right)
comm.Recv(box, source=left)

# %%
guess.answer("the ring works with 8 MB", "no")

# %% [markdown]
# The program was always wrong; eager sends hid it (lesson 1). `Ssend` and `Issend`, which are never eager, find such places.
#
# **Overwrite too early.** `Isend` may return before MPI has read the array. Rank 0 changes the array at once:

# %%
# %%ranks --only 0,1
if rank == 0:
    weights = np.ones(1_000_000)
    request = comm.Isend(weights, dest=1)
    weights[:] = -1  # too early: the request is not done
    request.Wait()
else:
    time.sleep(0.05)
    weights = np.zeros(1_000_000)
    comm.Recv(weights, source=0)
    print(f"rank 0 sent ones; {np.mean(weights == -1):.0%} of what arrived is -1")

# %%
arrived = cluster.run(lambda: weights if rank == 1 else None)[1]
guess.answer("per cent of −1", float(100 * np.mean(arrived == -1)))

# %% [markdown] claims="01-overwritten"
# MPI gives no warning. Between `Isend` and the end of `Wait` the array belongs to MPI. A test with small arrays may hide the fault: in twenty recorded runs of each size, 8 MB always arrived wrong and 800 B never.

# %%
claims.evidence("01-overwritten")

# %% [markdown]
# ## Project: a world of cells on four ranks
#
# *Difficulty ●●●, 25 minutes.* Conway's *Game of Life*: a cell lives in the next generation if exactly three of its eight neighbours live now, or if the cell itself and exactly two neighbours live now. The board's top row is a neighbour of its bottom row, and its left column is a neighbour of its right column. `evolve` computes the next generation of all rows that it is given except the first and the last, which serve only as neighbours. Below, a bar of three cells turns; five rows go in, three come out.


# %%
def evolve(rows):
    """Return the next generation of these rows, without the first and the last one."""
    around = np.zeros(rows.shape, int)
    for i, j in [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]:
        around += np.roll(rows, (i, j), (0, 1))
    return ((around == 3) | (rows & (around == 2)))[1:-1]


bar = np.zeros((5, 5), dtype=bool)
bar[2, 1:4] = True
print(bar.astype(int), evolve(bar).astype(int), sep="\n\n")

# %% [markdown]
# The ranks share the board by rows: rank 0 has the top rows, the last rank the bottom rows. For each generation a rank needs one row from the rank above and one from the rank below, its *halo*.
#
# Write `life`: a rank is given only its own rows, `mine` (an array of bool), and returns them after `steps` generations. In each generation send one row to each neighbour, without collectives. A row may be of any length, and a rank may have a single row. With two ranks the rank above is also the rank below; a single rank is its own neighbour.
#
# <details><summary>Hint</summary>
#
# Call `sendrecv` twice for each generation. In the first call every rank sends its first row up: which row does it receive in that call, and from whom? `np.vstack` puts the received rows around your own.
#
# </details>


# %% exercise="life"
def life(mine, steps, comm):
    """Return this rank's rows of the board after so many generations."""
    # BEGIN SOLUTION
    n, me = comm.Get_size(), comm.Get_rank()
    above, below = (me - 1) % n, (me + 1) % n
    for _ in range(steps):
        under = comm.sendrecv(mine[:1], dest=above, source=below)
        over = comm.sendrecv(mine[-1:], dest=below, source=above)
        mine = evolve(np.vstack([over, mine, under]))
    return mine
    # END SOLUTION


# %% check="life" points=5
check.life(life, cluster=cluster)

# %% [markdown]
# A *glider* moves one cell down and one to the right in four generations. The dashed lines are the borders between ranks; in generations 8 and 24 the glider is on two ranks.

# %%
board = np.zeros((16, 16), dtype=bool)
board[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = True
lives, worlds = check.life.passed(life, cluster=cluster), {}
for steps in (0, 8, 24):
    parts = np.split(board, P.ranks)
    if lives:
        parts = cluster.run(lambda f, parts, steps: f(parts[rank], steps, comm), life, parts, steps)
    worlds[f"generation {steps}" if lives else f"generation {steps}: not solved yet"] = parts
messages.boards(worlds)
plt.show()

# %% [markdown]
# <details><summary><b>What the sources say, what we measured</b></summary>
#
# Rows 1 to 3 are from a blog post of 2018, *Distributed Stochastic Gradient Descent with MPI and PyTorch*; rows 4 and 5 from a tutorial, *Doing Deep Learning in Parallel with PyTorch*.
#
# | the sources say | here |
# |---|---|
# | a blocking call is blocked *until the send or receive is finished* | lesson 1: *finished* means on your side; `Send` of 8 B returned before the receiver came, `Send` of 4 MB waited for it |
# | the programmer must schedule so that messages of workers are not mixed | messages do not mix: a receive may name its source and tag |
# | collectives, for example reduce and gather | lesson 2: six by hand agree with MPI's |
# | a number goes 0 → 1 → 2 → 3, one is added each time | the first picture: rank 3 receives 3, as ranks 1 and 2 add one each |
# | reduce overwrites the input with the sum of all processes | lesson 2: only with `IN_PLACE`; after a reduce only the root has the sum |
#
# </details>
#
# The appendix [A1](A1_more_of_mpi.ipynb) starts ranks by hand, hands tasks to whoever is free, compares MPI with MapReduce, computes while messages travel, and gives more ranks more work.
#
# **In practice** you call collectives: MPI's, or for GPUs NVIDIA's NCCL through `torch.distributed` ([02](02_sgd_sync_async.ipynb)). You write sends and receives only for a pattern of your own. A *CUDA-aware* MPI sends arrays straight from a GPU's memory. On a cluster `srun` or `mpirun` starts the ranks; `Cluster(n, start=Slurm())` does it from the notebook.
#
# **References**
#
# - [The MPI standard, version 4.1](https://www.mpi-forum.org/docs/): chapter 3 says exactly when a send may return.
# - [mpi4py's tutorial](https://mpi4py.readthedocs.io/en/stable/tutorial.html): the same calls, in short examples.
# - L. Lamport (1978), *Time, clocks, and the ordering of events in a distributed system*: lanes and arrows.
# - R. Hockney (1994), *The communication challenge for MPP*: $\alpha + \beta m$.
# - G. Amdahl (1967), *Validity of the single processor approach*: the law, in a few pages.
#
# **Next**: [08 Watch an allreduce happen, and price it](08_allreduce_animation.ipynb) takes allreduce apart.

# %%
cluster.stop()
