# %% [markdown]
# # Build a computation graph, and make it differentiate, run and remember
#
# You will write the parts of a deep learning framework that decide what is computed, in which order, and where in memory.

# %%
from helpers import autodiff
from helpers.plots.graph_html import graph

w, x, b = (autodiff.variable(name, shape=(1000,)) for name in "wxb")
s = w * x + b
y = s * s * x
graph(autodiff.plan([w, x, b], [y]), {s: "s", y: "y"}, first=2)

# %% [markdown]
# This is $y=(wx+b)^2x$ as a [computation graph](glossary.md#computation-graph): boxes are tensors with their shapes, and ovals are operators. Grey boxes are inputs; other boxes of one colour share memory, a *buffer*. The picture shows the state after step 2: dashed boxes are not computed yet, nobody reads struck-through boxes again. Press ▶| twice: $s^2$ is written over $s$, and $y$ over $s^2$. So one buffer of 8 kB is enough.
#
# **You will be able to**
#
# - write an operator, with the type of its result and its gradient;
# - extend a graph by its own gradients, even twice;
# - say when a result may overwrite its operand, and predict a graph's peak memory;
# - trade time for memory by recomputation, and say how much of each;
# - tell which rewritings of a graph keep its values.
#
# **You need** the chain rule and NumPy. *Time:* 150 minutes in four lessons, exercises included. Each lesson runs after the set-up below, without the others. *Cores:* one. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning |
# |---|---|
# | $x, y, h$ | [variables](glossary.md#variable-of-a-graph): tensors whose type is known before their value |
# | $f$ | [operator](glossary.md#operator): reads variables and makes one |
# | $g_v$ | $\partial L/\partial v$, the gradient of a loss $L$ with respect to $v$; it has $v$'s type |
# | $n$ | length of a chain of operators |
# | $m$ | segments that the chain is cut into |
# | $c$, $r$ | most results kept; most times that a step runs forward |

# %% [markdown]
# ## Set-up

# %%
import tracemalloc
from collections import Counter
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from helpers import autodiff, claims
from helpers.autodiff import Allocator, checkpoint, passes
from helpers.autodiff.checkpoint import Action
from helpers.exercises import autodiff as check
from helpers.exercises import autodiff_runs as check_runs
from helpers.exercises.predictions import Predictions
from helpers.plots import graph as draw
from helpers.plots import style
from helpers.plots.graph import segments
from helpers.plots.graph_html import graph
from helpers.timing import Others, measure


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    """Sizes of this notebook's runs."""

    chain: int = 10_000  # convolutions in Tian's graph (lesson 3)
    unit: float = 1.5625  # MiB of each of their results
    small_chain: int = 144  # convolutions that are run here
    numbers: int = 2_000_000  # elements of the array in lesson 4
    repeats: int = 5  # samples of each timing


P = Parameters()
torch.set_num_threads(1)
threadpool_limits(1)  # NumPy's matrix products, too
style.use()
guess = Predictions()
rng = np.random.default_rng(0)


def once_right(exercise, answer, otherwise):
    """What you wrote, once its check says "correct"; until then, something in its place."""
    return answer if exercise.passed(answer) else otherwise


def traced(work):
    """Run work(); return its result, and the most bytes that Python saw allocated meanwhile."""
    tracemalloc.start()
    result = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak


# %% [markdown]
# ## Lesson 1. How does a program differentiate itself?
#
# *50 minutes.* A framework returns the gradient of nearly any program you write. Does it treat a gradient as a number, or as more program?
#
# ### Four numbers by hand
#
# Take $y=(wx+b)^2\,x$ at $w=3$, $x=2$, $b=-5$. Call $s=wx+b$ and begin with $\partial y/\partial s$.
#
# ### Exercise 1: the chain rule with a pencil
#
# *Difficulty ●○○, 4 minutes.* Write down $y$ and its derivatives with respect to $w$, $b$ and $x$.
#
# <details><summary>Hint</summary>
#
# $y=s^2x$, so $\partial y/\partial s=2sx$. Because $x$ reaches $y$ on two paths, through $s$ and directly, add both contributions.
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
# Now PyTorch and `autodiff`, this course's package, compute them:

# %%
w, x, b = (torch.tensor(number, requires_grad=True) for number in (3.0, 2.0, -5.0))
y = (w * x + b) ** 2 * x
y.backward()
NAMES = ("y", "∂y/∂w", "∂y/∂b", "∂y/∂x")
values = zip(NAMES, (y, w.grad, b.grad, x.grad), strict=True)
print("PyTorch:   ", *(f"{name} = {t.item():g} " for name, t in values))

w, x, b = (autodiff.variable(name) for name in "wxb")
y = (w * x + b) ** 2 * x
four = autodiff.function([w, x, b], [y, *autodiff.gradients(y, [w, b, x])])
values = zip(NAMES, four(np.array(3.0), np.array(2.0), np.array(-5.0)), strict=True)
print("this graph:", *(f"{name} = {value:g} " for name, value in values))

# %% [markdown]
# Both agree with your paper. PyTorch computed $y$ line by line and recorded what it did. `autodiff` built the whole graph, gradients included, before it saw a number.
#
# ### Types before values
#
# A **variable** stands for a tensor. It has a type, its dtype and shape, before it has a value. An **operator** reads variables and makes one. Every edge joins a variable and an operator, so the graph is *bipartite*. An operator infers the type of its result, or refuses:

# %%
A, B = autodiff.variable("A", shape=("rows", 3)), autodiff.variable("B", shape=(3, 4))
k = autodiff.variable("k", shape=("rows", 3), dtype="int64")
print("A @ B:", (A @ B).type)
print("its sum over rows:", autodiff.sum(A @ B, axis=0).type)
for attempt in (lambda: B @ A, lambda: A + k):
    try:
        attempt()
    except (TypeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# The size `"rows"` is a *symbol*: the graph reads it off the arrays when it runs, and you can calculate with it. *Maxout* keeps the largest of every $k$ neighbours, so its gradient is 1 for that one, else 0. A few lines serve every batch size:


# %%
def maxout(x, k):
    """(rows, columns) -> (rows, columns // k)."""
    rows, columns = x.shape
    return autodiff.max(autodiff.reshape(x, (rows, columns // k, k)), axis=2)


x = autodiff.variable("x", shape=("rows", "columns"))
y = maxout(x, 3)
print(y.type)
f = autodiff.function([x], [y, *autodiff.gradients(autodiff.sum(y), [x])])
for shape in ((2, 6), (1, 9)):
    result, gradient = f(rng.normal(size=shape))
    print(f"{shape} -> {result.shape}; ones in the gradient: {gradient.sum():.0f}")

# %% [markdown]
# ### Exercise 2: an operator with its gradient
#
# *Difficulty ●●○, 10 minutes.* *Softplus*, $y=\log(1+e^x)$, is a ReLU with a round corner. Write two methods. `run` writes the values into the array `out`. `gradient` gets the variables $g_y$, $y$ and $x$, and returns a list with one gradient for each operand, here $[g_x]$. Compute $g_x$ with functions of `autodiff`, because it becomes part of the graph.
#
# <details><summary>Hint</summary>
#
# `np.logaddexp(a, b)` is $\log(e^a+e^b)$ without overflow, and takes `out=`. The derivative of softplus is `autodiff.sigmoid`.
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
        """Return a list with one variable: the gradient with respect to x."""
        # BEGIN SOLUTION
        return [g * autodiff.sigmoid(x)]
        # END SOLUTION


# %% check="softplus" points=2
check.softplus_operator(Softplus)


# %%
def softplus(x):
    """Yours; until it is right, three operators, which overflow for large x."""
    mine = once_right(check.softplus_operator, Softplus, None)
    return autodiff.apply(mine(), x) if mine else autodiff.log(1 + autodiff.exp(x))


# %% [markdown]
# ### The gradient is more graph
#
# If each operator computed its gradient in NumPy, the backward pass would not be in the graph, and nobody could differentiate, change or optimize it. Your `gradient` returned variables instead. For $y=f(x_1,\dots,x_k)$ with $g_y$ known, the rule of $f$ extends the graph by operators that compute
#
# $$g_{x_i} \mathrel{+}= \left(\frac{\partial f}{\partial x_i}\right)^{\!\top} g_y .$$
#
# `autodiff.topological([y])` lists the operators so that each comes after everything it reads. Walk this list *backwards*. When you reach an operator, you have passed all readers of its result, so $g_y$ is complete.
#
# > **Predict.** $y=\sum\tanh(x)$ is three operators here: tanh, a sum that leaves an axis of length 1, and a reshape that removes this axis. The derivative of tanh is $1-\tanh^2$. Which of these three results does the gradient read?

# %%
guess["results that the gradient reads"] = ...  # such as "tanh, sum"

# %%
x = autodiff.variable("x", shape=(3,))
y = autodiff.sum(autodiff.tanh(x))
forward = {node.output for node in autodiff.topological([y])}
(gx,) = autodiff.gradients(y, [x])
print(autodiff.listing([x], [y, gx]))
added = [node for node in autodiff.topological([gx]) if node.output not in forward]
read = forward.intersection(v for node in added for v in node.inputs)
guess.answer("results that the gradient reads", {str(v.maker.operator) for v in read})
results = [node.output for node in autodiff.topological([y, gx])]
names = dict(zip(results, "abc1defghi", strict=True)) | {y: "c = y", gx: "i = ∂y/∂x"}
graph(autodiff.plan([x], [y, gx]), names, first=len(results), loss=y)

# %% [markdown]
# Each line from `a` to `i` is one operator: the type of its result, its name, and what it reads; `full(1.0)` makes a tensor of ones. Lines `a` to `c` compute $y$. Lines `d` to `i` (yellow; `i` is the current step) compute the gradient, $g_y\,(1-\tanh^2x)$: the `1` that `d` reads is $g_y$. The gradient reads one result of the forward pass: the rule of tanh needs the *result* of tanh (`a`), while a sum and a reshape need only shapes.
#
# ### Exercise 3: extend the graph
#
# *Difficulty ●●○, 20 minutes.* For each `x` of `xs` return the variable $\partial y/\partial x$ of a scalar `y`. `autodiff.topological([y])` lists *applications*: each is one use of an operator, with `.operator`, `.inputs` and `.output`. For an application `node`, `node.operator.gradient(g, node.output, *node.inputs)` returns a list with one variable, or `None` for "no dependence", for each operand. If a variable has several readers, add up their contributions. If `y` does not depend on an `x`, return zeros: `autodiff.full_like(x, 0)`.
#
# <details><summary>Hint</summary>
#
# Keep a dictionary from each variable to its gradient so far, and start it with `{y: autodiff.full_like(y, 1)}`. Go through `autodiff.topological([y])` in reverse, and skip operators whose result is not in the dictionary.
#
# </details>


# %% exercise="gradients"
def my_gradients(y, xs):
    """Extend the graph by the gradients of the scalar y."""
    # BEGIN SOLUTION
    total = {y: autodiff.full_like(y, 1)}
    for node in reversed(autodiff.topological([y])):
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
# ### What you can do with it
#
# **Differentiate twice.** The Hessian $\nabla^2L$ of $d$ parameters has $d^2$ entries. Its product with a vector $v$ is the gradient of the scalar $\nabla L\cdot v$, so no Hessian is needed. Compare with PyTorch:

# %%
z, v = (autodiff.variable(name, shape=("size",)) for name in "zv")
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
# **Change it.** An operator can leave the forward value alone and clip, reverse or stop the gradient:

# %%
x = autodiff.variable("x", shape=(4,))
for name, gate in (
    ("as it is", lambda x: x),
    ("clipped at 1", lambda x: autodiff.clip_gradient(x, 1.0)),
    ("reversed", autodiff.reverse_gradient),
    ("stopped", autodiff.stop_gradient),
):
    changed = autodiff.function([x], gradients(autodiff.sum(gate(x) ** 2), [x]))
    print(f"{name:13}", changed(np.array([-2.0, -0.3, 0.1, 3.0]))[0])

# %% [markdown]
# ### What breaks: a gradient written in NumPy
#
# Let the gradient of $x^3$ be an operator computed in NumPy. It has no gradient rule, so for the graph its result depends on nothing:


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
    slope, curvature = autodiff.function([x], [first, second])(point)
    print(f"{name:13} first derivative {slope}   second {curvature}")

# %% [markdown]
# The first derivatives agree, so a test of them finds nothing. The second derivative is zero where $6x$ is right, and nothing warns. Training would ignore a penalty on a gradient such as Gulrajani et al.'s (2017).
#
# **Answer.** The gradient is more graph: one rule for each operator, applied in reverse topological order. So a gradient can be differentiated, changed and optimized like everything else. *Evidence: four numbers that equal PyTorch's, and a Hessian-vector product that differs from PyTorch's by rounding.*

# %% [markdown]
# ## Lesson 2. What decides how much memory a run needs?
#
# *32 minutes.* Two programs compute the same value with the same operators, and one of them runs out of memory. What differs?
#
# > **Predict.** Below, $y=\sum_i e^{u_i}+\sum_i\sin u_i+\sum_i\tanh u_i+\sum_i\sigma(u_i)$, and $u$ has 250 000 numbers, 2 MB. Each elementwise result takes 2 MB; each sum is one number. No result overwrites another, and each is freed as soon as its last reader has run. Do not count $u$ itself. What is the lowest peak, in MB, and what is the highest that a bad order can cause?

# %%
guess["lowest peak, MB"] = ...
guess["highest peak, MB"] = ...

# %% [markdown]
# ### Order
#
# A [topological order](glossary.md#topological-order) lists the operators so that each comes after everything that it reads. `autodiff.topological` finds one; there are usually several. The function below runs a graph in a given order, frees each result after its last reader, and records the peak:


# %%
def run_in(order, fed, outputs, over=()):
    """Run in this order; return the outputs' values and the peak in bytes.

    `over` maps applications to the operand that they overwrite (used further below).
    """
    memory, values, over = Allocator(), dict(fed), dict(over)
    readers = Counter(v for node in order for v in set(node.inputs))
    for node in order:
        v = over.get(node)
        result = memory.allocate(node.output.shape, node.output.dtype) if v is None else values[v]
        node.operator.run(result, *(values[each] for each in node.inputs))
        values[node.output] = result
        for each in set(node.inputs):
            readers[each] -= 1
            if not readers[each] and each not in fed and each not in outputs:
                array = values.pop(each)
                if each is not v:
                    memory.free(array)
    return [values[v] for v in outputs], memory.peak


# %%
u, numbers = autodiff.variable("u", shape=(250_000,)), rng.normal(size=250_000)
terms = [autodiff.sum(f(u)) for f in (autodiff.exp, autodiff.sin, autodiff.tanh, autodiff.sigmoid)]
total = terms[0] + terms[1] + terms[2] + terms[3]
order = autodiff.topological([total])
term_by_term = run_in(order, {u: numbers}, [total])
elementwise_first = sorted(order, key=lambda node: node.output.shape != u.shape)
all_at_once = run_in(elementwise_first, {u: numbers}, [total])
for name, ((value,), peak) in (("term by term", term_by_term), ("elementwise first", all_at_once)):
    print(f"{name:18} peak {peak / 1e6:.1f} MB   y = {value:.2f}")
guess.answer("lowest peak, MB", min(term_by_term[1], all_at_once[1]) / 1e6)
guess.answer("highest peak, MB", all_at_once[1] / 1e6)

# %% [markdown]
# The values are equal. If each term is summed before the next begins, one large result exists at a time. If all four functions run first, four large results wait for their sums.
# Finding the best order is NP-hard (Sethi 1975, *Complete register allocation problems*).
#
# ### Buffers
#
# Besides the order, three rules decide how many [buffers](glossary.md#buffer) a run needs.
#
# - **Free** a buffer when its last reader has run. `run_in` does this.
# - **Share.** A reshape, a transpose or a slice reads the bytes of its operand in another way. It needs no buffer of its own.
# - **Overwrite.** An operator may write its result over an operand *that no later operator reads*.
#
# ### Exercise 4: overwrite, with a guard
#
# *Difficulty ●●○, 12 minutes.* `order` lists the applications (uses of operators) as they will run. Return a dictionary from application to the operand that it may overwrite. For an application `node`, `node.operator.in_place` holds the positions in `node.inputs` that the operator can overwrite. An operand may be overwritten only if it has the result's type (`v.type`), is not among the caller's `inputs`, is not among the `outputs`, and *this application is its last reader*. Overwrite wherever this is allowed; if two operands qualify, choose one. (Assume that every result has a buffer of its own.)
#
# <details><summary>Hint</summary>
#
# Walk the order once to note the position of each variable's last reader. Walk it a second time to decide.
#
# </details>


# %% exercise="overwriting"
def my_overwriting(order, inputs, outputs):
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


# %% check="overwriting" points=2
check_runs.overwriting(my_overwriting)

# %%
overwriting = once_right(check_runs.overwriting, my_overwriting, lambda *graph: {})
u, numbers = autodiff.variable("u", shape=(1000,)), rng.normal(size=1000)
y = autodiff.tanh(autodiff.exp(autodiff.sin(u)) + u) * u
order = autodiff.topological([y])
for name, over in (("new buffers", {}), ("overwritten", overwriting(order, [u], [y]))):
    (result,), peak = run_in(order, {u: numbers}, [y], over)
    same = np.array_equal(result, np.tanh(np.exp(np.sin(numbers)) + numbers) * numbers)
    print(f"{name:12} peak {peak:6,} B   right: {same}")

# %% [markdown]
# Your function, once it is right, halves the peak.
#
# ### The peak is arithmetic
#
# If the shapes are known, all of this can be decided before the run. `autodiff.plan` does so, and states the peak. Check it on a perceptron with one hidden layer, its loss and gradients. `tracemalloc` measures the peak without knowing the plan:

# %%
x, t = autodiff.variable("x", shape=(256, 64)), autodiff.variable("t", shape=(256, 10))
W, V = autodiff.variable("W", shape=(64, 128)), autodiff.variable("V", shape=(128, 10))
h = autodiff.tanh(x @ W)
loss = autodiff.mean((h @ V - t) ** 2)
wanted = [loss, *autodiff.gradients(loss, [W, V])]
fed = {v: rng.normal(size=v.shape) for v in (x, t, W, V)}

# %%
inputs, arrays = list(fed), list(fed.values())
for name, in_place in (("freed and shared", False), ("overwritten as well", True)):
    plan = autodiff.plan(inputs, wanted, in_place=in_place)
    plan(*arrays)  # the first run compiles and imports
    _, witnessed = traced(lambda plan=plan: plan(*arrays))
    print(f"{name:20} planned {plan.peak:9,} B   tracemalloc {witnessed:9,} B")
names = {h: "h", loss: "loss", wanted[1]: "∂W", wanted[2]: "∂V"}
graph(plan, names, first=21, loss=loss)

# %% [markdown]
# The plan is right to within a few kilobytes. Step 21, shown above, is in the backward pass, and memory is at its peak: $h$ waits for the product that makes $\partial V$, beside three more results of its size.
#
# ### What breaks: no guard
#
# In $y=\sin(e^x)\,e^x$, the product reads $e^x$ after the sine. With `guard=False` the sine may overwrite $e^x$:

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
# Without the guard the run needs half the memory, and its values are wrong: it computed $\sin^2(e^x)$, in the right shape and dtype.
#
# **Answer.** The operators' order and three rules: free a result after its last reader, share bytes, and overwrite an operand that no later operator reads. With known shapes, all of this is decided before the run. *Evidence: four sums peak at 2 MB or at 8 MB depending on the order alone, and `tracemalloc` confirms the planned peak.*

# %% [markdown]
# ## Lesson 3. How much time must we pay for less memory?
#
# *40 minutes.* Training keeps the results of the forward pass, the *activations*, for the backward pass. Their memory grows with the depth. Can we keep fewer?
#
# > **Predict.** A chain of 10 000 convolutions, each with a result of 1.56 MiB, needs 15.3 GiB for its gradients. Tian (2019) reports 173 MiB for a framework that discards results and recomputes them. About how many *forward* passes does the chain then need in all: 1, 2, 10, 100?

# %%
guess["forward passes at 173 MiB"] = ...

# %% [markdown]
# ### Discard, and compute again
#
# With $x_i=f_i(x_{i-1})$, the gradient of step $i$ reads $x_{i-1}$. The backward pass visits the steps in the order $n,\dots,1$, so all $n$ results $x_0,\dots,x_{n-1}$ are alive when it begins.
#
# **[Recomputation](glossary.md#recomputation)**: cut the chain into $m$ equal segments and keep only the input of each. When the backward pass reaches a segment, run it forward again from its input. So at most $m+n/m-1$ results are alive: $m$ inputs, and the $n/m-1$ other results of one segment. For $m=\sqrt n$ this number is smallest, $2\sqrt n-1$. Every step runs forward at most twice.
#
# The widget below runs such a schedule for $n=36$: a row is a result $x_i$, and time runs to the right. Move the slider to both ends: why is one segment as bad as 36?

# %%
n = 36
ways = {
    "equal segments": {m: checkpoint.in_segments(n, m) for m in range(1, n + 1)},
    "best places": {c: checkpoint.optimal(n, c) for c in range(1, n + 1)},
}
segments(ways, n, first=6)

# %% [markdown]
# One segment holds all its 36 results; 36 segments keep 36 inputs. (*Best places* come below.)
#
# ### Exercise 5: the schedule of segments
#
# *Difficulty ●●●, 25 minutes.* Write the schedule for `steps` $=n$ and `segments` $=m$ as a list of three kinds of actions: `Action("forward", i)` computes $x_i$ from $x_{i-1}$; `Action("backward", i)` computes the gradient of step $i$ and reads $x_{i-1}$; `Action("forget", i)` discards $x_i$. The backward actions come in the order $n,\dots,1$. $x_0$ is there from the beginning, and $x_n$ is not needed. At most $m+\lceil n/m\rceil$ results, $x_0$ included, may be held (one more than derived above), and each step may run forward at most twice.
#
# <details><summary>Hint</summary>
#
# Draw $n=9$, $m=3$. Which results must exist when the first `backward` comes, and which can you forget on the way there? When you reach a segment from the right, which of its steps must run forward again, and does its last step? After `backward` $i$, who still needs $x_{i-1}$? If $m$ does not divide $n$, where are the borders?
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
# Your schedule runs a chain of convolutions, and `tracemalloc` measures its memory.

# %%
n = P.small_chain
x, g = (autodiff.variable(name, shape=(1, 4, 32, 32)) for name in "xg")
k = autodiff.variable("k", shape=(4, 4, 3, 3))
y = autodiff.conv2d(x, k, padding=1)
convolve = autodiff.function([x, k], [y])
back = autodiff.function([x, k, g], autodiff.gradients(y, [x, k], seed=g))
kernels = rng.normal(size=(n + 1, 4, 4, 3, 3)) / 6
start = rng.normal(size=(1, 4, 32, 32))


def walk(schedule):
    """Forward and backward by a schedule; return the gradient at the beginning."""
    return checkpoint.run_chain(
        schedule, start, np.ones_like(start),
        forward=lambda i, x: convolve(x, kernels[i])[0],
        backward=lambda i, x, g: back(x, kernels[i], g)[0],
    )  # fmt: skip


# %%
schedules = {
    "all kept": checkpoint.keep_all(n),
    "12 segments": once_right(check_runs.sqrt_schedule, my_schedule, checkpoint.in_segments)(n, 12),
    "9 kept, best places": checkpoint.optimal(n, 9),
}
walk(checkpoint.keep_all(8))  # the first run compiles and imports
_, alone = traced(lambda: walk(checkpoint.keep_all(1)))
print(f"one step alone: its input and {alone / start.nbytes - 1:.1f} results' bytes")
reference = walk(schedules["all kept"])
for name, schedule in schedules.items():
    gradient, peak = traced(lambda schedule=schedule: walk(schedule))
    cost = checkpoint.cost(n, schedule)
    print(f"{name:20} {cost.peak:3} results predicted, {peak / start.nbytes:5.1f} measured; forward "
          f"{cost.forwards / n:.2f} times; same gradient: {np.array_equal(gradient, reference)}")  # fmt: skip

# %% [markdown]
# Each measured peak exceeds the prediction by about what one step alone needs beside its input: workspace and gradient. (*All kept* runs forward 0.99 times, not once: nobody needs the last result.)
#
# ### The best schedule, and 10 000 convolutions
#
# Suppose that we keep at most $c$ results, $x_0$ included, and run each step forward at most $r$ times. The best schedule (Griewank and Walther 2000) runs forward to one place and keeps the result there. To the right it goes on in the same way, with $c-1$ results. The part to the left comes last: all $c$ places are free again, but its steps have only $r-1$ runs left. Let $S(c,r)$ be the length of the longest possible chain. Its two parts give $S(c,r)=S(c-1,r)+S(c,r-1)$, with $S(0,r)=S(c,0)=1$: one step only runs backward. This is Pascal's rule, so $S(c,r)=\binom{c+r}{c}$. A running step also holds the result that it reads and the one that it makes, so the peak is $c+2$. (Choose *best places* in the widget above.) For 10 000 steps, where do the best places meet Tian's line?

# %%
N, MiB = P.chain, P.unit
cuts = (16, 32, 64, 100)
kept = (24, 32, 48, 64, 96, 108, 140, 197, 400, 1000, 4000, N - 2)
of_segments = [checkpoint.cost(N, checkpoint.in_segments(N, m)) for m in cuts]
best = [((c + 2) * MiB, checkpoint.fewest_forwards(N, c) / N) for c in kept]
sqrt_n = checkpoint.cost(N, checkpoint.in_segments(N))
draw.memory_against_time(
    {
        "best places": best,
        "equal segments": [(c.peak * MiB, c.forwards / N) for c in of_segments],
    },
    {
        f"√n segments: {sqrt_n.peak * MiB:.0f} MiB": (sqrt_n.peak * MiB, sqrt_n.forwards / N),
        "all kept": (N * MiB, 1),
    },
    {"Tian's 173 MiB": 173.03},
)
plt.show()
print(f"√n segments: {sqrt_n.peak * MiB:4.0f} MiB, forward {sqrt_n.forwards / N:.2f} times")
for c in (140, 108):
    forward = checkpoint.fewest_forwards(N, c) / N
    print(f"best places: {(c + 2) * MiB:4.0f} MiB, forward {forward:.2f} times")
guess.answer("forward passes at 173 MiB", forward)

# %% [markdown]
# So 173 MiB ($c=108$, $r=3$) in place of 15 GiB cost at least 2.4 forward passes: not all steps need three runs. Tian explains the 173 MiB by blocks (our segments) of $\sqrt n$ steps. But equal segments need at least $2\sqrt n-1=199$ results, 311 MiB. The best places reach 10 000 steps with $r=2$ and $c=140$, since $\binom{142}{2}=10\,011$: 222 MiB.

# %% [markdown] claims="09-segments-time"
# ### The clock
#
# The backward pass of a convolution computes two gradients, so count it as two forward passes. A training step then costs three forward passes. If each convolution runs forward twice, the step costs four: a third more. The chains recorded below need less: 4 and 9 % more time in two records for 32 × 32 images, 18 and 23 % for 16 × 16. (We did not measure why.) *Equal* means: less than a tenth.

# %%
claims.evidence("09-segments-time")

# %% [markdown]
# **Answer.** To hold $2\sqrt n$ results instead of $n$ costs less than one more forward pass: on the recorded chains, 4 to 23 % more time. With the best places, 110 results are enough for 10 000 steps, at 2.4 forward passes. *Evidence: predicted and measured peaks agree up to a constant workspace, with equal gradients.*

# %% [markdown]
# ## Lesson 4. What may a compiler change, and what must it keep?
#
# *28 minutes.* A graph says *what* to compute, not *how*. A [pass](glossary.md#pass) rewrites it into a cheaper graph. Which passes keep your values, and where does the graph not say enough?
#
# ### Same mathematics, other numbers
#
# The pass `collect_terms` simplifies sums. Each line below gives a graph's value at $x=1$ and its operators in order; `full(2.0)` is the constant 2:

# %%
x = autodiff.variable("x")
for text, y in (("x + 1 - 2 + x", x + 1 - 2 + x), ("x + 1e20 - 1e20", x + 1e20 - 1e20)):
    for what, each in ((text, [y]), ("  collected", passes.fast_math.collect_terms([y]))):
        value = autodiff.function([x], each)(np.array(1.0))[0]
        used = [str(node.operator) for node in autodiff.topological(each)]
        print(f"{what:16} {value:g}  ", *(used or ["no operator: it is x"]))

# %% [markdown]
# $x+1-2+x$ became $2x-1$, with the same value here. But $x+10^{20}-10^{20}$ is 0 as written, since $1+10^{20}$ rounds to $10^{20}$; collected, it is 1. So this pass is in `passes.fast_math`: passes that may change values.
#
# > **Predict.** $A$ and $B$ are 1000 × 1000, $v$ is 1000 × 1. How many times as many multiplications does $(AB)v$ need as $A(Bv)$?

# %%
guess["multiplications, ratio"] = ...

# %%
size = 1000
guess.answer("multiplications, ratio", (size**3 + size**2) / (2 * size**2))
A, B = (autodiff.variable(name, shape=(size, size)) for name in "AB")
v = autodiff.variable("v", shape=(size, 1))
arrays = [rng.normal(size=t.shape) for t in (A, B, v)]
results, times, others = [], [], Others()
for given in ([], [passes.fast_math.order_products]):  # (AB)v as written, then A(Bv)
    product = autodiff.function([A, B, v], [A @ B @ v], passes=given)
    results.append(product(*arrays)[0])
    with others:
        times.append(measure(lambda p=product: p(*arrays), repeats=P.repeats).median)
first, second = results
print(f"ratio of the times {times[0] / times[1]:.0f}, of the multiplications {size / 2:.0f}")
print(f"equal: {np.array_equal(first, second)}; largest relative difference "
      f"{np.abs(first - second).max() / np.abs(first).max():.0e}")  # fmt: skip
others.say()

# %% [markdown]
# Reordering a product is exact in mathematics and rounds differently. The times differ by less than the counts: a count of multiplications is not a time (see [07](07_roofline.ipynb)).
#
# ### Same numbers, fewer bytes: fusion
#
# Each elementwise operator reads its operands from memory and writes its result there. In one [fused](glossary.md#fusion) loop, intermediate values stay in registers, and every element gets the same operations in the same order. So sums and products keep their bits, if the compiler may not contract them to fused multiply-adds (we forbid it). The pass `fuse` writes C:

# %%
COEFFICIENTS = (0.5, -1.0, 2.0, 0.25)
x = autodiff.variable("x", shape=("size",))
y = x
for coefficient in COEFFICIENTS:  # x⁵ and less by Horner's rule: four products, four sums
    y = y * x + coefficient
(fused,) = passes.fuse([y], [x])
print(fused.maker.operator.source())

# %% [markdown]
# A strong rival in NumPy writes all results over one array, *in blocks* of 8 192 numbers: a block stays in the cache, so main memory sees each number once, as with the fused loop.


# %%
def over_one_array(x, y):
    """Every operator writes over y."""
    np.copyto(y, x)
    for coefficient in COEFFICIENTS:
        np.multiply(y, x, out=y)
        np.add(y, coefficient, out=y)
    return y


def in_blocks(x, y, block=8192):
    """The same, block after block."""
    for i in range(0, len(x), block):
        over_one_array(x[i : i + block], y[i : i + block])
    return y


# %%
loop, others = autodiff.function([x], [fused]), Others()
print("  numbers   fused  one array  blocks  [µs]")
for count in (8, 400, 40_000, P.numbers):
    values, room = rng.uniform(-1, 1, count), np.empty(count)
    same = np.array_equal(loop(values)[0], over_one_array(values, room))
    ways = {
        "fused": loop,
        "one array": lambda v, room=room: over_one_array(v, room),
        "blocks": lambda v, room=room: in_blocks(v, room),
    }
    with others:
        often = 20 if count > 1000 else 2000  # short calls need many: the first ones are slow
        took = [
            1e6 * measure(lambda w=w, v=values: w(v), repeats=often).best for w in ways.values()
        ]
    print("{:9,} {:7.0f} {:10.0f} {:7.0f}".format(count, *took), "  same bits" if same else "")
others.say()

# %% [markdown]
# - *400 numbers*: the fused loop loses. It takes about as long for 8 numbers, so most of its time is call overhead.
# - *40 000 numbers* (two arrays of 0.3 MB) fit into a cache: blocks have no traffic with main memory to save. The fused loop wins all the same.
# - *Two million* fill two arrays of 16 MB. In our runs blocks beat one array, and the fused loop beats both: it also saves calls and cache traffic. (We did not separate them.)
#
# So most of the loop's gain is not main-memory traffic: blocks save this, too. Ten recorded runs of loop and blocks (at most 4 million numbers):

# %% claims="09-fused-blocks"
claims.evidence("09-fused-blocks")

# %% [markdown]
# ### What the graph does not say: state
#
# So far a graph is a function of its inputs, but training changes weights. A **state** is a variable that keeps its array between runs, and an *update* is an operator that writes a new value into that array. Now the order changes values: an operator sees the old value before the update, and the new value after it. The edges do not say which runs first.
#
# > **Predict.** $w=1$. A function returns $[\,w\leftarrow 2w,\; 10w\,]$, in this order. What does it return for $10w$?

# %%
guess["10 w"] = ...

# %%
w = autodiff.state("w", np.array(1.0))
for name, given in (("as listed", []), ("order_updates", [passes.order_updates])):
    w.value = np.array(1.0)
    both = autodiff.function([], [autodiff.update(w, 2 * w), 10 * w], passes=given)
    values = [float(value) for value in both()]
    print(f"{name:14} w = {values[0]:g}, 10 w = {values[1]:g}")
    if not given:
        guess.answer("10 w", values[1])

# %% [markdown]
# Without help, the update runs first because it is listed first, and $10w$ reads the new $w$; in a training step it should read the old one. A [control dependency](glossary.md#control-dependency) is an edge without data: *start this operator after that one has finished*. The pass `order_updates` makes each update wait for the state's readers.
#
# ### Exercise 6: momentum
#
# *Difficulty ●●○, 8 minutes.* Gradient descent with momentum keeps a velocity $v$ for each weight: $v\leftarrow 0.9\,v+g$, then $w\leftarrow w-\lambda v$ with the *new* $v$. `w` and `v` are states, `g` is a variable, and `rate` is the number $\lambda$. Return the two updates.
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
# A whole training step is now one graph: a network, its loss, its gradients, your updates, and the dependencies between them. The network learns to tell a ring of points from the others. Does its answer (shaded) leave the ring's middle free?


# %%
def without_momentum(w, v, g, rate):
    """Until yours is right: gradient descent at 1 / (1 - 0.9) = 10 times the rate."""
    return [autodiff.add_update(w, -10 * rate * g)]


points = rng.normal(size=(400, 2))
labels = (np.abs(np.hypot(*points.T) - 1) < 0.4).astype(float)[:, None]
x, t = autodiff.variable("x", shape=("rows", 2)), autodiff.variable("t", shape=("rows", 1))
weights = [autodiff.state(name, rng.normal(size=shape))
           for name, shape in (("W", (2, 16)), ("b", (16,)), ("V", (16, 1)), ("c", (1,)))]  # fmt: skip
W, b, V, c = weights
score = autodiff.tanh(3 * (x @ W + b)) @ V + c
loss = autodiff.mean(autodiff.log(1 + autodiff.exp(-(2 * t - 1) * score)))  # cross-entropy
momentum, updates = once_right(check_runs.momentum, my_momentum, without_momentum), []
for p, g in zip(weights, autodiff.gradients(loss, weights), strict=True):
    speed = autodiff.state(f"speed of {p.name}", np.zeros(p.shape))
    updates += momentum(p, speed, g, rate=0.05)

# %%
train = autodiff.function([x, t], [loss, *updates], passes=[passes.order_updates])
losses = [float(train(points, labels)[0]) for _ in range(1500)]
answer = autodiff.function([x], [score])
right = (answer(points)[0] > 0) == labels
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; {right.mean():.1%} classified correctly")
ticks = np.linspace(-3, 3, 121)
grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
figure, ax = plt.subplots(figsize=(7, 6))
figure.set_label("What the trained network calls ring (shaded), and the points it learned from")
shades = {"levels": (0, np.inf), "colors": style.BLUE, "alpha": 0.2}
ax.contourf(ticks, ticks, answer(grid)[0].reshape(121, 121), **shades)
for which, look in enumerate(("x", "o")):
    shown = points[labels[:, 0] == which].T
    ax.plot(*shown, look, color=style.colour(1 - which), label=("not ring", "ring")[which])
ax.set(aspect="equal", xlim=(-3, 3), ylim=(-3, 3), xlabel="$x_1$", ylabel="$x_2$")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), title="shaded: called ring")
plt.show()

# %% [markdown]
# The loss falls, and the shade has a hole inside the ring. Where there are few points, the shade is arbitrary; we did not test on new points.
#
# The [appendix](A5_more_of_graphs.ipynb) differentiates loops, shows FlashAttention as fusion plus recomputation, and runs a graph on several ranks.
#
# **Answer.** A compiler may make any change that keeps each value bit for bit, such as planning buffers or fusing sums and products. A change that is exact only in mathematics needs your consent. The order of updates must be *in* the graph, or the compiler cannot respect it. *Evidence: equal bits after fusion, different bits after reordering a product, 20 in place of 10 without a control dependency.*

# %% [markdown]
# <details><summary><b>What the sources say, what we measured</b></summary>
#
# | the sources say | here |
# |---|---|
# | autograd gives the gradient of a scalar chain | lesson 1: paper, PyTorch and this graph agree |
# | a bipartite graph of variables (dtype, shape) and operators; types are inferred | lesson 1: an impossible application is refused before anything runs |
# | extend the graph by gradient operators: gradients of gradients, changed gradients | lesson 1: a Hessian-vector product, clipping, reversal; with a gradient in NumPy the second derivative is zero |
# | reference counts, shared and overwritten buffers, caution when a reader remains | lesson 2: planned peak confirmed by `tracemalloc`; without the guard, wrong values |
# | blocks of $\sqrt n$: $O(\sqrt n)$ memory for $O(n)$ time; 10 000 convolutions 15 624 → 173 MiB | lesson 3: equal segments need 311 MiB and 1.98 forward passes; 173 MiB takes the best places and 2.39 |
# | $x+1-2+x\Rightarrow2x-1$ | lesson 4: this changes values in floating point |
# | updates write over the state; its readers must have finished | lesson 4: without the control dependency a read returns 20 instead of 10 |
# | symbolic shapes; a loop operator | lesson 1: Maxout for every batch; [appendix](A5_more_of_graphs.ipynb): a recurrent network for every length |
# | eager evaluation with recording differentiates a `while`; hard to optimize | [appendix](A5_more_of_graphs.ipynb): the inverse by Newton |
#
# </details>
#
# **In practice.** `torch.compile` captures and fuses graphs; `torch.utils.checkpoint` recomputes all results of a part, or only those that you choose; JAX has `jit`, `grad`, `remat` and `lax.scan`; XLA assigns buffers.
#
# **References**
# - Bergstra et al. (2010), *Theano: a CPU and GPU math expression compiler*: gradients by extending a graph.
# - Chen et al. (2015), *MXNet*: in-place memory plans, control dependencies of mutable state.
# - Chen et al. (2016), *Training deep nets with sublinear memory cost*: segments.
# - Griewank & Walther (2000), *Algorithm 799: revolve*: the best places.
# - Tian (2019), *Introduction to computation technologies in deep learning*, lecture slides.
# - Gulrajani et al. (2017), *Improved training of Wasserstein GANs*.
#
# **Next**: [05 Convolve an image in CUDA C, with or without a GPU](05_cuda_tiling.ipynb) goes one level down, to the kernels that compute such a graph's operations.
