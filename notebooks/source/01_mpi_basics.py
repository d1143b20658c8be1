# %% [markdown]
# # Let processes work together by messages
#
# You will make four processes exchange messages in every way that the course needs. You will see each message on a timeline, break a program on purpose, and measure what a message costs on your machine.

# %% [markdown]
# **You will be able to**
#
# - write a program of many [ranks](glossary.md#rank) with blocking and non-blocking messages, and run it in a notebook and with `mpiexec`;
# - read a timeline and a table of who waits for whom, and find a [deadlock](glossary.md#deadlock);
# - build broadcast, scatter, gather, reduce, allgather and allreduce from sends and receives;
# - predict how long a message takes, and the speed-up with more ranks.
#
# **You need** [00_start_here](00_start_here.ipynb) and some NumPy. *Time:* 175 minutes, of which your machine works for less than two; the project takes another 40. *Cores:* any number; with one core the timings in the last part say little. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning |
# |---|---|
# | $N$ | number of ranks, numbered $0 \dots N-1$ |
# | $m$ | size of a message, in bytes (B) |
# | $\alpha$ | [latency](glossary.md#latency): the time of the shortest message |
# | $\beta$ | time for each byte; $1/\beta$ is the [bandwidth](glossary.md#bandwidth) |
# | $T_N$ | time of a computation on $N$ ranks |
# | $S_N$ | [speed-up](glossary.md#speed-up) on $N$ ranks |
# | $s$ | [serial fraction](glossary.md#serial-fraction): the part of $T_1$ that only one rank can do |
# | step | one round of messages: each rank sends at most one and receives at most one, and forwards data only in a later round than it arrived |

# %% [markdown]
# ## Set-up

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from helpers import claims
from helpers.cluster import Cluster
from helpers.exercises import mpi_basics as check
from helpers.exercises.predictions import Predictions
from helpers.plots import style
from helpers.plots.timeline import timeline
from helpers.plots.timeline_html import timeline_html

# %load_ext helpers.cluster
style.use()


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    image_rows: int = 320  # of the picture whose computation is shared among ranks
    image_columns: int = 640


# %%
P = Parameters()
guess = Predictions()
cluster = Cluster(n=P.ranks)

# %% [markdown]
# You now have four processes. None can read another's variables: what one process needs from another must be sent to it. Below, a number goes from rank 0 to rank 3, and each rank on the way adds one.

# %%
# %%ranks --trace first
from helpers.waiting import meet

meet(comm)  # all ranks begin at one moment
if rank == 0:
    comm.send(1, dest=1)
else:
    number = comm.recv(source=rank - 1)
    if rank < size - 1:
        comm.send(number + 1, dest=rank + 1)

# %%
timeline(first, title="Four processes, three messages, just now on this machine")
plt.show()

# %% [markdown]
# Each lane is a rank, each box an MPI call (short ones are drawn wider), each arrow a message. Hatching means that the call is waiting for another rank's matching call. `--trace` recorded these calls. `meet` makes all ranks begin at the same moment.

# %% [markdown]
# ## Who am I, and how many are we?
#
# All ranks run **the same program**. They differ only in their number: `rank` is a rank's own number, and `size` is how many ranks there are. Both come from a [communicator](glossary.md#communicator), a group of ranks that send messages to each other. `comm` is the communicator of all ranks, `MPI.COMM_WORLD`.
#
# > **Predict:** the cell below gives `x` another value on rank 0 only. What will `x` be on rank 3? Type your predictions in place of the dots. The notebook shows them beside the answers.

# %%
guess["x on rank 3"] = ...

# %%
# %%ranks
import os

x = "nothing"
if comm.Get_rank() == 0:
    x = "something"
print(f"I am rank {rank} of {comm.Get_size()}, process {os.getpid()}: my x is {x}")

# %%
guess.answer("x on rank 3", cluster.run(lambda: x)[3])

# %% [markdown]
# Rank 3's `x` is unchanged: each process has its own, and no variable is shared.
#
# ### The same cell without a notebook
#
# `%%ranks` gives a cell the names `MPI`, `comm`, `rank` and `size`. A script gets them in three lines, and `mpiexec -n 4 python script.py` runs it as four processes. The cell above, as a script:

# %%
from helpers.cluster.script import as_script, run_script

script = as_script(containing="I am rank")
print(script)

# %%
print(run_script(script, n=4, launcher="mpiexec"))

# %% [markdown]
# The lines come from four other processes. Their order may change from run to run, because each process prints when it gets there. The notebook sorts the output by rank.

# %% [markdown]
# ## Send and receive
#
# `comm.send(value, dest=1)` sends any Python object; `pickle` turns it into bytes. `comm.recv(source=0)` waits for a message from rank 0 and returns the object. The send names the receiver, and the receive names the sender.

# %%
# %%ranks
if rank == 0:
    comm.send({"lesson": 1, "ranks": [0, 1, 2, 3]}, dest=1)
elif rank == 1:
    print("received", comm.recv(source=0))

# %% [markdown]
# The upper-case calls `Send` and `Recv` send a NumPy array's memory without pickling. The receiver provides an array of the right size, and MPI writes the bytes into it. Use these calls for anything large.

# %%
# %%ranks
import numpy as np

if rank == 0:
    comm.Send(np.arange(4.0), dest=1)
elif rank == 1:
    box = np.empty(4)
    comm.Recv(box, source=0)
    print("received", box)

# %% [markdown]
# ### Exercise 1: your first message
#
# *Difficulty ●○○, 5 minutes.* Send rank 0's `value` to the *last* rank of `comm`, in one message. The last rank returns the value; all other ranks return `None`. A single rank is both the first and the last, and sends nothing. Ask the communicator: `comm.Get_rank()`, `comm.Get_size()`.
#
# <details><summary>Hint</summary>
#
# Three cases: I am alone; I am rank 0; I am the last. What do all the others do?
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
# Your function on the ranks: rank 0 hands over its process number.

# %%
if check.hand_over.passed(hand_over, cluster=cluster):
    received = cluster.run(lambda f: (os.getpid(), f(os.getpid(), comm)), hand_over)
    for which, (own, came) in enumerate(received):
        print(f"rank {which} is process {own}; your function returned {came}")
else:
    print("Exercise 1 first")

# %% [markdown]
# ### The chain 0 → 1 → 2 → 3
#
# The number starts as 0 on rank 0. Each rank adds one and sends it on: rank 0 sends 1, rank 1 sends 2, rank 2 sends 3, and rank 3 makes it 4.

# %%
# %%ranks --trace chain
meet(comm)
number = 0
if rank > 0:
    number = comm.recv(source=rank - 1)
number += 1
if rank < size - 1:
    comm.send(number, dest=rank + 1)
number

# %%
held = cluster.run(lambda: number)
assert held == [1, 2, 3, 4]
timeline_html(chain)

# %% [markdown]
# Point at a box or an arrow to see its details. Every rank waits for the rank before it, so no two of the $N-1$ messages travel at the same time. The trace counts the *steps* (see *Notation*):

# %%
print(f"steps: {chain.steps()}, bytes sent: {chain.bytes_sent()}")

# %% [markdown]
# ## Blocking and non-blocking
#
# `send` and `recv` are **[blocking](glossary.md#blocking)**: they return when *your side* is done. A receive is done when the message has arrived. A send is done when you may overwrite what you sent, even if the message has not arrived. **[Non-blocking](glossary.md#non-blocking)** calls, `isend` and `irecv`, return at once with a [request](glossary.md#request). Later, `request.wait()` blocks until your side is done.
#
# In the next cell rank 1 computes for 20 ms before it receives. (`--only 0,1` runs a cell on two ranks. `comm.Split`, explained under *Groups*, makes a communicator of these two.)
#
# > **Predict:** after how many milliseconds does each of these calls on rank 0 return: `Send` of 8 bytes, `Send` of 4 MB, `Isend` of 4 MB?

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
    meet(pair)  # both begin this round at one moment
    if rank == 0:
        begin = time.perf_counter()
        request = comm.Isend(data, dest=1) if "non" in mode else comm.Send(data, dest=1)
        print(f"{mode:20} returned after {1e3 * (time.perf_counter() - begin):7.3f} ms")
        if request is not None:
            request.Wait()
    else:
        time.sleep(0.02)  # rank 1 computes
        comm.Recv(data, source=0)

# %%
took = {f"{e.call}, {'8 B' if e.bytes == 8 else '4 MB'}": 1e3 * e.duration for e in returns.of(0)}
for call in ("Send, 8 B", "Send, 4 MB", "Isend, 4 MB"):
    guess.answer(f"ms of {call}", round(took[call], 3))

# %%
timeline(returns, title="What returns when: rank 0 sends to a rank that is busy")
plt.show()

# %% [markdown]
# `Send` of 8 B returned long before rank 1 received: the library copied the bytes, and rank 0 could go on. This is an **[eager](glossary.md#eager)** send. `Send` of 4 MB waited (hatched) until rank 1 called `Recv`, and only then moved the bytes. This is a **[rendezvous](glossary.md#rendezvous)**. `Isend` of 4 MB returned at once, and `Wait` did the waiting.

# %% [markdown] claims="01-send-waits 01-isend-returns"
# Eight runs on an idle machine agree. `Send` waits for a busy receiver at 4 MB and not at 8 B; `Isend` waits at neither size.

# %%
for name in ("01-send-waits", "01-isend-returns"):
    display(claims.evidence(name))

# %% [markdown]
# The *effect* compares the second column with the third, with its 95 % interval. Each claim has a *margin*, the smallest effect that counts; for `Send` it is 25 %.
#
# - *holds*: the interval excludes "no difference", and the effect reaches the margin in the claimed direction;
# - *fails*: the same, in the opposite direction;
# - *ties*: the whole interval lies within the margin;
# - *open*: none of these.
#
# ### Where does eager end?
#
# The MPI standard leaves this to the library, so we measure it. The receiver comes 15 ms late. From which size on does `Send` wait?


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
late_sends = [[send_seconds(nbytes) for _ in range(3)] for nbytes in late_sizes]

# %%
asked, found = cluster.run(lambda: (late_sizes, late_sends))[0]
found = np.median(found, axis=1)  # of three, since other programs may disturb one
waited = [nbytes for nbytes, t in zip(asked, found, strict=True) if t > 0.0075]
eager = [nbytes for nbytes in asked if nbytes < min(waited)]
figure, ax = plt.subplots()
ax.loglog(asked, 1e3 * found, marker="o")
ax.axhline(15, color=style.GREY, linestyle="--", label="the receiver comes")
ax.axvspan(max(eager), min(waited), color=style.SKY, alpha=0.4, label="eager ends in this range")
ax.set(xlabel="size of the message [B]", ylabel="Send returns after [ms]")
ax.set_title(f"Eager up to {max(eager)} B, rendezvous from {min(waited)} B")
ax.legend()
plt.show()

# %% [markdown]
# Left of the band `Send` returns without waiting; right of it `Send` waits the whole 15 ms. Only the size changed. A program that relies on `Send` to return early works until somebody uses more data or another library.

# %% [markdown]
# ### What non-blocking is for
#
# Three new calls: `comm.Irecv(box, source)` starts a receive and returns a request. `comm.Sendrecv` sends one array and receives another. `MPI.Request.Waitall(requests)` waits for several requests.
#
# Two ranks exchange 16 MB and compute, in two ways. First they exchange, then compute. Next they start the exchange, compute, and wait for its end.
#
# > **Predict:** how long does `Waitall` take, compared with `Sendrecv`? About 0 if all bytes move while the ranks compute, about 1 if none do.

# %%
guess["Waitall ÷ Sendrecv"] = ...

# %%
# %%ranks --only 0,1
out, box, other = np.ones(2_000_000), np.zeros(2_000_000), 1 - rank


def compute():
    for _ in range(8):
        np.sqrt(out)


comm.Sendrecv(out, dest=other, recvbuf=box, source=other)

# %%
# %%ranks --only 0,1 --trace overlap
meet(pair)
comm.Sendrecv(out, dest=other, recvbuf=box, source=other)
compute()
requests = [comm.Irecv(box, source=other), comm.Isend(out, dest=other)]
compute()
_ = MPI.Request.Waitall(requests)

# %%
timeline(overlap, title="Sendrecv, then compute; then Irecv, Isend, compute, Waitall")
plt.show()

# %%
took = {event.call: 1e3 * event.duration for event in overlap.of(0)}
for call, ms in took.items():
    print(f"{call:9} {ms:6.2f} ms")
guess.answer("Waitall ÷ Sendrecv", took["Waitall"] / took["Sendrecv"])
claims.evidence("01-overlap")

# %% [markdown] claims="01-overlap"
# The bytes did not move while the ranks computed (between the boxes). In the recorded runs with 16 MB, `Waitall` takes as long as the whole exchange by `Sendrecv`. Your own ratio is one run; it can exceed 1 if the other rank computes longer.
#
# So inside one machine, non-blocking calls do not hide the transfer of a long message. They do spare you the wait for a late rank, as we see next.

# %% [markdown]
# ### A whole group can be begun, too
#
# `Allreduce` adds up arrays as `allreduce` adds up numbers, and returns when all ranks have called it. `comm.Iallreduce(mine, total)` starts the same sum and returns a request. Leave both arrays alone until its `Wait` has returned.
#
# Rank 3 comes 60 ms late, twice. First the other ranks call `Allreduce` and then compute for 40 ms. Next they call `Iallreduce`, compute for 40 ms, and then wait.
#
# > **Predict:** how many ms does rank 0 spend in `Allreduce`, and how many in the `Wait` after `Iallreduce`?

# %%
guess["ms in Allreduce"] = ...
guess["ms in Wait"] = ...

# %%
# %%ranks --trace begun
import time

mine, total, numbers = np.full(100, float(rank)), np.empty(100), np.ones(100_000)


def work_for(seconds):
    """Compute for so long; return how many square roots were taken."""
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        done += len(np.sqrt(numbers))
    return done


for calls in ("Allreduce", "Iallreduce, Wait"):
    meet(comm)
    if rank == 3:
        time.sleep(0.06)  # comes late
    request = comm.Iallreduce(mine, total) if "Wait" in calls else comm.Allreduce(mine, total)
    done = work_for(0.04) if rank < 3 else 0
    if request is not None:
        request.Wait()
    print(f"{calls:17}: sum {total[0]:g}, after {done:,} square roots")

# %%
timeline(begun, title="Rank 3 comes late: Allreduce, compute; Iallreduce, compute, Wait")
plt.show()
took = {event.call: 1e3 * event.duration for event in begun.of(0)}
for name in ("Allreduce", "Wait"):
    guess.answer(f"ms in {name}", took[name])

# %% [markdown]
# The second time, ranks 0 to 2 computed while rank 3 was on its way, and waited only for the rest of the 60 ms (hatched). Training averages one layer's gradients in this way while it computes the next layer's.

# %% [markdown]
# ### Exercise 2: which statements hold?
#
# *Difficulty ●○○, 3 minutes.* Rank 0 sends the array `box` to rank 1. Which statements are true for *any* MPI library and *any* size? Give their letters, such as `"AB"`. (`Ssend`, a *synchronous* send, is a `Send` that is never eager.)
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
# ## Deadlock, and how to read it
#
# Four ranks form a ring. Each needs its left neighbour's number, so each receives from the left and then sends to the right. The notebook ends the cell after 3 seconds.
#
# > **Predict:** for which rank does rank 0 wait, if for any?

# %%
guess["rank 0 waits for rank"] = ...

# %% tags=["raises-exception"]
# %%ranks --timeout 3
left, right = (rank - 1) % size, (rank + 1) % size
got = comm.recv(source=left)
comm.send(rank, dest=right)

# %% [markdown]
# The table's first line has the answer: rank 0 waits for rank 3. Every rank receives before it sends, so no rank ever sends. Follow the table: rank 3 waits for rank 2, rank 2 for rank 1, and rank 1 for rank 0.
#
# Ranks that wait for each other so that none can go on are in a [deadlock](glossary.md#deadlock). Here the table shows a circle. It need not: ranks can also wait in a collective that one rank never calls. Outside the notebook nothing ends such a program. Ask each of its ranks: in which call, for which rank, with which tag, since when?
#
# The time limit restarted the ranks, so we import and define again:

# %%
# %%ranks
import time

import numpy as np

from helpers.waiting import meet

left, right = (rank - 1) % size, (rank + 1) % size
full, empty = np.full(1_000_000, float(rank)), np.empty(1_000_000)
comm.Sendrecv(full, right, 0, empty, left, 0)  # the first use of memory costs extra

# %% [markdown]
# There are three cures. *Order*: even ranks send first, odd ranks receive first. *Both at once*: `comm.sendrecv`. *Requests*: start the send or the receive without blocking. Here is the second cure, with arrays of 8 MB, so that you can see the messages.

# %%
# %%ranks --trace ring
meet(comm)
comm.Sendrecv(full, right, 0, empty, left, 0)
empty[0]

# %%
assert cluster.run(lambda: int(empty[0])) == [3, 0, 1, 2]
timeline(ring, title="The ring: each rank sends to the right, and receives from the left")
plt.show()
inside = max(e.begin for e in ring.events) < min(e.end for e in ring.events)
print("all four ranks were in their call at the same time:", inside)

# %% [markdown]
# ### Exercise 3: shift around the ring
#
# *Difficulty ●●○, 8 minutes.* Write the ring yourself, with requests and without `sendrecv`: send `value` to the right neighbour, and return the value that the left neighbour sent. `comm` may have any number of ranks, one included; `value` may be of any size.
#
# <details><summary>Hint</summary>
#
# Start the send with `isend`, receive, and end with `wait` on the request: until then the message is still under way.
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
# ## Tags, and a receive from anyone
#
# A message carries a [tag](glossary.md#tag), a number that you choose. A receive with a tag takes only messages with that tag. Here rank 0 takes rank 1's second message first:

# %%
# %%ranks
if rank == 1:
    comm.send("sent first, tag 10", dest=0, tag=10)
    comm.send("sent second, tag 20", dest=0, tag=20)
elif rank == 0:
    print(comm.recv(source=1, tag=20))
    print(comm.recv(source=1, tag=10))

# %% [markdown]
# Two messages from the same sender *with the same tag* never overtake each other. Messages from different senders may come in any order. `source=MPI.ANY_SOURCE` takes whichever comes first, and a `Status` says who sent it. Below, ranks 1 to 3 work for different times, and rank 0 serves them in the order in which they finish.

# %%
# %%ranks --trace anyone
import time

if rank == 0:
    status = MPI.Status()
    for _ in range(size - 1):
        result = comm.recv(source=MPI.ANY_SOURCE, status=status)
        print(f"{result} from rank {status.Get_source()}, tag {status.Get_tag()}")
else:
    time.sleep(0.05 * (size - rank))  # rank 3 is done first
    comm.send(rank**2, dest=0, tag=rank)

# %%
timeline(anyone, title="Rank 0 serves whoever comes first")
plt.show()

# %% [markdown]
# This loop is a server that hands out work. You no longer choose who is next; the `Status` still tells you who it was.
#
# ### Exercise 4: a queue of tasks
#
# *Difficulty ●●○, 12 minutes.* Each worker runs `work`: it sends its last result (at first `None`), receives a task, and ends when the task is `None`. Write rank 0: give each task to the next worker that asks, collect the results in a dictionary `{task: result}`, and in the end send every worker `None`. No worker may wait while tasks are left, however slow another worker is.


# %%
# %%ranks
def work(compute, comm):
    result = None
    while True:
        comm.send(result, dest=0)
        task = comm.recv(source=0)
        if task is None:
            return
        result = (task, compute(task))


# %% [markdown]
# <details><summary>Hint</summary>
#
# How many messages will come? One for each task, and one more from each worker. Answer each at once: with a task, or with `None`.
#
# </details>


# %% exercise="hand-out"
def hand_out(tasks, comm):
    """On rank 0: give each task to whoever asks; return {task: result}."""
    # BEGIN SOLUTION
    results, status, left = {}, MPI.Status(), list(tasks)
    for _ in range(len(tasks) + comm.Get_size() - 1):
        done = comm.recv(source=MPI.ANY_SOURCE, status=status)
        if done is not None:
            results[done[0]] = done[1]
        comm.send(left.pop(0) if left else None, dest=status.Get_source())
    return results
    # END SOLUTION


# %% check="hand-out" points=3
check.hand_out(hand_out, cluster=cluster)

# %% [markdown]
# ## MPI or MapReduce?
#
# In [MapReduce](glossary.md#mapreduce) you write two functions. `mapper` makes (key, value) pairs from a piece of the input; `reducer` combines all values of a key into one. A framework assigns the work, sends the messages, and repeats tasks that fail. In MPI you do all of this. We count the words of Python's language reference in both ways:

# %%
from pydoc_data.topics import topics

documents = list(topics.values())
print(f"{len(documents)} documents, {sum(map(len, documents)) / 1000:.0f} kB of text")
print(documents[0][:200])

# %% [markdown]
# > **Predict:** four ranks count. How many messages will the MPI program send? How many will MapReduce send, which hands out one document at a time? How many times as long will MapReduce take?

# %%
guess["messages, MPI"] = ...
guess["messages, MapReduce"] = ...
guess["time, MapReduce ÷ MPI"] = ...

# %% [markdown]
# **MPI**: you decide which rank counts what, which rank adds up, and who sends what to whom.

# %%
# %%ranks --trace by_mpi
from collections import Counter
from pydoc_data.topics import topics

mine = list(topics.values())[rank::size]  # I decide who counts what
counts = Counter(word for text in mine for word in text.lower().split())
if rank == 0:
    for peer in range(1, size):  # and who adds up, and in which order
        counts += comm.recv(source=peer)
else:
    comm.send(counts, dest=0)

# %% [markdown]
# **MapReduce**: you write what to do with one document and with one word.

# %%
# %%ranks --trace by_mapreduce
from helpers.mapreduce import mapreduce


def mapper(text):
    for word in text.lower().split():
        yield word, 1


def reducer(word, ones):
    return sum(ones)


reduced = mapreduce(list(topics.values()), mapper, reducer, comm)

# %%
counted, again = cluster.run(lambda: (counts, reduced))[0]
assert counted == again
print("the same", len(counted), "words;", ", ".join(f"{w}: {n}" for w, n in counted.most_common(6)))
figure, axes = plt.subplots(2, figsize=(11, 7), sharex=True)
for trace, name, ax in ((by_mpi, "MPI", axes[0]), (by_mapreduce, "MapReduce", axes[1])):
    title = f"{name}: {len(trace.messages)} messages, {1e3 * trace.duration:.0f} ms"
    timeline(trace, ax, title=title, labels=False, arrows=name == "MPI")
plt.show()
guess.answer("messages, MPI", len(by_mpi.messages))
guess.answer("messages, MapReduce", len(by_mapreduce.messages))
guess.answer("time, MapReduce ÷ MPI", by_mapreduce.duration / by_mpi.duration)

# %% [markdown]
# Both programs count the same words. (MapReduce's arrows are left out.) In the MPI program ranks 1 to 3 send one message each: their counts. In MapReduce rank 0 only hands out documents; then all ranks exchange pairs, so that each word has one owner.
#
# The times do not compare MPI with MapReduce in general: our mapper sends a pair for every single word, and the MPI program adds up each rank's words before it sends.
#
# MapReduce keeps its workers busy while documents are left, and tries a failed task again:

# %%
# %%ranks
import numpy as np


def fragile(text):
    if rank == 2 and rng.random() < 0.4:
        failures.append(text)
        raise OSError("rank 2 has a bad disk")
    yield from mapper(text)


rng, failures = np.random.default_rng(7), []
again = mapreduce(list(topics.values()), fragile, reducer, comm, attempts=20)
assert again == reduced
if rank == 2:
    print(f"my mapper failed {len(failures)} times")

# %% [markdown]
# The mapper failed on rank 2, and the result is the same: the scheduler gave those documents to the next ranks that asked. In the MPI program rank 0 would have waited for ever for rank 2's message.
#
# MapReduce fits one pass over much data. MPI fits iterations with much communication, such as training and simulation.
#
# The framework's scheduler uses only calls that you know:

# %%
import inspect

from helpers import mapreduce as framework

print(inspect.getsource(framework._schedule))

# %% [markdown]
# ### Exercise 5: in how many documents?
#
# *Difficulty ●○○, 5 minutes.* A word's *document frequency* is the number of documents that contain it, however often it occurs in each. Write `mapper_df` and `reducer_df`; words are what `text.split()` gives.
#
# <details><summary>Hint</summary>
#
# Each document should report each of its words once. Which Python type holds no duplicates?
#
# </details>


# %% exercise="document-frequency"
def mapper_df(text):
    """Yield (word, value) pairs."""
    # BEGIN SOLUTION
    for word in set(text.split()):
        yield word, 1
    # END SOLUTION


def reducer_df(word, values):
    """Return the number of documents with the word."""
    # BEGIN SOLUTION
    return sum(values)
    # END SOLUTION


# %% check="document-frequency" points=2
check.document_frequency(mapper_df, reducer_df)

# %% [markdown]
# Your two functions, over the whole text:


# %%
def most_frequent(mapper, reducer):
    from pydoc_data.topics import topics

    from helpers.mapreduce import mapreduce

    found = mapreduce(list(topics.values()), mapper, reducer, comm)
    return sorted(found.items(), key=lambda pair: -pair[1])[:6] if rank == 0 else None


try:
    print(cluster.run(most_frequent, mapper_df, reducer_df)[0])
except Exception as error:
    print("not yet:", type(error).__name__)

# %% [markdown]
# ## Collectives, each first by hand
#
# Some patterns of messages are so common that MPI has a call for each. Such a [collective](glossary.md#collective) must be called by *all* ranks of the communicator. Below, each is first written with `send` and `recv` and then compared with MPI's own. `root` is the rank that has, or gets, everything.
#
# **Broadcast** and **scatter**: the root sends every rank the same value (broadcast) or a different one (scatter).


# %%
# %%ranks --trace one_to_all
def broadcast(value, root=0):
    if rank == root:
        for peer in range(size):
            if peer != root:
                comm.send(value, dest=peer)
        return value
    return comm.recv(source=root)


def scatter(values, root=0):
    if rank == root:
        for peer in range(size):
            if peer != root:
                comm.send(values[peer], dest=peer)
        return values[root]
    return comm.recv(source=root)


seven, part = broadcast(7 if rank == 0 else None), scatter([0, 10, 20, 30] if rank == 0 else None)

# %%
# %%ranks
assert seven == comm.bcast(7 if rank == 0 else None, root=0)
assert part == comm.scatter([0, 10, 20, 30] if rank == 0 else None, root=0)
print(f"broadcast gave me {seven}, scatter gave me {part}")

# %% [markdown]
# **Gather** and **reduce**: every rank sends a value to the root, which makes a list of them (gather) or combines them by `MPI.SUM`, `MPI.MAX` or another operation (reduce).


# %%
# %%ranks --trace all_to_one
def gather(value, root=0):
    if rank != root:
        comm.send(value, dest=root)
        return None
    return [value if peer == root else comm.recv(source=peer) for peer in range(size)]


def reduce(value, root=0):
    values = gather(value, root)
    return sum(values) if rank == root else None


numbers, total = gather(rank + 1), reduce(rank + 1)

# %%
# %%ranks
assert numbers == comm.gather(rank + 1, root=0)
assert total == comm.reduce(rank + 1, op=MPI.SUM, root=0)
print(f"gather gave me {numbers}, reduce gave me {total}")

# %% [markdown]
# Only the root has the sum; the other ranks got `None`. Does a reduction change the array that goes in? With a separate receive buffer it does not. With `MPI.IN_PLACE` the result replaces the input:

# %%
# %%ranks
mine, summed = np.full(2, float(rank + 1)), np.empty(2)
comm.Allreduce(mine, summed)
kept = mine.copy()
comm.Allreduce(MPI.IN_PLACE, mine)
print(f"with a receive buffer {kept} is kept; in place it becomes {mine}")

# %% [markdown]
# **Allgather** and **allreduce**: every rank gets the result. The simplest way is to collect at a root and broadcast.


# %%
# %%ranks --trace all_to_all
meet(comm)


def allgather(value):
    return broadcast(gather(value))


def allreduce(value):
    return broadcast(reduce(value))


everything, sum_everywhere = allgather(rank + 1), allreduce(rank + 1)

# %%
# %%ranks
assert everything == comm.allgather(rank + 1)
assert sum_everywhere == comm.allreduce(rank + 1, op=MPI.SUM)
print(f"allgather gave me {everything}, allreduce gave me {sum_everywhere}")

# %%
timeline(all_to_all, labels=False, title="allgather, then allreduce, by hand")
plt.show()
print(f"{len(all_to_all.messages)} messages in {all_to_all.steps()} steps")

# %% [markdown]
# All twelve messages go through rank 0, and the number of steps grows in proportion to $N$. In a **tree** every rank that has the value sends it on. The number of ranks that have it doubles with each step, so a broadcast takes $\lceil\log_2 N\rceil$ steps.
#
# > **Predict:** how many steps does a broadcast to 1024 ranks take if rank 0 sends one message after another? And as a tree?

# %%
guess["steps to 1024 ranks, one by one"] = ...
guess["steps to 1024 ranks, as a tree"] = ...

# %%
# %%ranks --trace as_a_tree
import numpy as np

from helpers import collectives

tree = np.array([7.0 if rank == 0 else 0.0])
collectives.broadcast(tree, comm, root=0)
assert tree[0] == 7

# %%
totals = cluster.run(lambda: total)
flat = one_to_all.steps() // 2  # that cell made a broadcast and a scatter, equally long
print(f"broadcast on {P.ranks} ranks: {flat} steps one by one, {as_a_tree.steps()} as a tree")

# %%
guess.answer("steps to 1024 ranks, one by one", 1023)
guess.answer("steps to 1024 ranks, as a tree", 10)

# %% [markdown]
# These are steps, not seconds; [08_allreduce_animation](08_allreduce_animation.ipynb) measures seconds.

# %% [markdown]
# ### Exercise 6: broadcast as a tree
#
# *Difficulty ●●○, 12 minutes.* Broadcast rank 0's `value` on any communicator as a tree, with `send` and `recv`: $N - 1$ messages in $\lceil\log_2 N\rceil$ steps. Every rank returns the value.
#
# <details><summary>Hint</summary>
#
# After step $k$ ranks $0 \dots 2^k - 1$ have the value. In the next step each of them sends it to the rank $2^k$ further on, if there is one.
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
# Your tree on the ranks:

# %%
# %%ranks
from helpers.waiting import meet

handed = {}  # your function, once it is right

# %%
right_tree = check.tree_broadcast.passed(tree_broadcast, cluster=cluster)
if right_tree:
    cluster.run(lambda tree: handed.update(tree=tree), tree_broadcast)

# %%
# %%ranks --trace your_tree
meet(comm)
if "tree" in handed:
    handed["tree"]("from rank 0" if rank == 0 else None, comm)

# %%
if right_tree:
    timeline(your_tree, title="Your tree")
    plt.show()
    print(f"{len(your_tree.messages)} messages in {your_tree.steps()} steps; one by one: {flat}")
else:
    print("Exercise 6 first")

# %% [markdown]
# ## Groups
#
# `comm.Split(colour, key)` makes smaller communicators. Ranks that give the same `colour` form a group; in it they are numbered from 0, in the order of `key`. Below, even ranks form one group and odd ranks another, and each group adds up its members' numbers in `comm`.

# %%
# %%ranks --trace groups
group = comm.Split(rank % 2, key=rank)
print(f"world rank {rank} is rank {group.Get_rank()} of {group.Get_size()} in its group")
group_sum = group.allreduce(rank)
group_sum

# %%
timeline(groups, labels=False, title="Two groups, a sum in each")
plt.show()

# %% [markdown]
# The first box of each lane is `Split`, where all four ranks meet. The second box is the sum, which waits only for ranks of the same group. A message in one communicator is never taken for a message in another.
#
# In training, ranks that hold the same part of a model average its gradients in one group; ranks that hold different parts exchange activations in another.

# %% [markdown]
# ### Exercise 7: rows and columns
#
# *Difficulty ●●○, 8 minutes.* Place the ranks of `comm` on a grid with two columns, row by row: ranks 0 and 1 in the first row, 2 and 3 in the second. Return the sum of `value` over your row and over your column.
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
# Such sums multiply a matrix by a vector. Let each rank hold the entry $A_{ij}$ of its row $i$ and column $j$ of the grid. If each rank contributes $A_{ij} x_j$, the sum over a row is $(A x)_i$. If each contributes $A_{ij} z_i$, the sum over a column is $(A^T z)_j$. By hand, with $A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$ and $x = z = (1, 10)$: $A x = (21, 43)$ and $A^T z = (31, 42)$.


# %%
# %%ranks
def entries(sums):
    """Return my entries of A x and of the transposed A times z, where x and z are 1, 10, ..."""
    i, j = divmod(rank, 2)
    entry = rank + 1
    return sums(entry * 10**j, comm)[0], sums(entry * 10**i, comm)[1]


# %%
if check.grid_sums.passed(grid_sums, cluster=cluster):
    for which, (of_row, of_column) in enumerate(cluster.run(lambda f: entries(f), grid_sums)):
        print(f"rank {which}: {of_row} in A x, {of_column} in the transposed A times z")
else:
    print("Exercise 7 first")

# %% [markdown]
# ## What a message costs
#
# In Hockney's model (1994) a message of $m$ bytes takes
#
# $$t(m) = \alpha + \beta\, m.$$
#
# To measure $\alpha$ and $\beta$, ranks 0 and 1 play **ping-pong**: rank 0 sends a message, rank 1 sends it back, and half the round trip is the time of one message. The function is short; read it.
#
# > **Predict:** how many times as long as a message of 16 B does a message of 1 kB take? And one of 1 MB?

# %%
guess["1 kB ÷ 16 B"] = ...
guess["1 MB ÷ 16 B"] = ...

# %%
from helpers.collectives import cost, measure

print(inspect.getsource(measure.ping_pong))

# %%
runs = [cluster.run(measure.ping_pong, measure.SIZES, 3, timeout=60)[0] for _ in range(12)]
samples = np.min(runs, axis=0)  # the quickest: whatever disturbs a measurement makes it longer
link = cost.fit(samples, "this machine")
figure, ax = plt.subplots()
m, seconds = samples.T
ax.loglog(m, 1e6 * seconds, "o", label="measured, one way")
many = np.geomspace(m.min(), m.max(), 200)  # so that the fit has no corners
ax.loglog(many, 1e6 * link.message(many), "-", marker="", label=r"fit $\alpha + \beta m$")
ax.axvline(link.alpha / link.beta, color=style.GREY, linestyle="--")
ax.annotate(" half latency,\n half bandwidth", (link.alpha / link.beta, 1e6 * seconds.max() / 3))
ax.set(xlabel="size of the message m [B]", ylabel="time [µs]", title=str(link))
ax.legend()
plt.show()
by_size = {int(nbytes): took for nbytes, took in samples}
for name, wanted in (("1 kB", 1_000), ("1 MB", 1_000_000)):
    near = min(by_size, key=lambda nbytes, wanted=wanted: abs(nbytes - wanted))
    guess.answer(f"{name} ÷ 16 B", float(by_size[near] / by_size[min(by_size)]))

# %% [markdown]
# On the left the line is nearly flat: only the *number of messages* matters. On the right it rises with the size: only the *number of bytes* matters. At the dashed line, $m = \alpha/\beta$, latency and bytes take half of the time each. Points that leave the line show what the model ignores, such as the change from eager to rendezvous.

# %% [markdown]
# ### Exercise 8: a line through two points
#
# *Difficulty ●○○, 5 minutes.* Two messages are enough to estimate $\alpha$ and $\beta$, each given as `(bytes, seconds)`. Return $(\alpha, \beta)$ of the line through both.
#
# <details><summary>Hint</summary>
#
# $\beta$ is a difference of times over a difference of sizes. The small message is not of size 0.
#
# </details>


# %% exercise="through"
def through(small, large):
    """Return (alpha, beta) such that both messages take alpha + beta * bytes."""
    # BEGIN SOLUTION
    beta = (large[1] - small[1]) / (large[0] - small[0])
    return small[1] - beta * small[0], beta
    # END SOLUTION


# %% check="through" points=1
check.through(through)

# %%
yours = through(tuple(samples[0]), tuple(samples[-1]))
print(f"fit to all points: α = {1e6 * link.alpha:.2f} µs, 1/β = {1 / link.beta / 1e9:.2f} GB/s")
if yours is not None:
    print(f"through two points: α = {1e6 * yours[0]:.2f} µs, 1/β = {1 / yours[1] / 1e9:.2f} GB/s")

# %% [markdown]
# ### Between two hosts
#
# Between machines a message crosses a *link*, cut into packets that each have a header. `Network` makes two [hosts](glossary.md#host) inside this machine, each with a network of its own, joined by a link of 100 Mbit/s. We play the same ping-pong between them.
#
# > **Predict:** how many times as long as in memory does a message of 1 MB take over the link? The link carries $10^8/8$ bytes, 12.5 MB, a second: how many MB/s are left for your bytes?

# %%
guess["1 MB, link ÷ memory"] = ...
guess["MB/s of 12.5 for your bytes"] = ...

# %%
from helpers.cluster import Network, StartError
from helpers.collectives import on_hosts

try:
    with Cluster(n=2, network=Network(hosts=2, rate=100e6)) as pair:
        far = pair.run(measure.ping_pong, measure.LINK_SIZES, 5, timeout=60)[0]
    over_link = cost.fit(far, "link")
except StartError as error:
    print(f"No hosts here ({error}): this link is from a record.")
    over_link = on_hosts.recorded(100e6, [1_024])[0]
for way in (link, over_link):
    print(f"{way.name:13s} α = {1e6 * way.alpha:7.1f} µs   1/β = {way.bandwidth / 1e6:8.1f} MB/s")
print(f"the wire at most                     {Network(2, rate=100e6).payload / 1e6:8.1f} MB/s")
guess.answer("1 MB, link ÷ memory", over_link.message(1e6) / link.message(1e6))
guess.answer("MB/s of 12.5 for your bytes", over_link.bandwidth / 1e6)

# %% [markdown]
# Headers take the rest of the 12.5 MB/s. Notebook [08](08_allreduce_animation.ipynb#Between-hosts) runs whole allreduces over such links.
#
# ### Exercise 9: who is elsewhere?
#
# *Difficulty ●●○, 8 minutes.* Which ranks do not share this rank's memory? `name` is the name of *this* rank's host; all ranks of `comm` call the function, each with its own host's name. Return a list of the ranks on other hosts, in ascending order. A host may have any name and any number of ranks; with a single host the list is empty.
#
# <details><summary>Hint</summary>
#
# Each rank knows one host name and needs all of them, in the order of ranks. Which collective does this?
#
# </details>


# %% exercise="elsewhere"
def elsewhere(name, comm):
    """Return the ranks that run on another host than the one called `name`, this rank's."""
    # BEGIN SOLUTION
    names = comm.allgather(name)
    return [other for other, there in enumerate(names) if there != name]
    # END SOLUTION


# %% check="elsewhere" points=2
check.elsewhere(elsewhere, cluster=cluster)

# %% [markdown]
# Now four ranks on two hosts. Your function finds who is elsewhere, and rank 0 plays ping-pong with a rank on each host.


# %%
def found_by(yours):
    return [int(other) for other in yours(MPI.Get_processor_name(), comm)]


if check.elsewhere.passed(elsewhere, cluster=cluster):
    try:
        with Cluster(n=4, network=Network(2, rate=100e6, placement="cyclic")) as four:
            others = four.run(found_by, elsewhere)
            partners = {"here": min({1, 2, 3} - set(others[0])), "elsewhere": others[0][0]}
            for where, partner in partners.items():
                _, took = four.run(measure.ping_pong, [262_144], 5, None, partner)[0][0]
                print(f"256 KB from rank 0 to rank {partner}, {where}: {1e3 * took:.2f} ms")
    except StartError as error:
        print(f"No hosts here ({error}), so the ranks of this notebook:")
        others = cluster.run(found_by, elsewhere)
    print("elsewhere are, as ranks 0 to 3 find:", others)
else:
    print("Exercise 9 first")

# %% [markdown]
# ## How much faster with more ranks?
#
# Now a real computation: a picture of the Mandelbrot set. Rank $r$ computes every $N$-th row, and rank 0 gathers the rows. Then rank 0 finishes the picture alone: it removes lone pixels and shades the rest.


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


def shades(image):
    """Take out lone pixels and give every shade the same area; needs the rows of all ranks."""
    smooth = median_filter(image, size=3)
    values, pixels = np.unique(smooth, return_counts=True)
    return np.interp(smooth, values, np.cumsum(pixels) / image.size)


# %% [markdown]
# We time the picture on 1, 2 and 4 ranks. `Split` makes a group of the first $n$ ranks, and the other ranks wait. In `comm.Barrier()`, a [barrier](glossary.md#barrier), they would poll without pause, and so take a core that another rank could use. `doze` polls once in a millisecond. The second cell below compares them.


# %%
# %%ranks
import time

from helpers.cluster.idle import doze


def render(n, height, width):
    """Return (seconds, serial seconds on rank 0) of the picture on the first n ranks."""
    group = comm.Split(0 if rank < n else 1)
    times = None
    if rank < n:
        group.Barrier()
        begin = time.perf_counter()
        mine = mandelbrot(range(rank, height, n), height, width)
        parts = group.gather(mine)
        if rank == 0:
            gathered = time.perf_counter()
            picture = np.empty((height, width), dtype=np.int16)
            for peer, rows in enumerate(parts):
                picture[peer::n] = rows
            globals()["picture"] = shades(picture)
            times = time.perf_counter() - begin, time.perf_counter() - gathered
    doze(comm)
    return times


# %%
# %%ranks
for name, wait in (("Barrier", comm.Barrier), ("doze", lambda: doze(comm))):
    begin, busy = time.perf_counter(), time.process_time()
    if rank == 0:
        time.sleep(0.25)  # the others wait for rank 0
    wait()
    share = (time.process_time() - busy) / (time.perf_counter() - begin)
    if rank > 0:
        print(f"{name:8} kept {100 * share:5.1f} % of a core busy")

# %% [markdown]
# ### The same work on more ranks: strong scaling
#
# Let $s$ be the serial fraction of $T_1$. If the rest is shared evenly among $N$ ranks, **Amdahl's law** (1967) says
#
# $$T_N = s\,T_1 + \frac{(1-s)\,T_1}{N}, \qquad S_N = \frac{T_1}{T_N} = \frac{1}{s + (1-s)/N} < \frac{1}{s}.$$
#
# By hand, with $s = 0.1$ and $N = 4$: $S_4 = 1/(0.1 + 0.225) = 3.08$, and with any number of ranks never more than 10.
#
# > **Predict:** what is the speed-up of the picture on 2 and on 4 ranks of your machine? And if the picture grows with the number of ranks, how many times the work of one rank do 4 ranks do in the same time?

# %%
guess["speed-up on 2 ranks"] = ...
guess["speed-up on 4 ranks"] = ...
guess["work of 4 ranks, growing picture"] = ...


# %%
def amdahl(N, s):
    return 1 / (s + (1 - s) / N)


def gustafson(N, s):
    return s + (1 - s) * N


def best(heights, rounds=5):
    """Return {n: (seconds, serial seconds)} of the quickest of some rounds for {n: height}."""
    took = {n: [] for n in heights}
    for _ in range(rounds):
        for n, height in heights.items():
            took[n].append(cluster.run(lambda *a: render(*a), n, height, P.image_columns)[0])
        print(", ".join(f"N={n}: {runs[-1][0]:.3f} s" for n, runs in took.items()), flush=True)
    spread = max(took[1])[0] / min(took[1])[0]
    if spread > 1.2:
        print(f"one rank took up to {spread:.1f} times its best: this machine is not quiet")
    return {n: min(times) for n, times in took.items()}


counts_of_ranks = [n for n in (1, 2, 4) if n <= P.ranks]
strong = best(dict.fromkeys(counts_of_ranks, P.image_rows))
s_strong = strong[1][1] / strong[1][0]
print(f"serial fraction measured on one rank: s = {s_strong:.3f}")
for n in counts_of_ranks[1:]:
    guess.answer(f"speed-up on {n} ranks", strong[1][0] / strong[n][0])

# %% [markdown]
# ### More work on more ranks: weak scaling
#
# Gustafson (1988) objected that people use more processors for larger problems. So let the work grow with $N$: twice the ranks, twice the rows. Let $s$ be the serial fraction *of the run on $N$ ranks*. For the same work one rank would need $s\,T_N + N (1-s)\,T_N$, so
#
# $$S_N = s + (1-s)\,N,$$
#
# which has no ceiling. (Our serial part grows with the picture; the line below uses the $s$ of the largest run.)

# %%
weak = best({n: n * P.image_rows // 2 for n in counts_of_ranks})
done = {n: n * weak[1][0] / weak[n][0] for n in counts_of_ranks}  # work per time, against one rank
s_weak = weak[max(weak)][1] / weak[max(weak)][0]
for n, (seconds, serial) in weak.items():
    print(f"N={n}, {n} × the rows: {seconds:.3f} s, {serial / seconds:.1%} of them serial")
guess.answer("work of 4 ranks, growing picture", float(done[max(done)]))

# %%
from helpers.machine import usable_cores

N = np.linspace(1, max(counts_of_ranks), 50)
figure, axes = plt.subplots(1, 2, figsize=(10, 5.4), sharey=True)
measured = ({n: strong[1][0] / strong[n][0] for n in strong}, done)
laws = (amdahl(N, s_strong), gustafson(N, s_weak))
names = (f"Amdahl, s = {s_strong:.3f}", f"Gustafson, s = {s_weak:.3f}")
for ax, points, law, name in zip(axes, measured, laws, names, strict=True):
    ax.plot(N, N, linestyle=":", marker="", color=style.GREY, label="ideal: N")
    ax.plot(N, law, marker="", label=name)
    ax.plot(list(points), list(points.values()), "o", markersize=10, label="measured")
    ax.axvline(usable_cores(), color=style.BLACK, linestyle="--", label="cores of this machine")
    ax.set(xlabel="ranks N", xticks=list(points), ylabel="speed-up $S_N$")
    ax.legend(fontsize=11, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
axes[0].set_title("Strong: the same picture")
axes[1].set_title("Weak: a picture that grows with N")
plt.show()

# %% [markdown]
# Both laws assume a core for each rank and a machine that does nothing else. Right of the dashed line ranks share cores, and the points fall below the law for that reason. If other programs run, points may also lie too high, because four ranks get a larger share of the machine than one. If the cells above said "not quiet", believe neither picture.

# %% [markdown]
# The picture from the last run:

# %%
rendered = cluster.run(lambda: picture if rank == 0 else None)[0]
figure, ax = plt.subplots(figsize=(9, 7.5))
extent = (-2.0, 0.6, -1.2, 1.2)
shown = ax.imshow(rendered, cmap=style.SEQUENTIAL, extent=extent)
title = f"The Mandelbrot set; rank r of {max(weak)} computed every {max(weak)}th row"
ax.set(xlabel="real part of c", ylabel="imaginary part of c", title=title)
figure.colorbar(shown, label="share of pixels that leave earlier", shrink=0.8)
ax.grid(False)
plt.show()

# %% [markdown]
# ### Your queue hands out the rows
#
# `mandelbrot` takes every pixel through all rounds, so all rows cost the same. If it stopped at a pixel that is no longer small, rows would differ in work, and a queue would share them out without knowing by how much. Below, rank 0 serves and three ranks compute. (Until `hand_out` is written, the picture is not whole.)


# %%
def by_queue(server, blocks, height, width):
    cut = [range(k * height // blocks, (k + 1) * height // blocks) for k in range(blocks)]
    if rank == 0:
        results = server(list(range(blocks)), comm)
        for worker in range(1, size) if results is None else ():  # not written yet: all go home
            comm.recv(source=worker)
            comm.send(None, dest=worker)
        return results
    done = []
    work(lambda k: done.append(k) or mandelbrot(cut[k], height, width), comm)
    return done


served, *done = cluster.run(by_queue, hand_out, 16, P.image_rows, P.image_columns)
print("the whole picture:", served is not None and sorted(served) == list(range(16)))
print("blocks by ranks 1 to 3:", done)
if served:
    rounds = [int(served[block].sum()) for block in sorted(served)]
    print(f"rounds in which pixels were small: {min(rounds):,} to {max(rounds):,} in a block")

# %% [markdown]
# > **Predict:** with one per cent serial, what speed-up do 1000 ranks reach by Amdahl's law? And by Gustafson's? Then move the slider to try other fractions.

# %%
guess["Amdahl's speed-up on 1000 ranks"] = ...
guess["Gustafson's"] = ...

# %%
guess.answer("Amdahl's speed-up on 1000 ranks", round(amdahl(1000, 0.01)))
guess.answer("Gustafson's", round(gustafson(1000, 0.01)))

# %%
from ipywidgets import FloatLogSlider, interact


def laws(s=0.01):
    N = np.logspace(0, 4, 100)
    _, ax = plt.subplots(figsize=(9, 4.2))
    ax.loglog(N, N, linestyle=":", linewidth=5, marker="", color=style.GREY, label="ideal")
    ax.loglog(N, gustafson(N, s), marker="", label="Gustafson: the work grows")
    ax.loglog(N, amdahl(N, s), linestyle="-.", marker="", label="Amdahl: the work stays")
    ax.axhline(1 / s, color=style.VERMILION, linestyle="--", label=f"1/s = {1 / s:.0f}")
    ax.set(xlabel="ranks N", ylabel="speed-up", title=f"Serial fraction s = {s:.4f}", ylim=(1, 2e4))
    ax.legend()
    plt.show()


slider = FloatLogSlider(value=0.01, min=-4, max=-0.3, step=0.1, continuous_update=False)
_ = interact(laws, s=slider)

# %% [markdown]
# ### Exercise 10: how many ranks?
#
# *Difficulty ●●○, 6 minutes.* Turn Amdahl's law around: return the smallest whole number of ranks that reaches a given speed-up, or `math.inf` (Python's infinity, from the module `math`) if no number does.
#
# <details><summary>Hint</summary>
#
# Solve $1 / (s + (1-s)/N) \ge S$ for $N$, and round up. When is the denominator that you divide by zero or negative?
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
# How many ranks would the picture need, by your function and your serial fraction?

# %%
if check.ranks_for.passed(ranks_for):
    for wanted in (2, 4, 10, 100):
        print(f"{wanted:3} times as fast: {ranks_for(wanted, s_strong)} ranks")
else:
    print("Exercise 10 first")

# %% [markdown]
# ## How ranks come to life
#
# A process that has just started knows neither its `rank` nor the `size`. It asks the process that started it, its *parent*, in lines of text over a socket. The protocol is PMI, the *process management interface*. `mpiexec` and Slurm's `srun` answer it. Here `start` starts two more ranks; this kernel answers them and records the conversation.
#
# > **Predict:** how many requests does rank 0 make, from the first to the last?

# %%
guess["requests of rank 0"] = ...

# %%
from helpers.cluster.first_words import folded, start

born = start(2)
guess.answer("requests of rank 0", len(born.of(0)))
print(born.trouble or born.output)
rows = [f"| `{asked}` | `{told}` |" for asked, told in folded(born.of(0))]
Markdown("\n".join(["| rank 0 asks | its parent answers |", "|---|---|", *rows]))

# %% [markdown]
# First the rank and its parent agree on a version of the protocol. `PMI_process_mapping` says which ranks share a host: `(0,1,2)` means that from host 0 on there is one host, with two ranks. These two share memory, so they only have to meet: the parent answers `barrier_in` when all ranks have sent it. (`rc=-1`: nobody has stored that key.)
#
# On several hosts ranks cannot send anything before they know each other's addresses. Here three ranks are *told* that each is on a host of its own:

# %%
from helpers.plots.conversation import conversation

apart = start(3, hosts=3)
print(apart.trouble or apart.output)
conversation(apart, title="Three ranks leave each other their addresses, just now")
plt.show()

# %% [markdown]
# Read a lane from the left. A rank stores its address with the parent, in pieces (`put`), and waits (hatched). When the last rank has come, the parent releases all of them, and each rank asks for every address (`get`). You know the pattern: it is an allgather.
#
# ### Exercise 11: be the parent
#
# *Difficulty ●●○, 10 minutes.* Write the parent's answers. `serve` is given the rank that asks, its request, a dictionary `words`, a list `waiting`, and the number of ranks. `words` and `waiting` are empty at first and keep what you put into them. Return `{rank: text}`, the text for each rank that gets an answer now:
#
# | request | answer |
# |---|---|
# | `{"cmd": "put", "key": ..., "value": ...}` | `cmd=put_result rc=0`, when you have stored the value |
# | `{"cmd": "get", "key": ...}` | `cmd=get_result rc=0 value=`, followed by the value that any rank stored under that key |
# | `{"cmd": "barrier_in"}` | nothing, until all ranks have come; then `cmd=barrier_out rc=0` to each of them |
#
# Ranks meet more than once. There may be a single rank.
#
# <details><summary>Hint</summary>
#
# While ranks are missing the answer is `{}`. When the last has come, empty `waiting` for the next time. `dict.fromkeys(ranks, text)` gives the same text to several ranks.
#
# </details>


# %% exercise="serve"
def serve(rank, request, words, waiting, size):
    """Return {rank: text}: who is told what."""
    # BEGIN SOLUTION
    if request["cmd"] == "put":
        words[request["key"]] = request["value"]
        return {rank: "cmd=put_result rc=0"}
    if request["cmd"] == "get":
        return {rank: f"cmd=get_result rc=0 value={words[request['key']]}"}
    waiting.append(rank)
    if len(waiting) < size:
        return {}
    everybody = waiting.copy()
    waiting.clear()
    return dict.fromkeys(everybody, "cmd=barrier_out rc=0")
    # END SOLUTION


# %% check="serve" points=2
check.serve(serve)

# %% [markdown]
# Now four ranks start with your answers:

# %%
mine = start(4, serve, hosts=4)
print(mine.trouble or mine.output)
conversation(mine, title="Four ranks, and what they asked")
plt.show()

# %% [markdown]
# ## Cost: predicted and measured
#
# We test both models. Sent to and fro one after another, $k$ messages of $m$ bytes should take $k(\alpha + \beta m)$; these sizes were not in the fit. The picture should take $T_1 / S_N$ by Amdahl's law. Each message goes once as an array and once as a pickled object.


# %%
# %%ranks
def to_and_fro(k, m, pickled=False):
    """Return the shortest time of k messages of m bytes, to and fro between ranks 0 and 1."""
    box, best = np.zeros(m, dtype=np.uint8), float("inf")
    for _ in range(50 if rank < 2 else 0):
        comm.sendrecv(None, 1 - rank, source=1 - rank)  # begin together
        begin = time.perf_counter()
        for turn in range(k):
            if turn % 2 == rank:
                comm.send(box, 1 - rank) if pickled else comm.Send(box, 1 - rank)
            else:
                comm.recv(source=1 - rank) if pickled else comm.Recv(box, 1 - rank)
        best = min(best, time.perf_counter() - begin)
    doze(comm)
    return best


# %%
rows = []
for k, m in ((10, 100), (10, 100_000), (2, 3_000_000)):
    for pickled in (False, True):
        took = cluster.run(lambda *a: to_and_fro(*a), k, m, pickled)[0]
        name = f"{k} messages of {m} B" + (", pickled" if pickled else "")
        rows.append((name, k * link.message(m), took))
for n in counts_of_ranks[1:]:
    rows.append((f"picture on {n} ranks", strong[1][0] / amdahl(n, s_strong), strong[n][0]))
table = ["| what | predicted [ms] | measured [ms] | measured ÷ predicted |", "|---|---|---|---|"]
for what, predicted, took in rows:
    table.append(f"| {what} | {1e3 * predicted:.3g} | {1e3 * took:.3g} | {took / predicted:.1f} |")
Markdown("\n".join(table))

# %% [markdown]
# A ratio near 1 says that the model has what matters. The models know nothing of pickling, or of ranks that share cores.

# %% [markdown] claims="01-pickling"
# Pickling costs time at every size: an object takes about twice as long as an array at 100 kB and 3 MB, and about five times as long at 100 B.

# %%
claims.evidence("01-pickling")

# %% [markdown]
# ## What breaks
#
# > **Predict:** every rank of a ring sends first and then receives. From how many bytes on does this program hang here? And if rank 0 starts to send 8 MB of ones and at once overwrites them with −1, what per cent of what arrives is −1?

# %%
guess["hangs from how many bytes"] = ...
guess["per cent of −1"] = ...

# %% [markdown]
# **Send first, then receive.** Every rank sends to the right and then receives from the left. With small messages and this library it works:

# %%
# %%ranks
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
print("800 B came through; 8,000,000 B did not. Between two ranks above, Send did not wait")
print(f"for the receive up to {max(eager):,} B, and did from {min(waited):,} B on.")
guess.answer("hangs from how many bytes", min(waited))

# %% [markdown]
# (The limit lies between two powers of two; you tried no others.) The program was wrong from the beginning, and eager sends hid it. To find such places, replace `Send` by `Ssend`, which is never eager: if the program still runs, it relies on no eager send.
#
# Your `shift` of Exercise 3 starts its send without blocking. Here is your ring with the same 8 MB:

# %%
if check.shift.passed(shift, cluster=cluster):
    came = cluster.run(lambda f: float(f(np.full(1_000_000, float(rank)), comm)[0]), shift)
    print("received from the left:", came)
else:
    print("Exercise 3 first")

# %% [markdown]
# **Overwrite too early.** `Isend` returns before MPI has read the array. Rank 0 changes the array at once, and rank 1 receives the wrong numbers. (The time limit restarted the ranks, so we import again.)

# %%
# %%ranks --only 0,1
import time

import numpy as np

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
# MPI gives no error and no warning. Between `Isend` and the end of `Wait` the array belongs to MPI. A test with small arrays would not have shown the fault: in ten runs each, 8 MB always arrived wrong and 800 B never.

# %%
claims.evidence("01-overwritten")

# %% [markdown]
# ## Project: a world of cells on four ranks
#
# *Difficulty ●●●, 40 minutes.* Conway's *Game of Life*: a cell lives in the next generation if three of its eight neighbours live, or if it lives and two of them do. The board's top row is a neighbour of its bottom row, and its left column of its right column. The ranks share the board by rows: rank $r$ has `np.array_split(board, N)[r]`. In each step a rank needs one row from the rank above and one from the rank below, its *halo*.
#
# Write `life`: every rank is given the whole board (an array of bool) and returns its own rows after `steps` generations. In each step send one row to each neighbour, and use no collectives. A single rank is its own neighbour.
#
# <details><summary>Hint</summary>
#
# `comm.sendrecv(mine[0], dest=above, source=below)` sends your first row up and receives the row under your last. Put both received rows around your own with `np.vstack`, count neighbours with `np.roll` in all eight directions, and drop the received rows again.
#
# </details>


# %% exercise="life"
def life(board, steps, comm):
    """Return this rank's rows of the board after so many generations."""
    # BEGIN SOLUTION
    n, me = comm.Get_size(), comm.Get_rank()
    mine = np.array_split(board, n)[me]
    for _ in range(steps):
        below = comm.sendrecv(mine[0], dest=(me - 1) % n, source=(me + 1) % n)
        above = comm.sendrecv(mine[-1], dest=(me + 1) % n, source=(me - 1) % n)
        rows = np.vstack([above, mine, below])
        around = np.zeros(rows.shape, int)
        for i, j in [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]:
            around += np.roll(rows, (i, j), (0, 1))
        mine = ((around == 3) | (rows & (around == 2)))[1:-1]
    return mine
    # END SOLUTION


# %% check="life" points=5
check.life(life, cluster=cluster)

# %% [markdown]
# A *glider* moves one cell down and one to the right in four generations. The dashed lines are the borders between ranks; the glider crosses them unchanged.

# %%
board = np.zeros((16, 24), dtype=bool)
board[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = True
figure, axes = plt.subplots(1, 3, figsize=(10, 3))
for ax, steps in zip(axes, (0, 16, 32), strict=True):
    rows = cluster.run(lambda f, *a: f(*a, comm), life, board, steps)
    world = board if rows[0] is None else np.vstack(rows)
    ax.imshow(world, cmap="gray_r")
    for edge in (3.5, 7.5, 11.5):
        ax.axhline(edge, color=style.VERMILION, linestyle="--", linewidth=1)
    ax.set(title=f"generation {steps}" if rows[0] is not None else "life is not written yet")
    ax.grid(False)
plt.show()

# %% [markdown]
# ## What the sources say, what we measured
#
# Two of the five documents that the course examines introduce MPI. They say:

# %%
first_send, large_send = (event for event in returns.of(0) if event.call == "Send")
words = len(counted)
rows = [
    ("a blocking call is blocked *until the send or receive is finished*",
     f"*finished* means on your side: a `Send` of 8 B to a rank that was busy for 20 ms returned "
     f"after {1e3 * first_send.duration:.2f} ms, one of 4 MB after {1e3 * large_send.duration:.0f} ms"),
    ("in MapReduce the system allocates the work, in MPI the programmer does",
     f"yes: for the same {words} words the framework sent {len(by_mapreduce.messages)} messages, "
     f"and the MPI program the {len(by_mpi.messages)} that its author wrote"),
    ("the programmer must schedule so that messages of workers are not mixed",
     f"messages do not mix: each carries its source and tag; by `ANY_SOURCE` rank 0 "
     f"received from ranks {', '.join(str(event.peer) for event in anyone.of(0))}, in this order"),
    ("collectives, for example reduce and gather",
     f"six, by hand, agree with MPI's; a broadcast took {flat} steps, {as_a_tree.steps()} as a tree"),
    ("a number goes 0 → 1 → 2 → 3, one is added each time",
     f"ranks held {held}, in {chain.steps()} steps"),
    ("reduce overwrites the input with the sum of all processes",
     f"PyTorch's does, and MPI's with IN_PLACE; with a receive buffer the input is kept, "
     f"and after a reduce only the root has the sum: "
     f"{', '.join('nothing' if total is None else str(total) for total in totals)}"),
]  # fmt: skip
lines = ["| the source says | here |", "|---|---|"]
Markdown("\n".join(lines + [f"| {said} | {found} |" for said, found in rows]))

# %% [markdown]
# The first source also calls MPI "the lower-level software underneath MapReduce". Google's MapReduce, Hadoop and Spark do not use MPI: their tasks must be able to fail, and an MPI program usually ends when one rank fails.

# %% [markdown]
# ## Summary
#
# - All ranks run the same program and differ by their number; no variable is shared.
# - A blocking call returns when *your* side is done. `Send` may or may not wait for the receiver; a program must be right in both cases. With a request you can go on, but the array is not yours until `Wait` returns.
# - In a deadlock ranks wait for each other and none can go on. The table says in which call each rank waits, and for whom.
# - Collectives are patterns of sends and receives. The pattern decides how many steps they take.
# - A rank learns who it is, and where the others are, from the process that started it.
# - A message costs $\alpha + \beta m$. With serial fraction $s$, fixed work gets at most $1/s$ times faster; work that grows with the ranks has no such limit.
#
# **In practice** you call MPI's collectives, or for GPUs those of NCCL through `torch.distributed` (notebook 02), and write sends and receives by hand only where the pattern is your own. On a cluster `srun` or `mpirun` starts the ranks; `Cluster(n, launcher="slurm")` does it from the notebook. For large traces, `helpers.tracing.save_chrome(trace, "trace.json")` writes a file for [ui.perfetto.dev](https://ui.perfetto.dev).
#
# **References**
#
# - [The MPI standard, version 4.1](https://www.mpi-forum.org/docs/): chapter 3 says exactly when a send may return.
# - [mpi4py's tutorial](https://mpi4py.readthedocs.io/en/stable/tutorial.html): the same calls, in short examples.
# - L. Lamport (1978), *Time, clocks, and the ordering of events in a distributed system*: lanes and arrows.
# - J. Dean, S. Ghemawat (2004), *MapReduce*; R. Hockney (1994), *The communication challenge for MPP*: $\alpha + \beta m$.
# - P. Balaji and others (2010), *PMI*: what ranks ask their parent.
# - G. Amdahl (1967) and J. Gustafson (1988): the two laws, each in a few pages.
#
# **Next**: [08_allreduce_animation](08_allreduce_animation.ipynb) takes allreduce apart.

# %%
cluster.stop()
