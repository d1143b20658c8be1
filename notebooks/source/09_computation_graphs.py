# %% [markdown]
# # Build a computation graph, and make it differentiate, run and remember
#
# At the end you will have written the parts of a deep learning framework that decide what is computed, in which order, and in whose memory: operators, gradients, execution, buffers, recomputation.

# %%
from helpers import autodiff
from helpers.plots.graph_html import graph

x, W = autodiff.variable("x", shape=(64, 20)), autodiff.variable("W", shape=(20, 16))
h = autodiff.tanh(x @ W)
loss = autodiff.sum(h * h)
(dW,) = autodiff.gradients(loss, [W])
graph(autodiff.plan([x, W], [loss, dW]), {h: "h", loss: "loss", dW: "∂loss/∂W"})

# %% [markdown]
# A layer, a loss, and the gradient, as one [computation graph](glossary.md#computation-graph). Press *step*: memory fills and empties. The order of these steps, the operators of the gradient and the decision whose memory each result gets are what you will write.
#
# **You will be able to**
#
# - give an operator its types and its gradient;
# - put a graph in order, and extend it by its own gradients, twice if need be;
# - say to the byte how much memory a run will take, and which buffers may be written over;
# - trade memory for time on a chain, and place what is kept;
# - explain what goes wrong when an update, a buffer or a gradient comes at the wrong moment.
#
# **You need** the chain rule, NumPy, and for section 10 notebooks [01](01_mpi_basics.ipynb) and [02](02_sgd_sync_async.ipynb) (ranks, averaged gradients). *Time:* 150 minutes with all exercises, of which your machine works for less than two. *Cores:* two. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | unit |
# |---|---|---|
# | $x, y, h$ | [variables](glossary.md#variable-of-a-graph): tensors that have a type now and a value later | |
# | $f$ | [operator](glossary.md#operator): makes variables of variables | |
# | $g_v$ | $\partial L/\partial v$, the gradient of a loss $L$ with respect to $v$; of $v$'s type | |
# | $n$ | length of a chain of operators | steps |
# | $m$ | segments that a chain is cut into | |
# | $c$ | units of memory: results of the chain that may be kept | results |
# | `"n"` | a size that is known only when the graph runs | |

# %% [markdown]
# ## Set-up

# %%
import time
import tracemalloc
import weakref
from collections import Counter
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown, display

from helpers import claims, records
from helpers.autodiff import Allocator, checkpoint, passes
from helpers.autodiff.checkpoint import Action
from helpers.exercises import autodiff as check
from helpers.exercises import autodiff_runs as check_runs
from helpers.exercises.predictions import Predictions
from helpers.paths import BENCH_RECORDS
from helpers.plots import graph as draw
from helpers.plots import style
from helpers.plots.segments_html import segments
from helpers.timing import measure

torch.set_num_threads(1)
style.use()


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    """Sizes of this notebook's runs."""

    numbers: int = 2_000_000  # elements of the array that is fused over
    chain: int = 10_000  # convolutions in the source's graph
    unit: float = 1.5625  # MiB of each of their results
    small_chain: int = 144  # convolutions that are run here
    repeats: int = 5  # samples of each timing
    ranks: int = 2  # processes that train together


P = Parameters()
guess = Predictions()
rng = np.random.default_rng(0)


def once_right(exercise, answer, otherwise):
    """What you wrote, once its check says "correct"; until then, something in its place."""
    return answer if exercise.passed(answer) else otherwise


# %% [markdown]
# > **Predict, before you go on.** A graph of 10 000 convolutions in a row, each of whose results takes 1.56 MiB, needs 15 624 MiB to have the gradients of all weights. One of the sources of this course gets along with 173 MiB. It does so by forgetting results and computing them again. How many times as long does the way *forward* take: 1.1, 2, 10, 100? Replace the dots; section 7 answers.

# %%
guess["passes forward at 173 MiB"] = ...

# %% [markdown]
# ## 1. Four numbers by hand
#
# Before any library: $y=(wx+b)^2\,x$ at $w=3$, $x=2$, $b=-5$. Take paper. Call $s=wx+b$ and walk back from $y$: what is $\partial y/\partial s$? Then $\partial y/\partial w$, $\partial y/\partial b$, $\partial y/\partial x$. (Two ways lead from $x$ to $y$.)
#
# ### Exercise 1: the chain rule with a pencil
#
# *Difficulty ●○○, 4 minutes.* Write down the value and the three derivatives.
#
# <details><summary>Hint</summary>
#
# $y=s^2x$, so $\partial y/\partial s=2sx$. Each of $w$, $b$ and $x$ moves $s$; $x$ also stands in $y$ by itself, and both shares add up.
#
# </details>

# %% exercise="four-numbers"
value = with_w = with_b = with_x = None  # replace None by four numbers: y, ∂y/∂w, ∂y/∂b, ∂y/∂x
# BEGIN SOLUTION
value, with_w, with_b, with_x = 2, 2 * 1 * 2 * 2, 2 * 1 * 2, 2 * 1 * 2 * 3 + 1
# END SOLUTION

# %% check="four-numbers" points=1
check.four_numbers(value, with_w, with_b, with_x)

# %% [markdown]
# Now the same by machine, twice: by PyTorch, and by the graph that this notebook is about.

# %%
w, x, b = (torch.tensor(number, requires_grad=True) for number in (3.0, 2.0, -5.0))
y = (w * x + b) ** 2 * x
y.backward()
print("PyTorch:   ", [t.item() for t in (y, w.grad, b.grad, x.grad)])

w, x, b = (autodiff.variable(name) for name in "wxb")
y = (w * x + b) ** 2 * x
four = autodiff.function([w, x, b], [y, *autodiff.gradients(y, [w, b, x])])
print("this graph:", [float(value) for value in four(np.array(3.0), np.array(2.0), np.array(-5.0))])

# %% [markdown]
# The two lines agree, and so should your paper. They were had in different ways: PyTorch computed $y$ line by line, and remembered how. The graph below was there before any of the numbers.
#
# ## 2. A graph of types
#
# A [computation graph](glossary.md#computation-graph) has two kinds of nodes. A **variable** stands for a tensor; an **operator** reads variables and makes one. An edge joins one kind to the other, never two of a kind: the graph is *bipartite*. Of a variable two things are known before it has a value, its dtype and its shape. An operator infers those of its result, or refuses:

# %%
A, B = autodiff.variable("A", shape=("n", 3)), autodiff.variable("B", shape=(3, 4))
print(repr(A @ B))
print(repr(autodiff.sum(autodiff.exp(A @ B), axis=0)))
for attempt in (lambda: B @ A, lambda: A + B, lambda: A + autodiff.variable("k", dtype="int64")):
    try:
        attempt()
    except (TypeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# `"n"` is a *symbol*, a size that will be read off the arrays when the graph runs; `A.shape[0]` can be calculated with. Maxout, the largest of each $k$ neighbours, is one line that holds for every batch:


# %%
def maxout(x, k):
    """(n, m) -> (n, m // k)."""
    n, m = x.shape
    return autodiff.max(autodiff.reshape(x, (n, m // k, k)), axis=2)


x = autodiff.variable("x", shape=("n", "m"))
y = maxout(x, 3)
print(repr(y))
f = autodiff.function([x], [y, *autodiff.gradients(autodiff.sum(y), [x])])
for shape in ((2, 6), (1, 9)):
    result, gradient = f(rng.normal(size=shape))
    print(shape, "->", result.shape, "  ones in the gradient:", int(gradient.sum()))

# %% [markdown]
# ### How much is one operator?
#
# Softmax can be one operator or five: the largest of a row, a difference, `exp`, a sum, a quotient (and what brings their shapes together). One is parsimonious and easy to tune; five need no gradient of their own, and whoever improves a graph sees into them. The values are the same:

# %%
x = autodiff.variable("x", shape=(500, 300))
table = rng.normal(size=(500, 300))
for name, fine in (("coarse", False), ("fine", True)):
    y = autodiff.softmax(x, fine=fine)
    (g,) = autodiff.gradients(autodiff.sum(y * y), [x])
    plan = autodiff.plan([x], [g])
    took = measure(lambda p=plan: p(table), repeats=P.repeats, warmup=1).median
    print(f"{name:7}{len(autodiff.topological([y])):3} operators, {len(plan.steps):3} with the gradient"
          f"   peak {plan.peak / 1e6:.1f} MB   {took * 1e3:.1f} ms")  # fmt: skip

# %% [markdown]
# The last two columns say which granularity needs less memory, and which less time. Section 5 gives the fine one all the help that this notebook has.
#
# ### Exercise 2: an operator with its gradient
#
# *Difficulty ●●○, 10 minutes.* *Softplus*, $y=\log(1+e^x)$, is a ReLU with a round corner. Give it `run`, which writes into memory that is already there, and `gradient`, which says how the chain rule continues: $g_x$ from $g_y$, as a list with one variable for each operand. The gradient is written with functions of `autodiff`, since it becomes part of the graph.
#
# <details><summary>Hint</summary>
#
# `np.logaddexp(a, b)` is $\log(e^a+e^b)$ without overflow, and takes `out=`. The slope of softplus is the sigmoid.
#
# </details>


# %% exercise="softplus"
@dataclass(frozen=True)
class Softplus(autodiff.Operator):
    """log(1 + exp(x)), element by element."""

    def infer(self, x):
        """The result has the operand's type: dtype and shape."""
        return x

    def run(self, out, x):
        """Write into the array `out`."""
        # BEGIN SOLUTION
        np.logaddexp(0, x, out=out)
        # END SOLUTION

    def gradient(self, g, y, x):
        """A list: of the one operand x, the gradient as a variable."""
        # BEGIN SOLUTION
        return [g * autodiff.sigmoid(x)]
        # END SOLUTION


# %% check="softplus" points=2
check.softplus_operator(Softplus)


# %%
def softplus(x):
    """Yours; until it is right, three operators, which overflow."""
    mine = once_right(check.softplus_operator, Softplus, None)
    return autodiff.apply(mine(), x) if mine else autodiff.log(1 + autodiff.exp(x))


# %% [markdown]
# ## 3. In order
#
# Running a graph is simple once its operators stand in a [topological order](glossary.md#topological-order): each after everything that it reads. Usually there are several such orders. Of the graph below, *plus* has to wait for the other two, but `exp` and `sin` may come either way round.
#
# > **Predict.** `a` is read by `exp`, by `sin` and by the product at the end. In how many orders can the five operators run?

# %%
x = autodiff.variable("x", shape=(4,))
a = autodiff.tanh(x)
y = (autodiff.exp(a) + autodiff.sin(a)) * a
graph(autodiff.plan([x], [y]), {a: "a", y: "y"})

# %% [markdown]
# In two: tanh, then `exp` and `sin` in either order, then plus, then times.
#
# ### Exercise 3: put it in order
#
# *Difficulty ●●○, 15 minutes.* Of some wanted variables, list all applications of operators that are needed, each once and each after what it reads. A variable `v` has `v.maker`, the application that makes it (or `None`), and an application has `.inputs`. Graphs are deeper than Python's stack: 5 000 operators in a row must pass.
#
# <details><summary>Hint</summary>
#
# First collect all applications, walking back from the outputs. Then either go forwards: count for each how many of its inputs still have to be made, and take those that wait for none. Or use your own list as a stack, and push an application twice: once to look at what it reads, once more to list it.
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
# With it, a machine that runs graphs is six lines:


# %%
def run(outputs, fed):
    """Return the outputs' values; `fed` maps variables to arrays."""
    values = dict(fed)
    order = once_right(check.topological_order, my_order, autodiff.topological)
    for node in order(outputs):
        result = values[node.output] = np.empty(node.output.shape, node.output.dtype)
        node.operator.run(result, *(values[v] for v in node.inputs))
    return [values[v] for v in outputs]


point = np.array([-1.0, 0.0, 0.5, 2.0])
print("by your machine:", run([y], {x: point})[0])
print("by NumPy:       ", (np.exp(np.tanh(point)) + np.sin(np.tanh(point))) * np.tanh(point))

# %% [markdown]
# ## 4. Gradients by making the graph longer
#
# A first idea is to give each operator a second function in NumPy that computes its gradient. It works, until somebody wants the gradient *of* a gradient, wants to change it, or wants it optimised together with the rest: the backward pass is not in the graph. So do as your `gradient` above did, and answer with variables. With $y=f(x_1,\dots,x_k)$ and $g_y$ known, $f$'s rule adds operators for
#
# $$g_{x_i} \mathrel{+}= \Big(\frac{\partial f}{\partial x_i}\Big)^{\!\top} g_y .$$
#
# Walk the topological order *backwards*: when it is an operator's turn, all readers of its result have been passed, so $g_y$ is complete.
#
# > **Predict.** $y=\sum\tanh(x)$ is three operators here: tanh, a sum that leaves an axis of length 1, a reshape that takes it away. The slope of tanh is $1-\tanh^2$. How many operators does `gradients` add?

# %%
x = autodiff.variable("x", shape=(3,))
y = autodiff.sum(autodiff.tanh(x))
(gx,) = autodiff.gradients(y, [x])
print(autodiff.listing([x], [y, gx]))

# %% [markdown]
# A graph as text: each line is an operator, with what it reads, and the type of what it makes. The first three are $y$'s. The other six and the number 1 that `d` reads, seven operators, are the gradient's. They spell out $g\,(1-\tanh^2 x)$, where $g$ is the 1 that every chain begins with, brought to $x$'s shape. The rule of tanh reuses its *result*; that is why results are kept until the way back has passed them, and why section 7 is needed.
#
# ### Exercise 4: the extension
#
# *Difficulty ●●○, 20 minutes.* Return for each `x` of `xs` the variable $\partial y/\partial x$, for a scalar `y`. `node.operator.gradient(g, node.output, *node.inputs)` gives a list with a variable or `None` (no dependence) for each operand. Where a variable has several readers, shares add up; where `y` does not depend on an `x`, return zeros.
#
# <details><summary>Hint</summary>
#
# A dictionary from variable to its gradient so far, which begins as `{y: autodiff.full_like(y, 1)}`. Use your order (or `autodiff.topological`), reversed, and skip operators whose result is not in the dictionary.
#
# </details>


# %% exercise="gradients"
def my_gradients(y, xs):
    """Extend the graph by the gradients of the scalar y."""
    # BEGIN SOLUTION
    total = {y: autodiff.full_like(y, 1)}
    for node in reversed(my_order([y])):
        if node.output in total:
            parts = node.operator.gradient(total[node.output], node.output, *node.inputs)
            for v, part in zip(node.inputs, parts, strict=True):
                if part is not None:
                    total[v] = total[v] + part if v in total else part
    return [total.get(v, autodiff.full_like(v, 0)) for v in xs]
    # END SOLUTION


# %% check="gradients" points=3
check.gradients_by_extension(my_gradients)


# %%
def gradients(y, xs):
    """Yours, once it is right; the library's until then."""
    return once_right(check.gradients_by_extension, my_gradients, autodiff.gradients)(y, xs)


# %% [markdown]
# ### What a graph of gradients is good for
#
# **Twice.** The Hessian $\nabla^2L$ of $n$ parameters has $n^2$ numbers; its product with a vector $v$ is the gradient of $\nabla L\cdot v$, and costs about as much as a gradient. Your operator and your extension, against PyTorch:

# %%
z, v = autodiff.variable("z", shape=("n",)), autodiff.variable("v", shape=("n",))
L = autodiff.sum(softplus(z) * autodiff.sin(z))
(first,) = gradients(L, [z])
(product,) = gradients(autodiff.sum(first * v), [z])
point, along = rng.normal(size=5), rng.normal(size=5)
ours = autodiff.function([z, v], [product])(point, along)[0]
_, theirs = torch.autograd.functional.hvp(
    lambda t: (torch.nn.functional.softplus(t) * torch.sin(t)).sum(),
    torch.tensor(point), torch.tensor(along),
)  # fmt: skip
print(f"largest difference: {np.abs(ours - theirs.numpy()).max():.1e}")

# %% [markdown]
# **In a loss.** A *gradient penalty* asks that the slope of a critic $D$ be 1: $(\lVert\nabla_x D\rVert-1)^2$ is part of what is minimised, so its gradient with respect to the weights is of second order. Beside PyTorch, which has to be told beforehand to keep a graph of its gradient:

# %%
x, W = autodiff.variable("x", shape=(5, 3)), autodiff.variable("W", shape=(3, 4))
(slope,) = gradients(autodiff.sum(softplus(x @ W)), [x])
penalty = (autodiff.sqrt(autodiff.sum(slope * slope)) - 1) ** 2
arrays = rng.normal(size=(5, 3)), rng.normal(size=(3, 4))
(ours,) = autodiff.function([x, W], gradients(penalty, [W]))(*arrays)
tx, tW = (torch.tensor(array, requires_grad=True) for array in arrays)
critic = torch.nn.functional.softplus(tx @ tW).sum()
(slope,) = torch.autograd.grad(critic, tx, create_graph=True)
(theirs,) = torch.autograd.grad((slope.norm() - 1) ** 2, tW)
print(f"largest difference: {np.abs(ours - theirs.numpy()).max():.1e}")

# %% [markdown]
# **Changed on the way.** Since the gradient passes through the graph, an operator can stand in its way: do nothing forwards, and clip or reverse what comes back.

# %%
x = autodiff.variable("x", shape=(4,))
for name, gate in (
    ("as it is", lambda x: x),
    ("clipped at 1", lambda x: autodiff.clip_gradient(x, 1.0)),
    ("reversed", autodiff.reverse_gradient),
    ("stopped", autodiff.stop_gradient),
):
    y = autodiff.sum(gate(x) * gate(x))
    print(
        f"{name:13}", autodiff.function([x], gradients(y, [x]))(np.array([-2.0, -0.3, 0.1, 3.0]))[0]
    )

# %% [markdown]
# (Clipped twice, once for each reader, then added: at most 2.)
#
# ## 5. The same values for less
#
# A graph says *what*, not *how*. A [pass](glossary.md#pass) replaces a graph by another one that computes the same values and is cheaper to run. Each of `autodiff.passes` is one short file. Two passes keep the values only as mathematics counts: they are in `passes.fast_math`, and you ask for them by that name. One of the two, `collect_terms`, at two sums:

# %%
x = autodiff.variable("x", shape=("n",))
X, Y = (autodiff.variable(name, shape=("n", "n")) for name in "XY")
a, b = autodiff.variable("a"), autodiff.variable("b")
for inputs, y in (([x], x + 1 - 2 + x), ([X, a, Y, b], X + a + Y + b)):
    collected = passes.fast_math.collect_terms([y])
    for what, each in (("as written", [y]), ("terms collected", collected)):
        operators = autodiff.listing(inputs, each).splitlines()[len(inputs) :]
        print(what, *operators, sep="\n    ")

# %% [markdown]
# $x+1-2+x$ is $2x-1$. And in $X+a+Y+b$, with matrices $X,Y$ and numbers $a,b$, the numbers are added first: one addition over all elements less. In floating point the values can change: as written, $x-x$ is NaN at $x=\infty$, and $x+10^{20}-10^{20}$ is 0 at $x=1$; collected, they are 0 and 1. That is why C compilers do this only under `-ffast-math`.
#
# > **Predict.** $A$ and $B$ are 1000 × 1000, $v$ is 1000 × 1. How many multiplications are $(AB)v$ and $A(Bv)$? What is the ratio?

# %%
size = 600
A, B = (autodiff.variable(name, shape=(size, size)) for name in "AB")
v = autodiff.variable("v", shape=(size, 1))
arrays = [rng.normal(size=t.shape) for t in (A, B, v)]
ways = {
    "as written, (AB)v": autodiff.function([A, B, v], [A @ B @ v]),
    "ordered, A(Bv)": autodiff.function(
        [A, B, v], [A @ B @ v], passes=[passes.fast_math.order_products]
    ),
}
counts = dict(zip(ways, (size**3 + size**2, 2 * size**2), strict=True))
order_times = {
    n: measure(lambda f=f: f(*arrays), repeats=P.repeats).median for n, f in ways.items()
}
for name, took in order_times.items():
    print(f"{name:18} {counts[name] / 1e6:8.2f} million products   {took * 1e3:8.3f} ms")

# %% [markdown]
# At your 1000 it is $10^9+10^6$ against $2\cdot10^6$ multiplications, 500 times as many; at the 600 of this run 300 times. How much of such a factor arrives in the time is in the record below, for two sizes.
#
# ### Fusion
#
# Operators that work element by element each read their operands from memory and write a result there. [Fused](glossary.md#fusion) into one loop, the values in between stay in registers. The pass writes C:

# %%
x = autodiff.variable("x", shape=("n",))


def polynomial(x, times=np.multiply, plus=np.add):
    """x⁵ and less, by Horner's rule: four products and four sums."""
    y = x
    for coefficient in (0.5, -1.0, 2.0, 0.25):
        y = plus(times(y, x), coefficient)
    return y


(fused,) = passes.fuse([polynomial(x, autodiff.multiply, autodiff.add)], [x])
print(fused.maker.operator.source())


# %%
def without_new_memory(x, y):
    """The best that NumPy can do: every operator writes over y."""
    np.copyto(y, x)
    for coefficient in (0.5, -1.0, 2.0, 0.25):
        np.multiply(y, x, out=y)
        np.add(y, coefficient, out=y)
    return y


values, room = rng.uniform(-1, 1, P.numbers), np.empty(P.numbers)
loop = autodiff.function([x], [fused])
assert np.allclose(loop(values)[0], polynomial(values))
fusion_times = {
    "NumPy, a new array each time": measure(lambda: polynomial(values), repeats=P.repeats).median,
    "NumPy, over one array": measure(lambda: without_new_memory(values, room), repeats=P.repeats).median,
    "fused": measure(lambda: loop(values), repeats=P.repeats).median,
}  # fmt: skip
moved = dict(zip(fusion_times, (4 * 3 + 4 * 2, 2 + 4 * 3 + 4 * 2, 2), strict=True))  # arrays
for name, took in fusion_times.items():
    print(f"{name:29} moves {moved[name]:2} arrays, {moved[name] * 8 * P.numbers / 1e6:5.0f} MB"
          f"   {took * 1e3:6.1f} ms   {took / fusion_times['fused']:4.1f} of fused")  # fmt: skip

# %%
for n in (1, 400):
    few = values[:n]
    took = [measure(lambda f=f, few=few: f(few), repeats=300).best for f in (loop, polynomial)]
    print(f"n = {n:3}: fused {took[0] * 1e6:3.0f} µs, NumPy {took[1] * 1e6:3.0f} µs")

# %% claims="09-fused 09-fused-new"
for name in ("09-fused-new", "09-fused"):
    display(claims.evidence(name))

# %% [markdown] claims="09-product-order"
# Fusion saves *bytes*, and there must be bytes to save. With four million numbers, 32 MB, the loop takes a fraction of the time of both programs in NumPy, and with forty thousand it wins as well. With four hundred it loses: what comes before the loop, from a look at types and sizes to handing arrays over to C, takes longer than eight operators of NumPy, and as long for one number as for four hundred (the two lines above the tables). The sentences *depend on how many numbers there are*; the margin, here and for the other times in this notebook, is a tenth. For the order of three matrices, where the counts differ by factors of 50 and 300, it is half the time. That, too, is saved at both sizes tried, though the times differ by less than the counts:

# %%
claims.evidence("09-product-order")

# %% [markdown]
# ### Exercise 5: nothing twice
#
# *Difficulty ●●○, 12 minutes.* Two applications compute the same if their operators are equal (`==` compares what they do, with their settings) and they read the same variables in the same order; or variables of which you have *found* that they are the same. Of applications in a given order, return a dictionary: application → an earlier application that computes the same. All operators here are functions of what they read; an update of section 8 is not, and must never be left out.
#
# <details><summary>Hint</summary>
#
# Two dictionaries. One says for each result that is computed again which result was the first; look every input up in it. The other goes from `(operator, inputs as a tuple)` to the first application with them.
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
# Rules that know nothing of each other compute some things twice. Here is GELU, a smooth ReLU with a cube and a tanh in it, with its gradient and its second derivative along a direction. What you have found is run once:

# %%
x, along = autodiff.variable("x", shape=(1000,)), autodiff.variable("along", shape=(1000,))
(first,) = autodiff.gradients(autodiff.sum(autodiff.gelu(x)), [x])
(second,) = autodiff.gradients(autodiff.sum(first * along), [x])
arrays = {x: rng.normal(size=1000), along: rng.normal(size=1000)}
for name, wanted in (("gradient", first), ("second derivative", second)):
    order = autodiff.topological([wanted])
    sharing = once_right(check.common_subexpressions, my_sharing, lambda order: {})
    same, values = sharing(order), dict(arrays)
    todo = [node for node in order if same.get(node) is None]
    for node in order:
        if same.get(node) is not None:
            values[node.output] = values[same[node].output]
        else:
            values[node.output] = np.empty(node.output.shape)
            node.operator.run(values[node.output], *(values[v] for v in node.inputs))
    (shared,) = passes.share_subexpressions([wanted])
    (value,) = autodiff.function(list(arrays), [shared])(*arrays.values())
    print(f"{name:18}{len(order):3} operators, {len(todo):2} run; by the library's pass "
          f"{len(autodiff.topological([shared])):2}; same values: {np.array_equal(value, values[wanted])}")  # fmt: skip

# %% [markdown]
# ### Coarse or fine, once more
#
# Passes see into fine operators. Does that make up for the softmax of section 2? Simplified, its common subexpressions shared, and fused:

# %%
x = autodiff.variable("x", shape=(500, 300))
for name, fine in (("coarse", False), ("fine", True)):
    y = autodiff.softmax(x, fine=fine)
    wanted = autodiff.gradients(autodiff.sum(y * y), [x])
    for each in (passes.simplify, passes.share_subexpressions, passes.fuse):
        wanted = each(wanted, [x])
    plan = autodiff.plan([x], wanted)
    print(
        f"{name:7}{len(plan.steps):3} operators, with the gradient   peak {plan.peak / 1e6:.1f} MB"
    )

# %% claims="09-granularity"
claims.evidence("09-granularity")

# %% [markdown]
# It *depends on the processor*. On 5 × 8 numbers the one operator wins on both of the records: each operator that runs costs some microseconds, however little it has to do. On the two larger tables the five are the faster ones after all passes on the one processor (AVX2), by a third and two thirds. On the other (AVX-512) the larger table is a tie, and of 50 × 1000 numbers the one operator takes 13 % less. The loops of the five have become C, while the one operator, into which no pass can see, stays what NumPy made of it, and NumPy uses the widest registers that it finds; whether that is the difference was not isolated. The memory of the fine softmax is down to that of the coarse one on both.

# %% [markdown]
# ## 6. Whose memory?
#
# The simplest machine, yours of section 3, gives every result memory of its own and keeps it. Three improvements, in order:
#
# - **Count readers.** When the last reader of a result has run, its [buffer](glossary.md#buffer) goes back.
# - **Forward for reading.** A reshape, a transpose, a slice are the same bytes, seen in another way: nothing is copied.
# - **Forward for writing.** An operator may write its result over an operand, *if nobody else will read that any more*.
#
# All three can be decided before the first byte is touched. So the peak is arithmetic, and `plan` says it; an allocator that counts while the graph runs has to agree, exactly.

# %%
x, t = autodiff.variable("x", shape=("n", 64)), autodiff.variable("t", shape=("n", 10))
W, V = autodiff.variable("W", shape=(64, 128)), autodiff.variable("V", shape=(128, 10))
h = softplus(x @ W)
loss = autodiff.mean((h @ V - t) ** 2)
wanted = [loss, *gradients(loss, [W, V])]
inputs, sizes = [x, t, W, V], {"n": 256}
arrays = [rng.normal(size=[sizes.get(repr(s), s) for s in v.shape]) for v in inputs]

everything = sum(
    8 * int(np.prod(step.shape)) for step in autodiff.plan(inputs, wanted, sizes).steps
)
print(f"every result in memory of its own: {everything:9,} B")
for name, in_place in (("readers counted, views shared", False), ("written over as well", True)):
    plan, allocator = autodiff.plan(inputs, wanted, sizes, in_place=in_place), Allocator()
    plan(*arrays, allocator=allocator)
    predicted_bytes, counted_bytes = plan.peak, allocator.peak
    print(f"{name:31}    predicted {predicted_bytes:9,} B   counted {counted_bytes:9,} B")

# %%
graph(plan, {h: "h", loss: "loss", wanted[1]: "∂W", wanted[2]: "∂V"})

# %% [markdown]
# Press *play*. Boxes of one colour share a buffer; a box that is struck through has been written over or given back. Where is the peak: on the way forward, or on the way back?
#
# ### Exercise 6: forward, with a guard
#
# *Difficulty ●●○, 15 minutes.* For operators in a given order, say for each which operand it may write over: a dictionary from application to operand. `node.operator.in_place` holds the positions of operands that the operator could write over. Allow it only if the operand has the result's type, is not the caller's (`inputs`), is not wanted at the end (`outputs`), and *this application is the last that reads it*.
#
# <details><summary>Hint</summary>
#
# One walk to note, for every variable, the position of its last reader. A second walk to decide.
#
# </details>


# %% exercise="forwarding"
def my_forwarding(order, inputs, outputs):
    """Return {application: operand that its result is written over}."""
    # BEGIN SOLUTION
    last = {v: i for i, node in enumerate(order) for v in node.inputs}
    over = {}
    for i, node in enumerate(order):
        for position in node.operator.in_place:
            v = node.inputs[position]
            ours = v not in inputs and v not in outputs
            if ours and v.type == node.output.type and last[v] == i:
                over[node] = v
    return over
    # END SOLUTION


# %% check="forwarding" points=2
check_runs.forwarding(my_forwarding)


# %% [markdown]
# Your decision, carried out by a machine that counts readers and bytes:


# %%
def run_over(over, order, inputs, outputs, arrays):
    """Run in order, results over operands as `over` says; return values and the peak in bytes."""
    memory, values = Allocator(), dict(zip(inputs, arrays, strict=True))
    readers = Counter(v for node in order for v in set(node.inputs))
    for node in order:
        v = over.get(node)
        result = memory.allocate(node.output.shape, node.output.dtype) if v is None else values[v]
        node.operator.run(result, *(values[each] for each in node.inputs))
        values[node.output] = result
        for each in set(node.inputs):
            readers[each] -= 1
            if not readers[each] and each not in (*inputs, *outputs) and each is not v:
                memory.free(values[each])
    return [values[each] for each in outputs], memory.peak


# %%
u = autodiff.variable("u", shape=(1000,))
y = autodiff.tanh(autodiff.exp(autodiff.sin(u)) + u) * u
order, number = autodiff.topological([y]), rng.normal(size=1000)
forwarding = once_right(check_runs.forwarding, my_forwarding, lambda *graph: {})
for name, over in (("without", {}), ("yours", forwarding(order, [u], [y]))):
    (result,), peak = run_over(over, order, [u], [y], [number])
    print(
        f"{name:8} {len(over)} of {len(order)} written over, peak {peak:6,} B, sum {result.sum():.12f}"
    )
print(f"library {'':22} peak {autodiff.plan([u], [y]).peak:6,} B")

# %% claims="09-in-place"
claims.evidence("09-in-place")

# %% [markdown]
# ## 7. Forget, and compute again
#
# The results of the way forward wait for the way back: with $x_{i}=f_i(x_{i-1})$, the rule of $f_i$ reads $x_{i-1}$, and the way back comes to $f_1$ last of all. In a chain of $n$ steps $n$ results are held at the turn.
#
# **[Recomputation](glossary.md#recomputation)**: cut the chain into $m$ segments, keep only the first result of each, and when the way back comes to a segment, run it forwards again. Held at one time are the $m$ beginnings and one segment of $n/m$ results. The sum $m+n/m$ is least at $m=\sqrt n$, where it is $2\sqrt n$, and no step runs forwards more than twice.

# %%
n = 36
ways = {
    "segments": {m: checkpoint.in_segments(n, m) for m in range(1, n + 1)},
    "kept, at the best places": {c: checkpoint.optimal(n, c) for c in range(1, n + 1)},
}
segments(ways, n, first=6)

# %% [markdown]
# Move the slider to both ends. One segment is as bad as thirty-six: why? Then choose *kept, at the best places* from the menu; we come back to it.
#
# ### Exercise 7: the schedule of segments
#
# *Difficulty ●●●, 25 minutes.* Write the schedule: a list of `Action("forward", i)` (compute $x_i$ from $x_{i-1}$), `Action("backward", i)` (the gradient of step $i$, which reads $x_{i-1}$; they come in the order $n,\dots,1$) and `Action("forget", i)`. $x_0$ is there from the beginning. At most $m+\lceil n/m\rceil$ results may be held, and no step may be taken forwards more than twice.
#
# <details><summary>Hint</summary>
#
# Borders at `steps * k // segments`. First walk to the beginning of the last segment, and forget every $x_{i-1}$ behind you that is not a border. Then, for the segments from the last to the first: forwards to one step before its end, and back, forgetting each $x_{i-1}$ after its `backward`.
#
# </details>


# %% exercise="sqrt-schedule"
def my_schedule(steps, segments):
    """Return the list of actions."""
    # BEGIN SOLUTION
    borders = [steps * k // segments for k in range(segments + 1)]
    actions = []
    for i in range(1, borders[-2] + 1):
        actions.append(Action("forward", i))
        if i - 1 not in borders:
            actions.append(Action("forget", i - 1))
    for k in reversed(range(segments)):
        start, stop = borders[k], borders[k + 1]
        actions += [Action("forward", i) for i in range(start + 1, stop)]
        for i in range(stop, start, -1):
            actions += [Action("backward", i), Action("forget", i - 1)]
    return actions
    # END SOLUTION


# %% check="sqrt-schedule" points=4
check_runs.sqrt_schedule(my_schedule)

# %% [markdown]
# ### On real convolutions
#
# Your schedule, carried out: a chain of convolutions by this package, its memory seen by Python's own accountant `tracemalloc`. The gradient has to be the same whatever is forgotten.

# %%
n = P.small_chain
picture, filters = (1, 4, 32, 32), (4, 4, 3, 3)
x, g = autodiff.variable("x", shape=picture), autodiff.variable("g", shape=picture)
k = autodiff.variable("k", shape=filters)
y = autodiff.conv2d(x, k, padding=1)
convolve = autodiff.function([x, k], [y])
back = autodiff.function([x, k, g], autodiff.gradients(y, [x, k], seed=g))
kernels = rng.normal(size=(n + 1, 4, 4, 3, 3)) / 6
start, unit = rng.normal(size=(1, 4, 32, 32)), 4 * 32 * 32 * 8


def walk(schedule):
    """There and back by a schedule; return the gradient at the beginning."""
    return checkpoint.run_chain(
        schedule, start, np.ones_like(start),
        forward=lambda i, x: convolve(x, kernels[i])[0],
        backward=lambda i, x, g: back(x, kernels[i], g)[0],
    )  # fmt: skip


def peak_of(schedule):
    """The gradient, and the peak in results of the chain."""
    tracemalloc.start()
    gradient = walk(schedule)
    peak = tracemalloc.get_traced_memory()[1] / unit
    tracemalloc.stop()
    return gradient, peak


# %%
schedules = {
    "all kept": checkpoint.keep_all(n),
    "12 segments": once_right(check_runs.sqrt_schedule, my_schedule, checkpoint.in_segments)(n, 12),
    "9 kept, best places": checkpoint.optimal(n, 9),
}
walk(checkpoint.keep_all(8))  # the first run compiles and imports
chain = {name: peak_of(schedule) for name, schedule in schedules.items()}
for name, (gradient, peak) in chain.items():
    held, forwards = (lambda c: (c.peak, c.forwards))(checkpoint.cost(n, schedules[name]))
    same = np.array_equal(gradient, chain["all kept"][0])
    print(f"{name:20} {held:3} results predicted, {peak:5.1f} measured; {forwards / n:.2f} passes;"
          f" {'same' if same else 'OTHER'} gradient")  # fmt: skip

# %% [markdown]
# The measured peak lies above the predicted number of results by about ten to fifteen, whether 11 or 144 of them are held: the step that runs needs room of its own, and the gradient on its way back is one more result. `torch.utils.checkpoint` does the same with the segments of a PyTorch model. Count its bytes, too:

# %%
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint_sequential


class Counted(TorchDispatchMode):
    """Counts the bytes of tensors that operators make, until they are gone."""

    def __init__(self):
        super().__init__()
        self.live, self.peak = {}, 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        made = operator(*args, **(kwargs or {}))
        for storage in (t.untyped_storage() for t in tree_leaves(made) if torch.is_tensor(t)):
            if storage._cdata not in self.live:
                self.live[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.live.pop, storage._cdata)
        self.peak = max(self.peak, sum(self.live.values()))
        return made


# %%
net = torch.nn.Sequential(*(torch.nn.Conv2d(4, 4, 3, padding=1, bias=False) for _ in range(n)))
image = torch.randn(1, 4, 32, 32, requires_grad=True)
torch.autograd.grad(net(image).sum(), image)  # the first pass warms up
torch_peaks = {}
for m in (None, 6, 12, 24):
    with Counted() as counted:
        out = net(image) if m is None else checkpoint_sequential(net, m, image, use_reentrant=False)
        torch.autograd.grad(out.sum(), image)
        del out
    torch_peaks[m] = counted.peak / (4 * 4 * 32 * 32)
    predicted = n if m is None else checkpoint.cost(n, checkpoint.in_segments(n, m)).peak
    print(
        f"PyTorch, {f'{m} segments' if m else 'all kept':12} peak {torch_peaks[m]:6.1f} results, predicted {predicted}"
    )

# %% [markdown]
# ### The optimum, and the source's 10 000
#
# Are equal segments the best that can be done? With $c$ results kept, and each step taken at most $r$ times, a chain of $\binom{c+r}{c}$ steps can be walked back, not more (Griewank and Walther 2000). (Held at most are $c+2$: besides the $c$, the chain's beginning and the result of the step that runs.) The best schedule keeps *one* result at the best place, treats the right part in the same way with $c-1$, then the left part with $c$. So memory can go on falling below $2\sqrt n$, for more passes.

# %%
N, MiB = P.chain, P.unit
cuts, kept = (
    (4, 8, 16, 32, 100, 400),
    (12, 16, 24, 32, 48, 64, 96, 108, 140, 197, 400, 1000),
)
of_segments = [checkpoint.cost(N, checkpoint.in_segments(N, m)) for m in cuts]
best = [(c + 2, checkpoint.fewest_forwards(N, c)) for c in kept]
sqrt_n = checkpoint.cost(N, checkpoint.in_segments(N))
source = checkpoint.cost(N, checkpoint.optimal(N, 108))
draw.memory_against_time(
    {
        "segments": [(c.peak * MiB, c.forwards / N) for c in of_segments],
        "best places": [(units * MiB, forwards / N) for units, forwards in best],
    },
    {f"√n: {sqrt_n.peak * MiB:.0f} MiB": (sqrt_n.peak * MiB, sqrt_n.forwards / N)},
    {"the source's 173 MiB": 173.03},
)
print(f"all kept:       {N * MiB:6.0f} MiB, 1 pass")
print(f"√n segments:    {sqrt_n.peak * MiB:6.0f} MiB, {sqrt_n.forwards / N:.2f} passes")
for name, c in (("at 173 MiB:", 108), ("for 2 passes:", 140)):
    passes_forward = checkpoint.fewest_forwards(N, c) / N
    print(f"{name:15} {(c + 2) * MiB:6.0f} MiB, {passes_forward:.2f} passes, best places")
plt.show()

# %% [markdown]
# **Your prediction of the beginning:**

# %%
guess.answer("passes forward at 173 MiB", source.forwards / N)

# %% [markdown]
# Fifteen gigabytes become 173 MiB, and the way forward takes **2.4 times** as long at best. (The way back, about twice as dear as the way forward, is walked once in any case.)
#
# And a find: the text that states 173 MiB explains it by blocks of $\sqrt n$. One level of blocks ends at $2\sqrt n-1=199$ results, 311 MiB. 173 MiB is *below* that: whatever their program did, it was not one level of equal blocks. The curve on the left reaches it. At one level's own price, two passes, the best places need 222 in place of 311 MiB.

# %% [markdown]
# ### And the clock?
#
# The way back of a convolution computes two gradients, each about as dear as the way forward. All kept, that is three parts of time; with $p$ passes forward, $2+p$. So $\sqrt n$ segments should take four parts of three, a third more. On the chain of 144, by the clock, and with the memory that `tracemalloc` saw:


# %%
def shortest(several, rounds=3):
    """Seconds of the shortest walk by each schedule; all in turn, so that all meet the same noise."""
    walks = [lambda s=s: walk(s) for s in several]
    times = [[measure(w, repeats=1, warmup=0).best for w in walks] for _ in range(rounds)]
    return np.min(times, axis=0)


room = chain["all kept"][1] - n
tried = {
    "segments": [checkpoint.in_segments(n, m) for m in (2, 4, 12, 36)],
    "best places": [checkpoint.optimal(n, c) for c in (4, 9, 40)],
}
predicted, measured = {}, {}
whole, *others = shortest(
    [schedules["all kept"], *(s for several in tried.values() for s in several)]
)
for name, several in tried.items():
    costs = [checkpoint.cost(n, schedule) for schedule in several]
    predicted[name] = [(c.peak + room, (2 + c.forwards / n) / 3) for c in costs]
    measured[name] = [(peak_of(s)[1], others.pop(0) / whole) for s in several]
draw.memory_against_time(
    predicted, measured=measured,
    xlabel="most memory held [results]", ylabel="time ÷ time with all kept",
)  # fmt: skip
plt.show()

# %% [markdown] claims="09-segments-time"
# To the predicted memory the room of a running step is added, as it was measured with everything kept. Horizontally, predicted and measured fall together. Vertically, the distance is your machine's doing: the prediction takes each way back for two ways forward, and knows of no other process. The record has two chains and ten seeds. Each run had a process of its own. Segments take a quarter longer in the second chain; in the first, of fewer and larger convolutions, less than the margin of a tenth. (In a process that had run other experiments before, it took 30 % longer in both chains; what of that process makes the difference is not isolated.)

# %%
claims.evidence("09-segments-time")

# %% [markdown]
# ## 8. State, and who comes first
#
# So far a graph is a function: arrays in, arrays out. Training changes its weights. A **state** is a variable that keeps its array between runs, and an *update* is an operator that writes a new value into it: the step of gradient descent becomes part of the graph. But an update's result *is* the state's memory. Who reads the state in the same run sees the old value or the new one, depending on the order, and edges of data do not say which.
#
# > **Predict.** $w=1$. One function returns $[\,w\leftarrow 2w,\; 10w\,]$, another $[\,10w,\; w\leftarrow 2w\,]$. What does each print for $10w$?

# %%
w = autodiff.state("w", np.array(1.0))
for name, outputs in (
    ("update first", lambda: [autodiff.update(w, 2 * w), 10 * w]),
    ("read first", lambda: [10 * w, autodiff.update(w, 2 * w)]),
):
    w.value = np.array(1.0)
    print(f"{name:13}", [float(value) for value in autodiff.function([], outputs())()])

# %% [markdown]
# The first read came too late: 20, though the graph says $10w$ of a $w$ that is 1. A [control dependency](glossary.md#control-dependency) is an edge without data: *this one starts after that one has finished*. By hand it is `after=[...]`; the pass `order_updates` finds all readers, through views too.

# %%
w.value = np.array(1.0)
ten = 10 * w
by_hand = autodiff.function([], [autodiff.update(w, 2 * w, after=[ten]), ten])
print("by hand:    ", [float(value) for value in by_hand()])
w.value = np.array(1.0)
outputs = [autodiff.update(w, 2 * w), 10 * w]
found = autodiff.function([], outputs, passes=[passes.order_updates])
print("by the pass:", [float(value) for value in found()])

# %% [markdown]
# ### Exercise 8: momentum
#
# *Difficulty ●●○, 8 minutes.* Gradient descent with momentum keeps a velocity $v$ for each weight: $v\leftarrow 0.9\,v+g$, then $w\leftarrow w-\lambda v$, with the *new* $v$. Both are states. Return the two updates.
#
# <details><summary>Hint</summary>
#
# `autodiff.update(v, ...)` returns a variable: the value that $v$ has afterwards.
#
# </details>


# %% exercise="momentum"
def my_momentum(w, v, g, rate):
    """Return the variables of both updates, as a list."""
    # BEGIN SOLUTION
    faster = autodiff.update(v, 0.9 * v + g)
    return [faster, autodiff.add_update(w, -rate * faster)]
    # END SOLUTION


# %% check="momentum" points=2
check_runs.momentum(my_momentum)

# %% [markdown]
# ### A training step is one graph
#
# Everything of yours at work: your operator, your extension (with your order in it), your updates, each behind the readers of the old value. The data are a ring of points within a cloud, the network has one hidden layer of 16.


# %%
def without_momentum(w, v, g, rate):
    """In place of yours: gradient descent, with as long steps as momentum comes to."""
    return [autodiff.add_update(w, -10 * rate * g)]


points = rng.normal(size=(400, 2))
labels = (np.abs(np.hypot(*points.T) - 1) < 0.4).astype(float)[:, None]
x, t = autodiff.variable("x", shape=("n", 2)), autodiff.variable("t", shape=("n", 1))
weights = [autodiff.state(name, rng.normal(size=shape))
           for name, shape in (("W", (2, 16)), ("b", (16,)), ("V", (16, 1)), ("c", (1,)))]  # fmt: skip
W, b, V, c = weights
score = softplus(3 * (x @ W + b)) @ V + c  # 3: a sharper corner
loss = autodiff.mean(softplus(score) - t * score)  # cross-entropy of sigmoid(score)
momentum, steps = once_right(check_runs.momentum, my_momentum, without_momentum), []
for p, g in zip(weights, gradients(loss, weights), strict=True):
    speed = autodiff.state(f"speed of {p.name}", np.zeros(p.shape))
    steps += momentum(p, speed, g, rate=0.1)
train = autodiff.function([x, t], [loss, *steps], passes=[passes.order_updates])
losses = [float(train(points, labels)[0]) for _ in range(1500)]
right = (autodiff.function([x], [score])(points)[0] > 0) == labels
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; {right.mean():.1%} of the points on the right side, "
      f"{max(labels.mean(), 1 - labels.mean()):.1%} by always saying the same")  # fmt: skip

# %% [markdown]
# LeNet is the same kind of function, with two convolutions in it. On the digits of notebook [02](02_sgd_sync_async.ipynb) this package trained it alone, beside PyTorch, from the same weights with the same batches, on one thread (`make bench SUITE=autodiff_training`):

# %%
for record in records.load(BENCH_RECORDS, "autodiff_training")[:1]:
    print(f"{record.machine['cpu']}, {record.date[:10]}")
    for row in record.suites["autodiff_training"]:
        what = row.name.removeprefix("LeNet trained on MNIST, ")
        print(
            f"{what:27} {row.value:9.3g} {row.unit.strip('1'):2} {row.peer_value:9.3g} {row.peer}"
        )

# %% [markdown]
# In float64 all losses agree to rounding, at every one of the steps. In float32 rounding drives two programs apart after some dozens of steps; the line *losses apart* shows that PyTorch with the same images in another order comes as far from itself. In time and accuracy, too, the two are alike.
#
# ## 9. Loops
#
# ### In the graph: scan
#
# A loop whose number of rounds is known only at run time cannot be unrolled beforehand. `scan` is an operator that contains a graph and runs it once for each element of a sequence; its gradient is another scan, backwards. A recurrent network (notebook [03](03_gru_derivation.ipynb)) over any number of steps:

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
# ### Exercise 9: an average that fades
#
# *Difficulty ●●○, 10 minutes.* $m_t=\beta\,m_{t-1}+(1-\beta)\,x_t$ forgets old $x$ the faster the smaller $\beta$ is. Write it as a `scan`: of the sequence `xs` (T,), the scalar $m_0$ `start` and the scalar `beta`, return all of $m_1,\dots,m_T$. `autodiff.scan(step, [states], [sequences])` calls `step(state, element)` once, to see its graph; `step` returns a list of new states and a list of outputs. `scan` returns the last states, and each output of all rounds in one variable.
#
# <details><summary>Hint</summary>
#
# The new state is the output, too. `step` may read `beta` although it is no argument of it: what does not change from round to round is found by itself.
#
# </details>


# %% exercise="moving-average"
def my_average(xs, start, beta):
    """(T,) -> (T,): the fading average after each element."""

    # BEGIN SOLUTION
    def step(m, x):
        new = beta * m + (1 - beta) * x
        return [new], [new]

    _, (averages,) = autodiff.scan(step, [start], [xs])
    return averages
    # END SOLUTION


# %% check="moving-average" points=2
check_runs.moving_average(my_average)


# %%
def average(xs, start, beta):
    """Yours; until it is right, a product with a matrix of T × T powers of beta."""
    if mine := once_right(check_runs.moving_average, my_average, None):
        return mine(xs, start, beta)
    t = autodiff.cast(autodiff.arange(xs.shape[0]), "float64")
    age = autodiff.reshape(t, (xs.shape[0], 1)) - t
    fade = autodiff.where(
        age < 0, 0.0, autodiff.exp(autodiff.log(beta) * autodiff.maximum(age, 0.0))
    )
    return autodiff.exp(autodiff.log(beta) * (t + 1)) * start + fade @ ((1 - beta) * xs)


# %% [markdown]
# What is the best $\beta$? A level walks at random, and is seen through noise; $m_t$ shall say what will be seen next. The gradient by $\beta$ goes back through all rounds. Where its sign changes, the error is least: halve the interval, twelve times.

# %%
seen = np.cumsum(0.3 * rng.normal(size=300)) + rng.normal(size=300)
xs, beta = autodiff.variable("xs", shape=("T",)), autodiff.variable("beta")
error = autodiff.mean((xs[1:] - average(xs[:-1], xs[0], beta)) ** 2)
slope = autodiff.function([xs, beta], autodiff.gradients(error, [beta]))
low, high = 0.05, 0.99
for _ in range(12):
    middle = (low + high) / 2
    low, high = (middle, high) if slope(seen, np.array(middle))[0] < 0 else (low, middle)

measure_error = autodiff.function([xs, beta], [error])
tried = np.linspace(0.05, 0.99, 48)
errors = [measure_error(seen, np.array(b))[0] for b in tried]
print(
    f"by the gradient: beta = {middle:.3f}; the best of {len(tried)} that were tried: {tried[np.argmin(errors)]:.2f}"
)

# %% [markdown]
# ### In Python: eager
#
# The other way is to run each operator at once and to record it on the way. Then Python's own `while` is the loop, and values decide how often it goes round. Newton's iteration $X\leftarrow X(2I-AX)$ comes to $A^{-1}$; the gradient of $\sum G\circ A^{-1}$ is known, $-A^{-\top}GA^{-\top}$.

# %%
size = 4
A = autodiff.eager(np.eye(size) + 0.3 * rng.normal(size=(size, size)))
G, one = rng.normal(size=(size, size)), np.eye(size)
X, rounds = A.T / autodiff.sum(A * A), 0
while autodiff.max(autodiff.abs(A @ X - one)) > 1e-13:
    X, rounds = X @ (2 * one - A @ X), rounds + 1
(dA,) = autodiff.gradients(autodiff.sum(X * G), [A])
inverse = np.linalg.inv(A.value)
print(f"{rounds} rounds; the inverse is off by {np.abs(X.value - inverse).max():.0e},"
      f" its gradient by {np.abs(dA.value + inverse.T @ G @ inverse.T).max():.0e}")  # fmt: skip

# %% [markdown]
# What is recorded is the path that was taken, not the loop: run it for another matrix, and it goes round as often as before. Nor can a pass look ahead at what Python has not yet done. That is the price of eager execution, and why libraries that run eagerly offer to *trace* or *compile*.

# %%
replay = autodiff.function([A], [X])
harder = np.diag([1.0, 10.0, 1e3, 1e5])
print(
    f"the recorded path for a harder matrix, off by {np.abs(replay(harder)[0] @ harder - one).max():.2f}"
)

# %% [markdown]
# ## 10. Data parallelism as a rewriting
#
# Two ranks each have half of a batch, and every weight's gradient has to be averaged before the update (notebook [02](02_sgd_sync_async.ipynb)). In a graph that is a rewriting: put an allreduce behind each gradient. And the graph shows more: the last layer's gradient is complete while those of the first layers are still to be computed. An allreduce is therefore two operators. **Post** hands a gradient to a thread that talks to the network; **arrive** waits for the mean. Between the two the way back goes on.

# %%
from helpers.cluster import Cluster
from helpers.datasets import mnist

# %load_ext helpers.cluster
cluster = Cluster(n=P.ranks)

# %%
# %%ranks
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace as Event

import numpy as np

from helpers import autodiff
from helpers.autodiff import passes

world, thread, underway, events = MPI.COMM_WORLD.Dup(), ThreadPoolExecutor(1), {}, []
now = [0.0]  # when this rank last did something


def mean_over_ranks(label, g, out):
    """In the network's thread: gather, add in rank order (the same bits everywhere), divide."""
    began, parts = time.perf_counter(), np.empty((size, *g.shape))
    world.Allgather(np.ascontiguousarray(g), parts)
    out[...] = parts[0]
    for part in parts[1:]:
        out += part
    out /= size
    events.append(
        Event(label=f"mean {label}", start=began, stop=time.perf_counter(), lane="network")
    )


# %%
# %%ranks
def note(label, lane):
    """Record what this rank did since it last did something."""
    events.append(Event(label=label, start=now[0], stop=time.perf_counter(), lane=lane))
    now[0] = time.perf_counter()


@dataclass(frozen=True)
class Post(autodiff.Operator):
    label: str

    def infer(self, g):
        return g

    def run(self, out, g):
        note(f"to ∂{self.label}", "compute")
        underway[self.label] = thread.submit(mean_over_ranks, self.label, g, out)


# %%
# %%ranks
@dataclass(frozen=True)
class Arrive(autodiff.Operator):
    label: str
    view_of_input = True

    def infer(self, mean):
        return mean

    def view(self, mean):
        note("", "compute")
        underway.pop(self.label).result()
        note("", "wait")
        return mean


def rewritten(weights, gradients, rewriting):
    """Let a rewriting put Post and Arrive behind gradients."""
    names = {g: w.name for w, g in zip(weights, gradients, strict=True)}

    def post(g, after=()):
        return autodiff.apply(Post(names[g]), g, after=list(after))

    def arrive(posted, after=()):
        return autodiff.apply(Arrive(posted.maker.operator.label), posted, after=list(after))

    return rewriting(weights, gradients, post, arrive)


# %% [markdown]
# The control dependencies of section 8 say when. Here is a rewriting that is right, and slow: nothing is posted before all gradients have been computed.


# %%
def late(weights, gradients, post, arrive):
    """The mean of each gradient over the ranks, in the order of the weights."""
    posted = [post(g, after=gradients) for g in gradients]
    return [arrive(p, after=posted) for p in posted]


# %% [markdown]
# ### Exercise 10: early
#
# *Difficulty ●●○, 12 minutes.* Write the rewriting that posts every gradient as soon as it is there, the last weight's first, and waits for nobody before everything has been posted. `post(g, after=[...])` and `arrive(posted, after=[...])` return variables; with `after`, an operator waits until those are there, too. Return the means in the order of the weights. An order that nothing else decides is that of the lists: what is wanted first, with all that it needs, runs first. Every rank runs the same graph in the same order; so the first reduction of one meets the first of the other.
#
# <details><summary>Hint</summary>
#
# Two changes to `late`. What does a post have to wait for, apart from its own gradient? And in which order should the posts stand in the list that every `arrive` waits for?
#
# </details>


# %% exercise="posted-early"
def my_early(weights, gradients, post, arrive):
    """The mean of each gradient over the ranks, in the order of the weights."""
    # BEGIN SOLUTION
    posted = [post(g) for g in reversed(gradients)]
    return [arrive(p, after=posted) for p in posted][::-1]
    # END SOLUTION


# %% check="posted-early" points=2
check_runs.posted_early(my_early)

# %% [markdown]
# The network that is trained has three layers; its step is one function, and the same text serves one process alone.


# %%
def perceptron(means, rewritings=()):
    """A training step of a perceptron: its function and its weights; `means` averages."""
    rng = np.random.default_rng(0)
    x, t = autodiff.variable("x", shape=("n", 784)), autodiff.variable("t", shape=("n", 10))
    weights = [
        autodiff.state(name, rng.normal(size=shape) / shape[0] ** 0.5)
        for name, shape in (("W1", (784, 512)), ("W2", (512, 512)), ("W3", (512, 10)))
    ]
    h = autodiff.tanh(autodiff.tanh(x @ weights[0]) @ weights[1])
    loss = autodiff.mean((h @ weights[2] - t) ** 2)
    averages = means(weights, autodiff.gradients(loss, weights))
    ups = [autodiff.add_update(w, -0.05 * g) for w, g in zip(weights, averages, strict=True)]
    return autodiff.function([x, t], [loss, *ups], [*rewritings, passes.order_updates]), weights


# %%
def shares(steps, ranks):
    """For each step, each rank's share of a batch: images (128, 784) and labels (128, 10)."""
    digits = mnist.load(seed=0)
    x = digits.train_images.reshape(-1, 784).astype(float)
    t = np.eye(10)[digits.train_labels]
    return [[(x[i : i + 128], t[i : i + 128]) for i in range(k, k + 128 * ranks, 128)]
            for k in range(0, 128 * ranks * steps, 128 * ranks)]  # fmt: skip


def on_a_rank(perceptron, batches, rewriting):
    """Train on this rank's shares; return losses, weights, and what the last step recorded."""
    step, weights = perceptron(lambda w, g: rewritten(w, g, rewriting))
    losses, seconds = [], []
    for batch in batches:
        comm.Barrier()
        events.clear()
        began = now[0] = time.perf_counter()
        losses.append(float(step(*batch[rank])[0]))
        seconds.append(time.perf_counter() - began)
    for event in events:
        event.start, event.stop = event.start - began, event.stop - began
    return losses, [w.value for w in weights], events, seconds


# %%
batches, runs = shares(8, P.ranks), {}
ways = {"late": late}
if mine := once_right(check_runs.posted_early, my_early, None):
    ways["early, yours"] = mine
for name, way in ways.items():
    runs[name] = cluster.run(on_a_rank, perceptron, batches, way, timeout=120)

# %% [markdown]
# The package has all of this as a pass over a finished graph: `average_gradients` finds the gradients, puts *begin* and *wait* behind them, and a scheduler that knows both begins early and waits late, without any `after`.


# %%
def by_the_pass(perceptron, batches):
    """The same training, the graph rewritten by the package."""
    line, rewritings = autodiff.Line(world), []

    def leave(weights, gradients):
        rewritings.append(autodiff.average_gradients(gradients, line))
        return gradients

    step, weights = perceptron(leave, rewritings)
    losses, seconds = [], []
    for batch in batches:
        comm.Barrier()
        began = time.perf_counter()
        (loss, *_), events = autodiff.watch(step, *batch[rank], line=line)
        losses.append(float(loss))
        seconds.append(time.perf_counter() - began)
    line.close()
    return losses, [w.value for w in weights], events, seconds


runs["the pass"] = cluster.run(by_the_pass, perceptron, batches, timeout=120)

# %%
for way, ranks in runs.items():
    print(f"{way:12}  {np.median(ranks[0][3][2:]) * 1e3:.0f} ms a step")
draw.lanes({way: ranks[0][2] for way, ranks in runs.items()})
plt.show()

# %% [markdown]
# *Late*, the network is idle until the last gradient is there, and everybody waits. *Early*, by you or by the pass, the means of the last layers travel while the first layer's gradient, the dearest, is computed; what is left to wait for is the end of the queue. The printed times are single runs of eight steps on one machine, where network threads and arithmetic want the same cores: they show an order of events, not how much it saves on a cluster.

# %% [markdown]
# Does it change the result? One process computes both ranks' gradients, adds them in rank order, and halves. It computes with one thread, as a rank does: a matrix product of two threads may add in another order.


# %%
from threadpoolctl import threadpool_limits


def alone(batches):
    """The same training by one process; return the weights."""
    found = []
    step, weights = perceptron(lambda w, gradients: found.extend(gradients) or gradients)
    gradient = autodiff.function(step.inputs, found)
    for batch in batches:
        for w, *parts in zip(weights, *(gradient(*share) for share in batch), strict=True):
            w.value = w.value - 0.05 * (sum(parts[1:], parts[0]) / len(parts))
    return [w.value for w in weights]


with threadpool_limits(1):
    single = alone(batches)
for way, ranks in runs.items():
    same = all(np.array_equal(w, s) for rank in ranks for w, s in zip(rank[1], single, strict=True))
    print(f"{way:12} loss {ranks[0][0][0]:.3f} -> {ranks[0][0][-1]:.3f}; every rank's weights"
          f" {'equal to the bit' if same else 'DIFFER from'} those of one process")  # fmt: skip
cluster.stop()

# %% [markdown]
# ## 11. What breaks
#
# Three programs that look right.
#
# **The update without its control dependency.** Gradient descent on $L=\tfrac12w^2$, and a record of the loss beside it. With the update first, the loss that is recorded belongs to the *next* weights; nothing warns, and training itself is right:

# %%
for name, given in (("no dependency", []), ("order_updates", [passes.order_updates])):
    w = autodiff.state("w", np.array(4.0))
    loss = 0.5 * w * w
    (g,) = autodiff.gradients(loss, [w])
    step = autodiff.function([], [autodiff.add_update(w, -0.5 * g), 0.5 * w * w], passes=given)
    print(f"{name:14}", [float(step()[1]) for _ in range(4)], " true: 8 at w = 4, then 2, ...")

# %% [markdown]
# **The buffer forwarded too early.** $y=\sin(e^x)\,e^x$: the sine is written over $e^x$, which the product still has to read. `guard=False` lets the plan do it:

# %%
x = autodiff.variable("x", shape=(4,))
e = autodiff.exp(x)
y = autodiff.sin(e) * e
point = np.array([0.0, 0.5, 1.0, 1.5])
for guard in (True, False):
    plan = autodiff.plan([x], [y], guard=guard)
    print(f"guard {guard!s:5}  peak {plan.peak:3} B  {plan(point)[0].round(4)}")
print("sin² in its place:  ", (np.sin(np.exp(point)) ** 2).round(4))

# %% [markdown]
# Half the memory, and wrong. The shape is right, the dtype is right, and the numbers are those of $\sin^2(e^x)$.
#
# **A gradient that was written in NumPy.** Somebody gives an operator a gradient that is an operator itself, computed in NumPy, quick and right. It has no rule of its own, so to the graph its result depends on nothing:


# %%
@dataclass(frozen=True)
class CubeSlope(autodiff.Operator):
    """g · 3x², in NumPy; it knows no gradient of its own."""

    def infer(self, g, x):
        return x

    def run(self, out, g, x):
        out[...] = g * 3 * x**2


@dataclass(frozen=True)
class Cube(autodiff.Operator):
    """x³."""

    def infer(self, x):
        return x

    def run(self, out, x):
        out[...] = x**3

    def gradient(self, g, y, x):
        return [autodiff.apply(CubeSlope(), g, x)]


# %%
x, point = autodiff.variable("x", shape=(3,)), np.array([1.0, 2.0, 3.0])
for name, y in (("in NumPy", autodiff.apply(Cube(), x)), ("in the graph", x**3)):
    (first,) = autodiff.gradients(autodiff.sum(y), [x])
    (second,) = autodiff.gradients(autodiff.sum(first), [x])
    print(
        f"{name:13}", *(value.tolist() for value in autodiff.function([x], [first, second])(point))
    )

# %% [markdown]
# The first derivatives agree, so every test of them passes. The second is silently zero where $6x$ is right: a gradient penalty would train nothing.
#
# ## 12. What it costs: predicted, measured

# %%
peaks_of = {name: checkpoint.cost(n, schedule).peak for name, schedule in schedules.items()}
numpy_over = fusion_times["NumPy, over one array"]
rows = [
    ("a layer, a loss, two gradients: peak, B", predicted_bytes, counted_bytes),
    *((f"chain, {name}: results held", peaks_of[name], chain[name][1]) for name in schedules),
    ("PyTorch, 12 segments: results held", peaks_of["12 segments"], torch_peaks[12]),
    (
        "(AB)v by A(Bv): products, time",
        *(a / b for a, b in (counts.values(), order_times.values())),
    ),
    (
        "NumPy over one array by fused: bytes, time",
        moved["NumPy, over one array"] / moved["fused"],
        numpy_over / fusion_times["fused"],
    ),
]
head = "| what | predicted | measured | measured / predicted |\n|---|---|---|---|\n"
Markdown(head + "\n".join(f"| {w} | {p:,.4g} | {m:,.4g} | {m / p:.2f} |" for w, p, m in rows))

# %% [markdown]
# Memory can be predicted: exactly where this package gives out every byte, to within the room of a running step where NumPy and PyTorch do. The last two rows hold ratios of counts against ratios of times, and need not agree: a count of products or of bytes says what must be done, not how fast the machine does it, which is the subject of notebook [07](07_roofline.ipynb).
#
# ## 13. What the sources say, what we measured
#
# | the sources say | here |
# |---|---|
# | autograd gives the gradient of a scalar chain; check it with the chain rule by hand | section 1: three ways, the same four numbers |
# | a graph of variables (dtype, shape) and operators, bipartite; types are inferred | section 2: an impossible application is refused with both shapes, before anything runs |
# | fine operators for flexibility, coarse ones for ease; prefer fine, the optimiser will make it fast | sections 2 and 5: after our passes the fine softmax with its gradient takes no more memory than the coarse one; on tables of tens of thousands of numbers it takes less time on one processor and as much or more on another, and on forty numbers the coarse one is faster on both |
# | extend the graph by gradient operators; then gradients of gradients, and changed gradients, are possible | section 4: a Hessian-vector product to rounding, clipping, reversal; section 11: with a gradient in NumPy the second derivative is silently zero |
# | updates share storage with what they update; readers must have finished | sections 8 and 11: without the control dependency a read comes out twice too large |
# | symbolic shapes; a loop operator; with both, a graph computes whatever can be computed | sections 2 and 9: Maxout for every batch, an RNN for every length |
# | eager evaluation with recording differentiates a `while`; hard to optimise, bound to the code | section 9: the inverse by Newton, its gradient to rounding; replayed for another matrix it is wrong |
# | $x+1-2+x\Rightarrow2x-1$; $x+a+y+b\Rightarrow a+b+x+y$; fused multiply-add | section 5: all of them, and loops in C for chains of any length |
# | reference counts, read-only and writable forwarding, caution when a reader remains | section 6: the peak predicted and counted, equal to the byte; section 11: without caution, other numbers |
# | (ours, E9) data parallelism is a rewriting of the graph | section 10: an allreduce in two halves behind each gradient, equal to one process to the bit, the overlap recorded |
# | blocks of $\sqrt n$: $O(\sqrt n)$ memory for $O(n)$ time; 10 000 convolutions 15 624 → 173 MiB | section 7: one level of blocks ends at 311 MiB and 1.98 passes; 173 MiB takes the optimal places and 2.39 passes |
#
# ## Summary
#
# - A graph of types is checked before it runs, and can be rewritten before it runs.
# - A gradient is more graph. Whatever can be done to a graph can be done to a gradient: simplify it, fuse it, place it, differentiate it.
# - Order decides who sees which value; memory decides what has to be kept. Both are known beforehand, to the byte.
# - A chain's memory can be had for time: $2\sqrt n$ results for less than one more pass, fewer for more.
#
# **In practice**: `torch.compile` (graph capture, fusion), `torch.utils.checkpoint`, JAX (`jit`, `grad`, `remat`, `lax.scan`), XLA's buffer assignment; DDP and FSDP overlap their collectives with the way back.
#
# **References**
# - Bergstra et al. (2010), *Theano: a CPU and GPU math expression compiler*: gradients by extending a graph, `scan`.
# - Chen et al. (2015), *MXNet*: in-place and co-sharing memory plans, control dependencies of mutable state.
# - Chen et al. (2016), *Training deep nets with sublinear memory cost*: segments.
# - Griewank & Walther (2000), *Algorithm 799: revolve*: the optimal places, and the proof.
# - Baydin et al. (2018), *Automatic differentiation in machine learning: a survey*: forward, reverse, and what neither is.
# - Gulrajani et al. (2017), *Improved training of Wasserstein GANs*: a loss that needs the gradient of a gradient.
# - Goodfellow et al. (2013), *Maxout networks*; Sugiyama et al. (1981): how the graphs here are laid out.
#
# **Next**: [05_cuda_tiling](05_cuda_tiling.ipynb) goes one level down, to the kernels that compute such a graph's operations.
