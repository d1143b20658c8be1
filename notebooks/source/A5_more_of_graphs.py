# %% [markdown]
# # Do more with a computation graph: order, repetition, loops, attention, ranks
#
# **You will be able to**
#
# - put a graph in order, and find what it computes twice;
# - differentiate a loop: step by step backwards, by `scan`, and by recording it;
# - recompute attention's table block by block, and say what that saves;
# - average gradients over ranks by rewriting a graph.
#
# **You need** [notebook 09](09_computation_graphs.ipynb). *Time:* 110 minutes (28, 15, 19, 25, 23 for the five sections), exercises included. Each section needs only the set-up. *Cores:* two. *GPU:* none.
#
# ## Set-up

# %% tags=["parameters"]
import time
import tracemalloc
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from helpers import autodiff
from helpers.autodiff import passes
from helpers.cluster import Cluster
from helpers.exercises import autodiff as check
from helpers.exercises import autodiff_runs as check_runs
from helpers.exercises import more_of_graphs as check_more
from helpers.plots import graph as draw
from helpers.plots import style
from helpers.plots.more_of_graphs import attention_block, scan_and_back
from helpers.predictions import Prediction
from helpers.timing import Others, measure

# %load_ext helpers.cluster
style.use()
threadpool_limits(1)  # of NumPy's matrix products: ranks have one thread, too
rng = np.random.default_rng(0)

# %% [markdown]
# ## In which order should a graph run?
#
# Operators run in a [topological order](glossary.md#topological-order): each after those that make its inputs. Several orders give the same value, but not the same peak memory.
#
# Below, $y=e^Xs$ ($e^X$ elementwise); the column $s$ holds the row sums of $\tanh(\sin X)$. An array as large as $X$ takes 0.5 MB; $s$ and $y$ take 2 kB each.


# %%
def alive(order, outputs):
    """For each step: the results alive, with their bytes; each is freed after its last reader."""
    last = {v: i for i, node in enumerate(order) for v in node.inputs}
    now, steps = {}, []
    for i, node in enumerate(order):
        v = node.output
        now[v] = v.dtype.itemsize * int(np.prod(v.shape))
        steps.append(dict(now))
        now = {v: size for v, size in now.items() if v in outputs or last[v] > i}
    return steps


def peak(order, outputs):
    """The most bytes of results that are alive at a time."""
    return max(sum(step.values()) for step in alive(order, outputs))


# %% [markdown]
# Each operator stands above the results alive in its step. Hatched results wait: the step neither makes nor reads them. How long does $e^X$ (blue) wait?

# %%
X = autodiff.variable("X", shape=(250, 250))
s = autodiff.sum(autodiff.tanh(autodiff.sin(X)), axis=1, keepdims=True)
y = autodiff.exp(X) @ s
exp, sin, tanh, sums, product = autodiff.topological([y])
ways = {
    "the library's order": [exp, sin, tanh, sums, product],
    "exp later": [sin, tanh, sums, exp, product],
}
draw.orders({name: alive(order, [y]) for name, order in ways.items()})
plt.show()

# %% [markdown]
# In the library's order $e^X$ waits for three steps. In step 3, sin and tanh are alive with it: 1.5 MB. If exp runs just before its reader, 1.0 MB is enough.
#
# ### Exercise 1: put it in order
#
# *Difficulty ●●○, 15 minutes.* Write a topological sort without recursion, which would fail for a chain of 5 000 operators. `outputs` is a list of variables; leave it unchanged. Return a list of the *applications* (uses of an operator) that compute them: each once, and after the applications that make its inputs. `v.maker` is the application that makes the variable `v`, or `None` for an input of the graph. `node.inputs` are the variables that `node` reads.
#
# <details><summary>Hint</summary>
#
# Use a stack. When you first pop an application, push it again, marked as *ready*, and then the makers of its inputs. When you pop it with the mark, append it to the order. Skip applications that are in the order.
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
# We draw 300 random orders for a perceptron's loss and gradients. Where are the library's order and yours?


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


# %%
x, t = autodiff.variable("x", shape=(256, 64)), autodiff.variable("t", shape=(256, 10))
W, V = autodiff.variable("W", shape=(64, 128)), autodiff.variable("V", shape=(128, 10))
h = autodiff.tanh(x @ W)
loss = autodiff.mean((h @ V - t) ** 2)
wanted = [loss, *autodiff.gradients(loss, [W, V])]
orders = {"the library's order": autodiff.topological(wanted)}
if check.topological_order.passed(my_order):
    orders["your order"] = list(my_order(wanted))

# %%
drawn = {}  # arrays of h's size at the peak: the peaks, in MB
for _ in range(300):
    most = max(alive(random_order(wanted), wanted), key=lambda step: sum(step.values()))
    large = sum(np.prod(v.shape) == np.prod(h.shape) for v in most)
    drawn.setdefault(large, []).append(sum(most.values()) / 1e6)
_, ax = plt.subplots()
sizes = sorted(drawn)
names = [f"{large} arrays of h's size" for large in sizes]
ax.hist([drawn[large] for large in sizes], bins=24, stacked=True, label=names)
for (name, order), line in zip(orders.items(), ("--", ":"), strict=False):
    ax.axvline(peak(order, wanted) / 1e6, color="black", linestyle=line, label=name)
    print(f"{name}: peak {peak(order, wanted) / 1e6:.2f} MB")
ax.figure.set_label("Peak memory of 300 random orders, of the library's and of yours")
ax.set(xlabel="peak memory [MB]", ylabel="random orders")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
plt.show()

# %% [markdown]
# The library's order is near the worst. At their peak, most orders hold four arrays of $h$'s size (0.26 MB each); the library's order holds five. An order by the hint holds three. (Transposes and reshapes count here; 09's plan shares their bytes and needs 1.33 MB.) Which of the library's five waits? We delay one operator at a time until just before its first reader, and print the delay that helps most:


# %%
def delayed(node, order):
    """The order, with this application just before its first reader."""
    rest = [other for other in order if other is not node]
    first = [i for i, other in enumerate(rest) if node.output in other.inputs]
    place = first[0] if first else len(rest)
    return [*rest[:place], node, *rest[place:]]


order = orders["the library's order"]
best = min(order, key=lambda node: peak(delayed(node, order), wanted))
reader = next(i for i, node in enumerate(order, 1) if best.output in node.inputs)
between = ", ".join(str(node.operator) for node in order[order.index(best) + 1 : reader - 1])
print(f"{best.operator}, of shape {best.output.shape}: step {order.index(best) + 1},", end=" ")
print(f"first read in step {reader}; between them: {between}")
print(f"delayed: peak {peak(delayed(best, order), wanted) / 1e6:.2f} MB")

# %% [markdown]
# $\partial L/\partial h$ waits while three operators compute tanh's derivative, $1-h^2$: as with $e^X$, the library makes a product's left operand first.
#
# **Answer.** A graph should make large results shortly before they are read. Delaying one operator lowers the perceptron's peak by a sixth; the hint's order lowers it by 43 %.
#
# ## What is computed twice?
#
# If $\partial L/\partial(r\cdot r)=g$, the product rule computes $\partial L/\partial r$ as $g\,r+g\,r$: three operators, of which two are enough. Removing such repeats is called *common subexpression elimination*.
#
# ### Exercise 2: nothing twice
#
# *Difficulty ●●○, 10 minutes.* Two applications compute the same if their operators are equal (compare `node.operator` with `==`) and they read the same variables in the same order. Where an application reads a repeated output, compare as if it read the first one. Given a topological `order` (leave it unchanged), return a dictionary from each repeated application to the *first* application that computes the same.
#
# <details><summary>Hint</summary>
#
# Use two dictionaries. One maps the output of a repeated application to the output of the first; look up every input in it. The other maps `(operator, inputs as a tuple)` to the first application with them.
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

# %% [markdown]
# How many operators repeat in the gradient of GELU, a smooth ReLU?

# %%
x, along = autodiff.variable("x", shape=(1000,)), autodiff.variable("along", shape=(1000,))
(first,) = autodiff.gradients(autodiff.sum(autodiff.gelu(x)), [x])
(second,) = autodiff.gradients(autodiff.sum(first * along), [x])
right = check.common_subexpressions.passed(my_sharing)
sharing = my_sharing if right else lambda order: {}
for name, wanted in (("gradient", first), ("second derivative", second)):
    order = autodiff.topological([wanted])
    found = sharing(order)
    yours = sum(earlier is not None for earlier in found.values())
    kinds = ", ".join(sorted({str(node.operator) for node in found}))
    (shared,) = passes.share_subexpressions([wanted])
    library = len(order) - len(autodiff.topological([shared]))
    print(f"{name} of GELU, {len(order)} operators. Repeated: {yours} found by you,", end=" ")
    print(f"{library} by the library" + f": {kinds}" * right)

# %% [markdown]
# **Answer.** Gradient rules repeat operators: 2 of 32 in GELU's gradient (a product and a constant), and 10 of 67 in its second derivative.
#
# ## How does a graph hold a loop?
#
# A loop whose length is known only at run time cannot be unrolled. One way out is `scan`, an operator that *contains* a graph for one step, and runs it for each element of a sequence. Here is a recurrent network with the step $h \leftarrow \tanh(x_t + hU)$:

# %%
H = 5
xs, h0 = autodiff.variable("xs", shape=("T", 2, H)), autodiff.variable("h0", shape=(2, H))
U = autodiff.variable("U", shape=(H, H))


def one_step(h, x):
    """Return the new states, and what to keep of this step (nothing)."""
    return [autodiff.tanh(x + h @ U)], []


(last,), _ = autodiff.scan(one_step, [h0], [xs])
(dU,) = autodiff.gradients(autodiff.sum(last * last), [U])
rnn = autodiff.function([xs, h0, U], [dU])
print(f"gradient with respect to U: {len(rnn.order)} operators, whatever T is")

# %% [markdown]
# The gradient of a scan is another scan, from the last element to the first ($dh_t$ is $\partial L/\partial h_t$, $dU$ the sum so far):

# %%
scan_and_back()
plt.show()

# %% [markdown]
# Each step back (orange) reads the state that its forward step read, so the forward scan keeps its states.
#
# ### Exercise 3: one step backwards
#
# *Difficulty ●●○, 8 minutes.* Write one step of this second scan, in NumPy. The forward step made $h' = \tanh(x + hU)$ of the arrays `x`, `h` and `U`; leave them unchanged. `dh` is $\partial L/\partial h'$. `dU` is what the later steps add to $\partial L/\partial U$. Return two arrays: $\partial L/\partial h$, and `dU` with this step's share added.
#
# <details><summary>Hint</summary>
#
# First find $\partial L/\partial (x + hU)$: the derivative of tanh is $1-\tanh^2$. Of a product $C=AB$, the gradients are $dA=dC\,B^\top$ and $dB=A^\top dC$.
#
# </details>


# %% exercise="back-step"
def my_back_step(dh, dU, x, h, U):
    """Return (∂L/∂h, dU with this step's share), for the state h before the step."""
    # BEGIN SOLUTION
    da = dh * (1 - np.tanh(x + h @ U) ** 2)
    return da @ U.T, dU + h.T @ da
    # END SOLUTION


# %% check="back-step" points=2
check_more.back_step(my_back_step)

# %% [markdown]
# The next cell runs a loop forwards, keeps its states, and runs your step from the last state to the first. PyTorch instead evaluates *eagerly*: each operator runs at once and is recorded. Do all three find the same gradient?


# %%
def by_your_step(xs, h, U):
    """The gradient with respect to U of the sum of the last state's squares."""
    states = [h]
    for x in xs:
        states.append(np.tanh(x + states[-1] @ U))
    dh, dU = 2 * states.pop(), np.zeros_like(U)
    for x, h in zip(xs[::-1], states[::-1], strict=True):
        dh, dU = my_back_step(dh, dU, x, h, U)
    return dU


# %%
for T in (3, 50):
    arrays = [rng.normal(size=shape) for shape in ((T, 2, H), (2, H), (H, H))]
    found = {"scan": rnn(*arrays)[0]}
    if check_more.back_step.passed(my_back_step):
        found["your step"] = by_your_step(*arrays)
    inputs, h, u = (torch.tensor(array, requires_grad=True) for array in arrays)
    for x_t in inputs:
        h = torch.tanh(x_t + h @ u)
    (wanted,) = torch.autograd.grad((h * h).sum(), u)
    for name, dU in found.items():
        off = np.abs(dU - wanted.numpy()).max() / wanted.abs().max().item()
        print(f"T = {T:2}, {name}: relative difference from PyTorch {off:.1g}")

# %% [markdown]
# Yes, up to rounding. Recording is the other way to hold a loop. With `autodiff.eager` our library does so, too. Newton's iteration $X\leftarrow X(2I-AX)$ converges to $A^{-1}$, and the values of $X$ decide when to stop:

# %%
size = 4
A = autodiff.eager(np.eye(size) + 0.3 * rng.normal(size=(size, size)))
G, one = rng.normal(size=(size, size)), np.eye(size)
X, rounds = A.T / autodiff.sum(A * A), 0
while autodiff.max(autodiff.abs(A @ X - one)) > 1e-13:
    X, rounds = X @ (2 * one - A @ X), rounds + 1
(dA,) = autodiff.gradients(autodiff.sum(X * G), [A])
inverse = np.linalg.inv(A.value)
formula = -inverse.T @ G @ inverse.T  # for the gradient of sum(A⁻¹ * G)
off = np.abs(dA.value - formula).max()
print(f"{rounds} rounds; the gradient differs from the formula by {off:.1g} at most")

# %% [markdown]
# Can we replay the recorded graph for a matrix that needs more rounds?

# %%
replay = autodiff.function([A], [X])
harder = np.diag([1.0, 10.0, 1e3, 1e5])
for name, matrix in (("the recorded matrix", A.value), ("a harder matrix", harder)):
    off = np.abs(replay(matrix)[0] @ matrix - one).max()
    print(f"{name}: largest entry of X A − I is {off:.1g}")

# %% [markdown]
# No: it holds the rounds of the recorded matrix, and the harder one needs more. So `torch.compile` attaches conditions, *guards* (types, shapes), to each recorded graph, and records anew when one fails. Where a tensor's value decides, as here, it splits the graph.
#
# **Answer.** A graph holds a loop as one operator that contains a step's graph, which serves any number of steps. A recorded graph holds the steps that ran, and serves that number only.
#
# ## What does FlashAttention recompute?
#
# Attention, $O=\operatorname{softmax}(QK^\top)V$ for $n$ queries, makes an $n\times n$ table, far larger than $Q$, $K$ and $V$ for large $n$. ($Q$ includes the usual scaling.) *FlashAttention* never stores the table. Our forward pass computes a few rows, uses and discards them. It keeps one number for each row: the logarithm of the sum of its exponentials. With this number the backward pass recomputes any piece of the table from $Q$ and $K$. So it combines [fusion](glossary.md#fusion) with recomputation.

# %%
attention_block()
plt.show()

# %% [markdown]
# Solid arrays are stored, with a row for each query or key ($K$ and $V$ lie on their side). The table has $n^2$ entries.
#
# ### Exercise 4: a block, computed again
#
# *Difficulty ●●○, 15 minutes.* Write the backward pass of one block (green): some queries meet some keys. Do not change the arguments: other blocks read them. `Q`, `g` ($\partial L/\partial O$), `out` ($O$) and the column `log_sum` have a row for each query of the block, `K` and `V` for each key. But `out` and `log_sum` were computed with *all* keys. Return the arrays `(dQ, dK, dV)`: what this block adds to the three gradients. Let $A$ be the block's piece of the table after softmax, $S=QK^\top$ and $dA=\partial L/\partial A$. Then
#
# $$dA = gV^\top,\qquad dS = A\odot(dA - c),\qquad c = \text{sum of each row of } g\odot O,$$
#
# where $\odot$ multiplies element by element. (The rule of softmax subtracts the sum of each row of $A\odot dA$ over all keys. This sum equals $c$, so a block need not know the other keys.)
#
# <details><summary>Hint</summary>
#
# Softmax divides $e^S$ by the sum over the row. Subtract something from $S$ before `np.exp` instead: then nothing overflows, and the block need not know the other keys. Of a product $C=AB$, the gradients are $dA=dC\,B^\top$ and $dB=A^\top dC$. Keep $c$ a column: `keepdims=True`.
#
# </details>


# %% exercise="attention-block"
def my_block(Q, K, V, g, out, log_sum):
    """Return what a block adds to the gradients: (dQ, dK, dV)."""
    # BEGIN SOLUTION
    A = np.exp(Q @ K.T - log_sum)  # computed again
    dS = A * (g @ V.T - (g * out).sum(axis=1, keepdims=True))
    return dS @ K, dS.T @ Q, A.T @ g
    # END SOLUTION


# %% check="attention-block" points=2
check_runs.attention_block(my_block)

# %% [markdown]
# Our blocks are `rows` whole rows of the table: they meet all keys. We compare them with the graph, which keeps the table.


# %%
def attention(Q, K, V, g, rows):
    """The output and three gradients; nothing of size n² is kept."""
    out, dQ, dK, dV = (np.zeros_like(each) for each in (Q, Q, K, V))
    log_sum = np.empty((len(Q), 1))
    blocks = [slice(i, i + rows) for i in range(0, len(Q), rows)]
    for b in blocks:
        S = Q[b] @ K.T
        top = S.max(axis=1, keepdims=True)
        log_sum[b] = top + np.log(np.exp(S - top).sum(axis=1, keepdims=True))
        out[b] = np.exp(S - log_sum[b]) @ V
    for b in blocks:
        dQ[b], more_K, more_V = my_block(Q[b], K, V, g[b], out[b], log_sum[b])
        dK += more_K
        dV += more_V
    return out, dQ, dK, dV


# %%
size, width = 1024, 64
Q, K, V, g = (autodiff.variable(name, shape=(size, width)) for name in "QKVg")
out = autodiff.softmax(Q @ K.T) @ V
plan = autodiff.plan([Q, K, V, g], [out, *autodiff.gradients(out, [Q, K, V], seed=g)])
arrays = [rng.normal(size=(size, width)) / width**0.25 for _ in range(4)]
ways = {"the graph, all kept": lambda: plan(*arrays)}
for rows in (size, 64) if check_runs.attention_block.passed(my_block) else ():
    ways[f"recomputed, {rows} rows"] = lambda rows=rows: attention(*arrays, rows)
expected, others = plan(*arrays), Others()
print(f"the four results together: {4 * arrays[0].nbytes / 1e6:.1f} MB")
for name, way in ways.items():
    tracemalloc.start()
    found = way()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    off = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
    with others:
        took = measure(way, repeats=3, warmup=0).best * 1e3
    print(f"{name:22} peak {most / 1e6:5.1f} MB   {took:4.0f} ms   largest difference {off:.1g}")
others.say()

# %% [markdown]
# One block of all 1024 rows *is* the whole table, and needs more memory than the graph. (FlashAttention also cuts each row, so a block fits into a GPU's fast memory.)
#
# **Answer.** It recomputes the table, block by block: with blocks of 64 rows, the peak is less than a quarter of the graph's. It costs a seventh matrix product ($QK^\top$ twice), and here more time than that. (We did not measure why.)
#
# ## How does a graph train on several ranks?
#
# Each of two ranks has half of a batch. Both average every gradient before the update. A pass puts two operators behind each gradient. `Post` queues the gradient, as soon as it exists, for a thread that runs the allreduces one after another. `Wait` waits for the allreduce; all waits come after the last gradient.
#
# ### Exercise 5: the rule of a pass
#
# *Difficulty ●○○, 8 minutes.* `rebuild(outputs, rule)` goes through a graph's applications in topological order and calls `rule(node, operands)` for each. `operands` are the variables that stand for `node.inputs` in the new graph. The rule returns the variable that all later readers of `node.output` get instead, or `None` to keep the operator. Write the rule that averages: if `node.output` is one of `gradients` (a list), return `average(...)` of the gradient as the new graph computes it. `average` takes a variable and returns one.
#
# <details><summary>Hint</summary>
#
# `autodiff.apply(operator, a, b)` applies an operator to `a` and `b` and returns its output.
#
# </details>


# %% exercise="averaging-rule"
def my_rule(node, operands, gradients, average):
    """Return what replaces the node's output: its average, or None if it is no gradient."""
    # BEGIN SOLUTION
    if node.output in gradients:
        return average(autodiff.apply(node.operator, *operands))
    return None
    # END SOLUTION


# %% check="averaging-rule" points=2
check_more.averaging_rule(my_rule)

# %% [markdown]
# We make a pass of your rule (until it is right, we use the library's), train four steps on two ranks, record the last step, and compare with one process.
#
# > **Predict.** The backward pass of three layers computes the last layer's gradient first. How many of the three allreduces are queued while the rank still has a gradient to compute?

# %%
early = Prediction("allreduces queued early", None)  # your number for None


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
from helpers.autodiff.parallel import Post, Wait
from helpers.autodiff.rewriting import rebuild

rule = my_rule if check_more.averaging_rule.passed(my_rule) else None


def averaging(gradients, line):
    """The pass that walks the graph with your rule."""
    if rule is None:
        return autodiff.average_gradients(gradients, line)

    def average(g):
        return autodiff.apply(Wait(line), autodiff.apply(Post(line), g))

    mine = partial(rule, gradients=gradients, average=average)
    return lambda outputs, inputs=(): rebuild(outputs, mine, inputs)


# %%
def on_a_rank(steps=4, rate=0.1):
    """Train; return the weights, what the last step did when, and each allreduce's time alone."""
    line = autodiff.Line(comm)
    inputs, loss, weights, gradients = network()
    updates = [autodiff.add_update(w, -rate * g) for w, g in zip(weights, gradients, strict=True)]
    both = [averaging(gradients, line), passes.order_updates]
    step = autodiff.function(inputs, [loss, *updates], both)
    for _ in range(steps):
        began = time.perf_counter()
        _, events = autodiff.watch(step, *part(rank), line=line)
    alone = []
    for w in reversed(weights):  # as large as gradients 1, 2 and 3
        copy = w.value.copy()
        alone.append(measure(lambda a=copy: (line.post(a), line.wait(a))).best)
    line.close()
    when = [(e.label, e.lane, began + e.start, began + e.stop) for e in events]
    return [w.value for w in weights], when, alone


cluster = Cluster(n=2)
with Others() as others:
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
    np.array_equal(a, w.value) for found, *_ in ranks for a, w in zip(found, weights, strict=True)
)
print("weights of both ranks equal to one process, bit for bit:", equal)

# %% [markdown]
# A triangle marks when a gradient is ready. The allreduce with its number is then queued, and begins when the queue's thread runs. Allreduces run one after another. While one is hatched, the other rank has not begun it. Which allreduces overlap with computation? In the table, *alone* is the same allreduce while nobody computes (best of seven).

# %%
recorded = [events for _, events, _ in ranks]
style.doubt(draw.overlap(recorded).figure, others)
plt.show()
met = draw.all_have_begun(recorded)
print("allreduce       lasts   hatched   while gradients are computed   alone   [ms]")
for rank, (_, events, alone) in enumerate(ranks):
    last = max(stop for label, _, _, stop in events if label == "matmul")  # the last product
    sent = [(start, stop) for _, lane, start, stop in events if lane == "network"]
    for number, ((start, stop), begun, least) in enumerate(zip(sent, met, alone, strict=True), 1):
        times = stop - start, min(begun, stop) - start, max(0, min(stop, last) - start), least
        lasts, hatched, early_part, least = (1e3 * seconds for seconds in times)
        print(f"{number}, rank {rank}{lasts:12.2f}{hatched:10.2f}{early_part:31.2f}{least:8.2f}")
    queued = [start for label, _, start, _ in events if label == "begin all-reduce"]
early.answer(sum(start < last for start in queued))

# %% [markdown]
# Allreduces 1 and 2 are queued early, so they may overlap; the table's third column says for how long. Allreduce 3 never overlaps: no gradient is left to compute. Allreduce 1 (41 kB) lasts many times as long as alone: beyond its hatched wait, this is the price of running beside computation. (Two threads compute and two run allreduces; how many cores have you?) If it lasts until the last gradient is ready, allreduce 2 cannot overlap. (We did not measure whether overlap saves time here.)
#
# **Answer.** A pass adds operators that queue each gradient's allreduce and wait for it. On two ranks the weights equal one process's, bit for bit.
#
# **In practice.** JAX's loop operator is `jax.lax.scan`. PyTorch's `scaled_dot_product_attention` can use FlashAttention, and its `DistributedDataParallel` begins an allreduce for each group of gradients ([02](02_sgd_sync_async.ipynb)).
#
# **References**
# - Bergstra et al. (2010), *Theano: a CPU and GPU math expression compiler*: `scan`.
# - Dao et al. (2022), *FlashAttention*.
#
# **Next**: [05 Convolve an image in CUDA C, with or without a GPU](05_cuda_tiling.ipynb).
