# %% [markdown]
# # Do more with a computation graph: order, repetition, loops, attention, ranks
#
# An appendix to [notebook 09](09_computation_graphs.ipynb). At the end you will have put a graph in order, found what it computes twice, differentiated loops, computed attention without its $n\times n$ table, and averaged gradients over ranks by rewriting a graph.
#
# **You will be able to**
#
# - list a graph's operators in an order that runs, and find common subexpressions;
# - choose between a loop operator and eager recording;
# - say what FlashAttention recomputes, and what that saves;
# - put an allreduce behind each gradient of a graph.
#
# **You need** [notebook 09](09_computation_graphs.ipynb). *Time:* 70 minutes, exercises included. Each section needs the set-up alone. *Cores:* two. *GPU:* none.
#
# ## Set-up

# %% tags=["parameters"]
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from helpers import autodiff
from helpers.autodiff import passes
from helpers.cluster import Cluster
from helpers.exercises import autodiff as check
from helpers.plots import style
from helpers.timing import measure

# %load_ext helpers.cluster
style.use()
threadpool_limits(1)  # of NumPy's matrix products: ranks have one thread, too
rng = np.random.default_rng(0)

# %% [markdown]
# ## In which order?
#
# ### Exercise 1: put it in order
#
# *Difficulty ●●○, 15 minutes.* Given the wanted variables, list all applications of operators that they need: each once, and each after what it reads. `v.maker` is the application that makes the variable `v`, or `None` for an input; an application has `.inputs`. Graphs can be deeper than Python's recursion limit: 5 000 operators in a row must pass.
#
# <details><summary>Hint</summary>
#
# Use a list as your own stack, and push each application twice: the first time to push what it reads, the second time to append it to the order. Or work forwards: count for each application how many of its inputs still have to be made, and take those that wait for none.
#
# </details>


# %% exercise="topological-order"
def my_order(outputs):
    """List the applications that make the variables `outputs`."""
    # BEGIN SOLUTION
    order, stack = {}, [(v.maker, False) for v in outputs if v.maker]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
        else:
            stack.append((node, True))
            stack += [(v.maker, False) for v in node.inputs if v.maker]
    return list(order)
    # END SOLUTION


# %% check="topological-order" points=2
check.topological_order(my_order)

# %% [markdown]
# Does the order matter in a real graph? Take a perceptron with one hidden layer and the gradients of its loss, and draw 300 topological orders at random. `peak` frees each result after its last reader and returns the most bytes that are alive at a time. Look for where the library's order falls.


# %%
def random_order(outputs):
    """Draw a topological order: again and again, any application whose inputs exist."""
    waiting, order, made = autodiff.topological(outputs), [], set()
    while waiting:
        ready = [n for n in waiting if all(v.maker is None or v in made for v in n.inputs)]
        order.append(ready[rng.integers(len(ready))])
        waiting.remove(order[-1])
        made.add(order[-1].output)
    return order


def peak(order, outputs):
    """Return the most bytes of results that are alive at a time."""
    last = {v: i for i, node in enumerate(order) for v in node.inputs}
    most = alive = 0
    for i, node in enumerate(order):
        alive += node.output.type.dtype.itemsize * int(np.prod(node.output.shape))
        most = max(most, alive)
        for v in {v for v in node.inputs if v.maker and last[v] == i} - set(outputs):
            alive -= v.type.dtype.itemsize * int(np.prod(v.shape))
    return most


# %%
x, t = autodiff.variable("x", shape=(256, 64)), autodiff.variable("t", shape=(256, 10))
W, V = autodiff.variable("W", shape=(64, 128)), autodiff.variable("V", shape=(128, 10))
h = autodiff.tanh(x @ W)
loss = autodiff.mean((h @ V - t) ** 2)
wanted = [loss, *autodiff.gradients(loss, [W, V])]
drawn = [peak(random_order(wanted), wanted) / 1e6 for _ in range(300)]
library = peak(autodiff.topological(wanted), wanted) / 1e6
_, ax = plt.subplots()
ax.hist(drawn, bins=24)
ax.axvline(library, color=style.VERMILION, linestyle="--", label="autodiff.topological")
ax.set(xlabel="peak memory [MB]", ylabel="random orders")
ax.legend()
plt.show()
print(f"random orders peak between {min(drawn):.2f} and {max(drawn):.2f} MB, "
      f"the library's at {library:.2f} MB")  # fmt: skip

# %% [markdown]
# The same operators and values have different peaks in different orders. The library takes the first order that it finds; compare its peak with the worst of the 300.
#
# ## What is computed twice?
#
# ### Exercise 2: nothing twice
#
# *Difficulty ●●○, 12 minutes.* Two applications compute the same if their operators are equal (`==` compares them, settings included) and they read the same variables in the same order. Variables that you have already *found* to hold the same result count as the same. Given an order, return a dictionary from each repeated application to the earlier one that computes the same. All operators here are functions of what they read.
#
# <details><summary>Hint</summary>
#
# Use two dictionaries. One maps each repeated result to the first such result; look up every input in it. The other maps `(operator, inputs as a tuple)` to the first application with them.
#
# </details>


# %% exercise="common-subexpressions"
def my_sharing(order):
    """Return {application: the earlier application that computes the same}."""
    # BEGIN SOLUTION
    first, original, found = {}, {}, {}
    for node in order:
        what = (node.operator, tuple(original.get(v, v) for v in node.inputs))
        if what in first:
            found[node] = first[what]
            original[node.output] = first[what].output
        else:
            first[what] = node
    return found
    # END SOLUTION


# %% check="common-subexpressions" points=2
check.common_subexpressions(my_sharing)

# %%
x, along = autodiff.variable("x", shape=(1000,)), autodiff.variable("along", shape=(1000,))
(first,) = autodiff.gradients(autodiff.sum(autodiff.gelu(x)), [x])
(second,) = autodiff.gradients(autodiff.sum(first * along), [x])
right = check.common_subexpressions.passed(my_sharing)
sharing = my_sharing if right else lambda order: {}
for name, wanted in (("gradient of GELU", first), ("second derivative", second)):
    order = autodiff.topological([wanted])
    again = sum(earlier is not None for earlier in sharing(order).values())
    (shared,) = passes.share_subexpressions([wanted])
    library = len(order) - len(autodiff.topological([shared]))
    print(
        f"{name:18} {len(order):3} operators; {again} found again by you, {library} by the library"
    )

# %% [markdown]
# Each gradient rule adds its operators without looking for equal ones, so some things are computed twice. GELU, a smooth ReLU with a cube and a tanh in it, is an example.
#
# ## How does a graph hold a loop?
#
# A loop whose length is known only at run time cannot be unrolled in advance. There are two ways out. `scan` is an operator that *contains* a graph and runs it once for each element of a sequence; its gradient is another scan, backwards. Here is a recurrent network for any number of steps:

# %%
H = 5
xs, h0 = autodiff.variable("xs", shape=("T", 2, H)), autodiff.variable("h0", shape=(2, H))
U = autodiff.variable("U", shape=(H, H))
(last,), _ = autodiff.scan(lambda h, x: ([autodiff.tanh(x + h @ U)], []), [h0], [xs])
(dU,) = autodiff.gradients(autodiff.sum(last * last), [U])
rnn = autodiff.function([xs, h0, U], [dU])
print(len(rnn.order), "operators, for any T")
for T in (3, 50):
    arrays = [rng.normal(size=shape) for shape in ((T, 2, H), (2, H), (H, H))]
    a, h, u = (torch.tensor(array, requires_grad=True) for array in arrays)
    for step in a:
        h = torch.tanh(step + h @ u)
    (wanted,) = torch.autograd.grad((h * h).sum(), u)
    off = np.abs(rnn(*arrays)[0] - wanted.numpy()).max() / wanted.abs().max().item()
    print(f"T = {T:2}: relative difference from PyTorch {off:.0e}")

# %% [markdown]
# The other way is *eager*: run each operator at once, record it, and let Python's `while` be the loop. Newton's iteration $X\leftarrow X(2I-AX)$ converges to $A^{-1}$, and values decide when it stops:

# %%
size = 4
A = autodiff.eager(np.eye(size) + 0.3 * rng.normal(size=(size, size)))
G, one = rng.normal(size=(size, size)), np.eye(size)
X, rounds = A.T / autodiff.sum(A * A), 0
while autodiff.max(autodiff.abs(A @ X - one)) > 1e-13:
    X, rounds = X @ (2 * one - A @ X), rounds + 1
(dA,) = autodiff.gradients(autodiff.sum(X * G), [A])
inverse = np.linalg.inv(A.value)
print(
    f"{rounds} rounds; the gradient is off by {np.abs(dA.value + inverse.T @ G @ inverse.T).max():.0e}"
)
replay, harder = autodiff.function([A], [X]), np.diag([1.0, 10.0, 1e3, 1e5])
off = np.abs(replay(harder)[0] @ harder - one).max()
print(f"the recorded graph for a harder matrix: X A differs from the identity by {off:.2f}")

# %% [markdown]
# The gradient agrees with the formula $-A^{-\top}GA^{-\top}$. But the recording holds the *path* that was taken, not the loop. Replayed for a harder matrix, it runs the same number of rounds and is wrong. `torch.compile` therefore guards what it has traced, and traces again when a guard fails.
#
# ## What does FlashAttention recompute?
#
# Attention, $O=\operatorname{softmax}(QK^\top)V$ for $n$ queries, makes an $n\times n$ table that is far larger than its inputs. *FlashAttention* (Dao et al. 2022) never stores this table. The forward pass computes a few rows, uses them, discards them, and keeps one number for each row, the logarithm of the sum of its exponentials. With this number the backward pass recomputes the row from $Q$ and $K$. So FlashAttention is fusion and recomputation at once. It costs one more matrix product, seven instead of six:


# %%
def attention(Q, K, V, g, rows):
    """The output and three gradients; `rows` queries at a time, nothing of size n² is kept."""
    out, dQ, dK, dV = (np.zeros_like(each) for each in (Q, Q, K, V))
    log_sum = np.empty((len(Q), 1))
    blocks = [slice(i, i + rows) for i in range(0, len(Q), rows)]
    for b in blocks:
        S = Q[b] @ K.T
        top = S.max(axis=1, keepdims=True)
        log_sum[b] = top + np.log(np.exp(S - top).sum(axis=1, keepdims=True))
        out[b] = np.exp(S - log_sum[b]) @ V
    for b in blocks:
        A = np.exp(Q[b] @ K.T - log_sum[b])  # computed again
        dS = A * (g[b] @ V.T - (g[b] * out[b]).sum(axis=1, keepdims=True))
        dQ[b] = dS @ K
        dK += dS.T @ Q[b]
        dV += A.T @ g[b]
    return out, dQ, dK, dV


# %%
size, width = 1024, 64
Q, K, V, g = (autodiff.variable(name, shape=(size, width)) for name in "QKVg")
out = autodiff.softmax(Q @ K.T) @ V
plan = autodiff.plan([Q, K, V, g], [out, *autodiff.gradients(out, [Q, K, V], seed=g)])
arrays = [rng.normal(size=(size, width)) / width**0.25 for _ in range(4)]
ways = {"the graph, all kept": lambda: plan(*arrays)}
for rows in (size, 64):
    ways[f"recomputed, {rows} rows"] = lambda rows=rows: attention(*arrays, rows)
expected = plan(*arrays)
print(f"inputs and results together {8 * arrays[0].nbytes / 1e6:.1f} MB")
for name, way in ways.items():
    tracemalloc.start()
    found = way()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    off = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
    took = measure(way, repeats=3, warmup=0).best
    print(
        f"{name:22} peak {most / 1e6:5.1f} MB   {took * 1e3:4.0f} ms   largest difference {off:.0e}"
    )

# %% [markdown]
# Recomputation alone saves nothing here, because one block of all rows is the whole table. Small blocks save it: compare the last peak with the size of the inputs and results. (FlashAttention also cuts each row into blocks, with a running maximum, so that a block fits into a GPU's fast memory.)
#
# ## How does a graph train on several ranks?
#
# Two ranks each have half of a batch, and every gradient has to be averaged before the update. In a graph this is a rewriting: put an allreduce behind each gradient. The pass `average_gradients` uses two operators for each allreduce. The first begins it as soon as the gradient exists. The second waits for it, once nothing else is left to compute. Meanwhile a thread sends.
#
# > **Predict.** The backward pass computes the last layer's gradient first. Of the three allreduces, how many can run while the rank still computes gradients?


# %%
def network():
    """A perceptron of three layers; return its inputs, loss, weights and gradients."""
    random = np.random.default_rng(5)
    x, t = autodiff.variable("x", shape=("n", 256)), autodiff.variable("t", shape=("n", 10))
    weights = [autodiff.state(f"W{i}", random.normal(size=shape) / shape[0] ** 0.5)
               for i, shape in enumerate(((256, 512), (512, 512), (512, 10)))]  # fmt: skip
    h = x
    for w in weights:
        h = autodiff.tanh(h @ w)
    loss = autodiff.mean((h - t) ** 2)
    return [x, t], loss, weights, autodiff.gradients(loss, weights)


def part(k, rows=256):
    """The inputs and targets of rank k."""
    random = np.random.default_rng(100 + k)
    return random.normal(size=(rows, 256)), random.normal(size=(rows, 10))


# %%
def on_a_rank(steps=4, rate=0.1):
    """Train on this rank's part; return the weights, and what the last step did and when."""
    line = autodiff.Line(comm)
    inputs, loss, weights, gradients = network()
    updates = [autodiff.add_update(w, -rate * g) for w, g in zip(weights, gradients, strict=True)]
    average = autodiff.average_gradients(gradients, line)
    step = autodiff.function(inputs, [loss, *updates], [average, passes.order_updates])
    for _ in range(steps):
        _, events = autodiff.watch(step, *part(rank), line=line)
    line.close()
    return [w.value for w in weights], [(e.label, e.lane, e.start, e.stop) for e in events]


cluster = Cluster(n=2)
ranks = cluster.run(on_a_rank)
cluster.stop()

# %%
inputs, _, weights, gradients = network()
run = autodiff.function(inputs, gradients)
for _ in range(4):  # one process: add the gradients of both parts, then halve
    first, second = run(*part(0)), run(*part(1))
    for w, mine, other in zip(weights, first, second, strict=True):
        w.value = w.value + -0.1 * ((mine + other) / 2)
equal = all(
    np.array_equal(a, w.value) for found, _ in ranks for a, w in zip(found, weights, strict=True)
)
print("weights of both ranks equal to one process, bit for bit:", equal)
for rank, (_, events) in enumerate(ranks):
    computing = max(stop for label, _, _, stop in events if label == "matmul")
    sent = [(start, stop) for _, lane, start, stop in events if lane == "network"]
    early = sum(max(0, min(stop, computing) - start) for start, stop in sent)
    print(f"rank {rank}: gradients travelled {sum(b - a for a, b in sent) * 1e3:.1f} ms, "
          f"{early * 1e3:.1f} ms of them before the last product of the backward pass ended")  # fmt: skip

# %% [markdown]
# The bits agree because both sides add the ranks' gradients in the same order. A rank need not wait for what travels while it still computes. The first layer's gradient is ready last, so its allreduce has no gradient left to overlap with: at most two of the three can overlap.
#
# **In practice**: `torch.compile` guards and retraces; `jax.lax.scan`; `scaled_dot_product_attention`; PyTorch's DDP starts an allreduce for each bucket of gradients in the same way, see notebook [02](02_sgd_sync_async.ipynb).
#
# **References**
# - Bergstra et al. (2010), *Theano: a CPU and GPU math expression compiler*: `scan`.
# - Sethi (1975), *Complete register allocation problems*: the best order is hard to find.
# - Dao et al. (2022), *FlashAttention*: attention without the table.
#
# **Next**: [05_cuda_tiling](05_cuda_tiling.ipynb), or back to [09](09_computation_graphs.ipynb).
