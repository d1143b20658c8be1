# %% [markdown]
# # More of MPI: start ranks by hand, count by MapReduce, compute while messages travel
#
# You start four ranks yourself, hand tasks to whoever is free, write two functions for MapReduce, and see whether ranks compute while their messages travel.
#
# **You need** notebook [01](01_mpi_basics.ipynb). *Time:* 80 minutes, exercises included. Each section needs only the set-up. *Cores:* two or more. *GPU:* none.
#
# ## Set-up

# %% tags=["parameters"]
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from helpers.cluster import Cluster
from helpers.exercises import more_of_mpi as check
from helpers.exercises.predictions import Predictions
from helpers.first_words import folded, start
from helpers.plots import style
from helpers.plots.conversation import conversation
from helpers.plots.timeline import timeline
from helpers.timing import Others

# %load_ext helpers.cluster


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4


# %%
P = Parameters()
style.use()
guess = Predictions()
cluster = Cluster(n=P.ranks)

# %%
# %%ranks
import time
from collections import Counter
from pydoc_data.topics import topics

import numpy as np

from helpers.mapreduce import mapreduce
from helpers.waiting import doze, meet

pair = comm.Split(0 if rank < 2 else 1)  # ranks 0 and 1

# %% [markdown]
# ## How ranks come to life
#
# A new process finds its `rank` and the `size` in environment variables. Whatever else it must know of the other ranks, it asks its *parent*, the process that started it. They exchange lines of text over a socket, in a protocol called PMI (*process management interface*). The parent is usually `mpiexec` or Slurm's `srun`; here it is the notebook's kernel. `start` starts two new ranks, answers them, and records the conversation. The new ranks then add up their rank numbers.
#
# > **Predict.** Both ranks run on this machine. Must rank 0 leave an address with its parent, so that rank 1 can send to it ("yes" or "no")?

# %%
guess["rank 0 leaves an address"] = ...

# %%
born = start(2)
left = any("cmd=put" in exchange.request for exchange in born.of(0))
guess.answer("rank 0 leaves an address", "yes" if left else "no")
print(born.trouble or born.output)
rows = [
    f"| `{asked}` | {told if told.startswith('(') else f'`{told}`'} |"
    for asked, told in folded(born.of(0))
]
Markdown("\n".join(["| rank 0 asks | its parent answers |", "|---|---|", *rows]))

# %% [markdown]
# No: rank 0 stores nothing (`put` does not appear). The answer to `PMI_process_mapping` says which ranks share a host. `(0,1,2)` means: from host 0 on, one host with two ranks. These two ranks share memory, so they need no addresses. Before a rank ends, it waits at a barrier: the parent answers `barrier_in` when all ranks have sent it. (`kvsname` names the parent's store of keys and values; `rc=-1` means that a key is not in it.)
#
# On several hosts ranks need each other's addresses before they can send. Here three ranks are *told* that each is on a host of its own:

# %%
apart = start(3, hosts=3)
print(apart.trouble or apart.output)
ax = conversation(apart, title="Three ranks leave each other their addresses")
ax.figure.set_label(
    "Each rank puts its address, waits at a barrier, and gets the others' addresses"
)
plt.show()

# %% [markdown]
# Each rank stores its address with the parent (`put`), in several pieces, and waits at a barrier (hatched). When the last rank arrives, the parent releases all ranks, and they ask for the addresses (`get`). Together these requests are an allgather. The second barrier is the one before the end. (The axis counts requests.)
#
# ### Exercise 1: be the parent
#
# *Difficulty ●●○, 10 minutes.* Write the parent's answers. `serve` gets the `rank` that asks, its `request`, a dictionary `words`, a list `waiting`, and `size`, the number of ranks. `words` and `waiting` are empty at first and keep what you put into them. Return `{rank: text}`, the text for each rank that gets an answer now:
#
# | request | answer |
# |---|---|
# | `{"cmd": "put", "key": ..., "value": ...}` | `cmd=put_result rc=0`, when you have stored the value |
# | `{"cmd": "get", "key": ...}` | `cmd=get_result rc=0 value=`, followed by the value stored under that key by any rank |
# | `{"cmd": "barrier_in"}` | `{}` until all ranks have sent it; then `cmd=barrier_out rc=0` to each of them |
#
# Ignore a request's other entries, such as `kvsname`. Every key that a rank asks for has been stored. There may be several barriers, one after another, and `size` may be 1.
#
# <details><summary>Hint</summary>
#
# When the last rank arrives, empty `waiting` for the next barrier. `dict.fromkeys(ranks, text)` gives the same text to several ranks.
#
# </details>


# %% exercise="serve"
def serve(rank, request, words, waiting, size):
    """Return {rank: text}, for each rank that gets an answer now."""
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
# Now four ranks start, and your function answers them. Look for the same order: `put`, barrier, `get`, barrier.

# %%
mine = start(4, serve, hosts=4)
print(mine.trouble or mine.output)
ax = conversation(mine, title="Four ranks, and what they asked")
ax.figure.set_label("The requests of four ranks that your function answers")
plt.show()

# %% [markdown]
# ### PMIx and torchrun
#
# *PMIx*, the successor of PMI, answers the same questions on larger machines, and reports failures.
#
# *torchrun* starts the processes of a PyTorch training: an agent on each host starts that host's processes. All agents know the address of one key-value store, where they agree on the ranks. PyTorch calls this a *rendezvous*; [MPI's rendezvous](glossary.md#rendezvous) is something else. Each agent then sets environment variables for its processes. Three processes print some of theirs:

# %%
script = """
import os, sys
told = (f"{name}={os.environ[name]}" for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
sys.stdout.write(" ".join(told) + "\\n")
"""
with TemporaryDirectory() as folder:
    Path(folder, "hello.py").write_text(script)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    said = subprocess.run(
        [*launch, "hello.py"], cwd=folder, env=os.environ | {"TMPDIR": folder},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
print(*sorted(said.stdout.splitlines()), sep="\n")

# %% [markdown]
# ## Tasks for whoever is free
#
# Where tasks take different times, fixed shares leave ranks idle. With a queue, rank 0 hands out tasks: a worker that is done gets the next task. So rank 0 must receive from whichever worker sends first. `source=MPI.ANY_SOURCE` does that, and a `Status` says who sent the message.
#
# > **Predict.** Ranks 1 to 3 work for different times, rank 3 for the shortest. From which ranks does rank 0 get the first, the second and the third result? Type three ranks, such as `"1, 2, 3"`.

# %%
guess["ranks in the order of their results"] = ...

# %%
# %%ranks --trace anyone
if rank == 0:
    status = MPI.Status()
    for _ in range(size - 1):
        result = comm.recv(source=MPI.ANY_SOURCE, status=status)
        print(f"{result} from rank {status.Get_source()}, tag {status.Get_tag()}")
else:
    time.sleep(0.05 * (size - rank))  # rank 3 is done first
    comm.send(rank**2, dest=0, tag=rank)

# %%
ax = timeline(anyone, title="Rank 0 serves whoever comes first")
ax.figure.set_label("Rank 0 receives from each rank when that rank is done")
plt.show()
guess.answer(
    "ranks in the order of their results", ", ".join(str(event.peer) for event in anyone.of(0))
)

# %% [markdown]
# Rank 0 waits (hatched) and takes each result as it comes: from ranks 3, 2, 1.
#
# ### Exercise 2: a queue of tasks
#
# *Difficulty ●●○, 15 minutes.* Rank 0 is the server; all other ranks are workers and run `work`, below. A worker's first message is `None`, and each later one is `(task, value)`. After each message it receives a task; when it receives `None`, it ends. Your `hand_out` runs on rank 0, where `MPI` is imported. Give each task to the next worker that asks, collect the results in a dictionary `{task: value}`, and in the end send every worker `None`. No worker may wait while tasks are left, however slow another worker is.


# %%
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
# Twelve tasks are pauses, and every third pause is long. In a fixed order (ranks 1, 2, 3, 1, …) rank 1 would get all long ones. Compare this with your queue:

# %%
import time

milliseconds = [60, 10, 11, 61, 12, 13, 62, 14, 15, 63, 16, 17]


def by_queue(server, tasks):
    if rank == 0:
        return server(tasks, comm)
    done = []
    work(lambda ms: done.append(ms) or time.sleep(ms / 1000), comm)
    return done


if check.hand_out.passed(hand_out, cluster=cluster):
    _, *got = cluster.run(by_queue, hand_out, milliseconds)
    for which, tasks in enumerate(got):
        fixed = sum(milliseconds[which::3])
        print(f"rank {which + 1}: {sum(tasks):3} ms by queue {tasks}; {fixed} ms in fixed order")
else:
    print("Exercise 2 first")

# %% [markdown]
# In our run, the busiest rank worked about half as long with the queue.
#
# ## MPI or MapReduce?
#
# In [MapReduce](glossary.md#mapreduce) you write two functions. `mapper` makes (key, value) pairs from a piece of the input; `reducer` combines all values of a key into one. A framework assigns the work, sends the messages, and repeats tasks that fail. With MPI, you write all of this. We count the words of Python's language reference in both ways:

# %%
documents = list(topics.values())
print(f"{len(documents)} documents, {sum(map(len, documents)) / 1000:.0f} kB of text")
print(documents[0][:200].rpartition("\n")[0].rstrip(), "…", sep="\n")

# %% [markdown]
# > **Predict.** Four ranks count. In the MPI program rank 0 adds up the counts of all ranks: how many messages does this take? In MapReduce ranks 1 to 3 ask rank 0 for one document at a time: a request and an answer each. Besides these two messages for each document, how many more does MapReduce send (collectives not counted)?

# %%
guess["messages, MPI"] = ...
guess["further messages, MapReduce"] = ...

# %% [markdown]
# **MPI**: you decide who counts what, who adds up, and who sends what to whom.

# %%
# %%ranks --trace by_mpi
mine = list(topics.values())[rank::size]  # I decide who counts what
counts = Counter(word for text in mine for word in text.lower().split())
if rank == 0:
    for peer in range(1, size):  # and who adds up, and in which order
        counts += comm.recv(source=peer)
else:
    comm.send(counts, dest=0)

# %% [markdown]
# **MapReduce**: you write what to do with one document and with one word. (The mapper adds up within its document: it makes one pair for each distinct word.)


# %%
# %%ranks --trace by_mapreduce
def mapper(text):
    yield from Counter(text.lower().split()).items()


def reducer(word, counts):
    return sum(counts)


reduced = mapreduce(list(topics.values()), mapper, reducer, comm)

# %%
counted, again = cluster.run(lambda: (counts, reduced))[0]
print(f"{len(counted)} different words; both ways count the same: {counted == again}")
print(", ".join(f"{word}: {n}" for word, n in counted.most_common(6)))
guess.answer("messages, MPI", len(by_mpi.messages))
further = len(by_mapreduce.messages) - 2 * len(documents)
guess.answer("further messages, MapReduce", further)

# %% [markdown]
# In the MPI program ranks 1 to 3 send one message each: their counts. In MapReduce each of the three workers asks once more after the last document, and is told that none is left: six messages. Then a collective brings all pairs of a word to one rank.
#
# What if a mapper fails? On rank 2, about two of five calls now fail:


# %%
# %%ranks
def fragile(text):
    if rank == 2 and rng.random() < 0.4:
        failures.append(text)
        raise OSError("rank 2 has a bad disk")
    yield from mapper(text)


rng, failures = np.random.default_rng(7), []
again = mapreduce(list(topics.values()), fragile, reducer, comm, attempts=20)
assert again == reduced
if rank == 2:
    print(f"my mapper failed {len(failures)} times, and the result is the same")

# %% [markdown]
# The framework repeated the failed tasks. (Its scheduler is a queue like yours in Exercise 2.) In the MPI program an exception on rank 2 would have left rank 0 waiting for its message. So MapReduce asks you for two functions and survives a failed task. MPI lets you choose every message: here three, instead of two for each document.
#
# ### Exercise 3: in how many documents?
#
# *Difficulty ●○○, 5 minutes.* A word's *document frequency* is the number of documents that contain it, however often it occurs in each. Write `mapper_df` and `reducer_df`; words are what `text.split()` gives, such as `The` and `|`.
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
# Your functions, over all 79 documents:


# %%
def most_frequent(mapper, reducer):
    found = mapreduce(list(topics.values()), mapper, reducer, comm)
    return sorted(found.items(), key=lambda pair: -pair[1])[:6] if rank == 0 else None


if check.document_frequency.passed(mapper_df, reducer_df):
    found = cluster.run(most_frequent, mapper_df, reducer_df)[0]
    print(", ".join(f"{word}: {n}" for word, n in found))
else:
    print("Exercise 3 first")

# %% [markdown]
# ## Compute while messages travel
#
# Two ranks send each other 4 MB, and compute for about as long as this exchange takes. They do both in three ways:
#
# - exchange first, then compute;
# - start the exchange, compute, and wait for its end with `Waitall`;
# - start the exchange, compute, ask with `Testall` after each eighth of the work whether the messages have arrived, and wait with `Waitall`.
#
# > **Predict.** In the second way, does `Waitall` take "most" (more than half) of the first way's exchange time, or "little"? And in the third way?

# %%
guess["left for Waitall"] = ...
guess["left for Waitall, after Testall"] = ...


# %%
# %%ranks --only 0,1
out, box, other = np.ones(500_000), np.zeros(500_000), 1 - rank


def timed(way):
    """Return (seconds of the exchange or of Waitall, seconds of everything)."""
    pair.Barrier()
    begin = time.perf_counter()
    if way == "exchange, compute":
        pair.Sendrecv(out, other, 0, box, other, 0)
        waited = time.perf_counter() - begin
    else:
        requests = [pair.Irecv(box, other), pair.Isend(out, other)]
    for _ in range(8):
        np.sqrt(out[:60_000])
        if "Testall" in way:
            MPI.Request.Testall(requests)
    if way != "exchange, compute":
        then = time.perf_counter()
        MPI.Request.Waitall(requests)
        waited = time.perf_counter() - then
    return waited, time.perf_counter() - begin


ways = ("exchange, compute", "start, compute, Waitall", "start, compute with Testall, Waitall")

# %%
ways = cluster.run(lambda: ways if rank == 0 else None)[0]
with Others() as others:
    both = cluster.run(lambda: [[timed(w) for w in ways] for _ in range(200)] if rank < 2 else None)
rounds = 1e3 * np.reshape(both[:2], (-1, len(ways), 2))  # of both ranks
best = np.array([rounds[rounds[:, i, 1].argmin(), i] for i in range(len(ways))])
others.say()
table = ["| way | exchange or Waitall [ms] | everything [ms] | hidden |", "|---|---|---|---|"]
for way, (waited, everything) in zip(ways, best, strict=True):
    hidden = "part of it" if everything < 0.9 * best[0, 1] else "nothing"
    table.append(f"| {way} | {waited:.3f} | {everything:.3f} | {hidden} |")
for name, way in (("left for Waitall", 1), ("left for Waitall, after Testall", 2)):
    guess.answer(name, "most" if best[way, 0] > best[0, 0] / 2 else "little")
Markdown("\n".join([*table, "", "(each way's quickest of 200 rounds)"]))

# %% [markdown]
# Did the ranks compute while their messages travelled? On our machine, no: perfect overlap would halve *everything*, and it fell by less than 10 % (*nothing*). Bytes moved inside `Waitall` or `Testall`, and a core that moves bytes does not compute. So a short `Waitall` alone does not prove overlap.
#
# ### A collective that does not block
#
# A non-blocking call can hide the wait for a late rank. `comm.Iallreduce(mine, total)` starts a sum and returns a request; leave both arrays alone until the request's `Wait` has returned. Below, rank 3 comes 60 ms late to each of two sums. For the first sum, the other ranks call `Allreduce`, then compute for 40 ms. For the second, they call `Iallreduce`, compute for 40 ms, and call `Wait`.
#
# > **Predict.** How many ms does rank 0 spend in `Allreduce`, and how many in the `Wait` after `Iallreduce`?

# %%
guess["ms in Allreduce"] = ...
guess["ms in Wait"] = ...

# %%
# %%ranks --trace begun
mine, total, numbers = np.full(100, float(rank)), np.empty(100), np.ones(100_000)
for calls in ("Allreduce", "Iallreduce, Wait"):
    meet(comm)  # all ranks start together
    if rank == 3:
        time.sleep(0.06)  # comes late
    request = comm.Iallreduce(mine, total) if "Wait" in calls else comm.Allreduce(mine, total)
    end = time.perf_counter() + 0.04
    while rank < 3 and time.perf_counter() < end:
        np.sqrt(numbers)
    if request is not None:
        request.Wait()

# %%
ax = timeline(begun, title="Rank 3 comes late: Allreduce, compute; Iallreduce, compute, Wait")
ax.figure.set_label(
    "Allreduce: ranks wait for rank 3, then compute. Iallreduce: they compute, then wait"
)
plt.show()
took = {event.call: 1e3 * event.duration for event in begun.of(0)}
print(f"rank 0: {took['Allreduce']:.0f} ms in Allreduce, {took['Wait']:.0f} ms in Wait")
if took["Allreduce"] > 75:  # rank 3 sleeps for 60
    print("BUSY MACHINE: rank 3 came late, other programs had the cores. Run both cells again.")
for name in ("Allreduce", "Wait"):
    guess.answer(f"ms in {name}", took[name])

# %% [markdown]
# Where a rank's row is blank, it computes or sleeps. For the second sum, ranks 0 to 2 computed before rank 3 came, and waited (hatched) only for the rest of the 60 ms. PyTorch's DDP uses the same pattern: it starts the average of some layers' gradients, computes the gradients of others, and waits at the end.
#
# ## One-sided communication
#
# A *window* opens a piece of a rank's memory to the other ranks. They read it with `Get`, write it with `Put`, and read and change it in one call with `Fetch_and_op`. The owner of the memory makes no matching call. Here a counter on rank 0 replaces the rank that hands out tasks: a rank that is done takes the next number as its task. Rank 1 is slow. Does it take fewer tasks?

# %%
# %%ranks
window = MPI.Win.Allocate(8, 8, comm=comm)
np.frombuffer(window, np.int64)[:] = 0
one, number, taken = np.ones(1, np.int64), np.zeros(1, np.int64), []
comm.Barrier()
while True:
    window.Lock(0)
    window.Fetch_and_op(one, number, 0)  # number = counter; counter += 1
    window.Unlock(0)
    if number[0] >= 20:
        break
    taken.append(int(number[0]))
    time.sleep(0.03 if rank == 1 else 0.005)  # the task
doze(comm)  # a barrier, asleep
window.Free()
print("I took tasks", *taken)

# %% [markdown]
# Yes, and no rank was a server: rank 0 took tasks, too. A network card with RDMA (*remote direct memory access*) changes the memory by itself. Without such a card, some libraries delay the change until the owner calls MPI.

# %% [markdown]
# ## More work on more ranks: weak scaling
#
# By Amdahl's law, a speed-up stays below $1/s$ if only one rank can do the part $s$ of the work ([01](01_mpi_basics.ipynb)). Gustafson (1988) objected that people use more processors for larger problems. If a run on $N$ ranks spends the part $s'$ of its time $T_N$ in serial work, one rank would need $s'\,T_N + N (1-s')\,T_N$ for the same work. So $S_N = s' + (1-s')\,N$: no ceiling, if $s'$ stays the same.
#
# > **Predict.** With $s = s' = 0.01$, what speed-up do 1000 ranks reach by Amdahl's law? And by Gustafson's?

# %%
guess["Amdahl's speed-up on 1000 ranks"] = ...
guess["Gustafson's speed-up on 1000 ranks"] = ...

# %%
from ipywidgets import FloatLogSlider, interact

from helpers.plots import messages


def amdahl(N, s):
    return 1 / (s + (1 - s) / N)


def gustafson(N, s):
    return s + (1 - s) * N


def laws(s=0.01):
    both = {"Gustafson: the work grows": gustafson, "Amdahl: the work stays": amdahl}
    messages.laws(both, s)
    plt.show()


guess.answer("Amdahl's speed-up on 1000 ranks", amdahl(1000, 0.01))
guess.answer("Gustafson's speed-up on 1000 ranks", gustafson(1000, 0.01))
slider = FloatLogSlider(value=0.01, min=-4, max=-0.3, step=0.1, continuous_update=False)
_ = interact(laws, s=slider)

# %% [markdown]
# Amdahl's curve levels off at $1/s = 100$: 1000 ranks reach 91. Gustafson's nearly covers the ideal: 1000 ranks reach 990. Now move $s$ to 0.5. Amdahl's curve stays below 2, and Gustafson's runs at half of the ideal (500.5 on 1000 ranks). By Amdahl the work stays the same; by Gustafson it grows with $N$. (No run here tests Gustafson's law.)
#
# ## What the sources say
#
# A blog post of 2018, *Distributed Stochastic Gradient Descent with MPI and PyTorch*, rightly says that in MapReduce the system allocates the work and in MPI the programmer does. The post also calls MPI "the lower-level software underneath MapReduce". Google's MapReduce, Hadoop and Spark do not use MPI. They go on when a process dies; an MPI program usually ends.
#
# **References**
#
# - P. Balaji and others (2010), *PMI*; R. Castain and others (2018), *PMIx*: what ranks ask their parent.
# - [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html): its rendezvous, and the variables it sets.
# - J. Dean, S. Ghemawat (2004), *MapReduce*.
# - J. Gustafson (1988), *Reevaluating Amdahl's law*.
# - [The MPI standard, version 4.1](https://www.mpi-forum.org/docs/): chapter 12, one-sided communication.
#
# **Next**: [08 Watch an allreduce happen, and price it](08_allreduce_animation.ipynb).

# %%
cluster.stop()
