# %% [markdown]
# # Derive a GRU, and find out what its gates are for
#
# At the end you will have written a [recurrent network](glossary.md#recurrent-network) and a [GRU](glossary.md#gru) from their equations, carried their gradients through time by hand, and measured what each gate contributes.

# %% [markdown]
# **You will be able to**
#
# - write a plain RNN and a GRU that give what `torch.nn` gives, to the last digits;
# - derive the gradients of both ([backpropagation through time](glossary.md#backpropagation-through-time)) and prove them right in three ways;
# - predict when a gradient [vanishes](glossary.md#vanishing-gradient) or [explodes](glossary.md#exploding-gradient), and say which remedy helps against which;
# - test, with several seeds, whether a part of a network, or a cell of your own, earns its place.
#
# **You need** matrix calculus and PyTorch; no earlier notebook. *Time:* 135 minutes, of which your machine works for about one. *Cores:* one is enough. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape |
# |---|---|---|
# | $T, B, I, H$ | steps, sequences in a batch, inputs, units | numbers |
# | $x_t$ | input at step $t$ | $(B, I)$ |
# | $h_t$ | [hidden state](glossary.md#hidden-state) after step $t$; $h_0$ is given | $(B, H)$ |
# | $g$, $\sigma$ | squashing function (here tanh unless said otherwise), logistic sigmoid | |
# | $a_t$ | what $g$ or $\sigma$ is applied to at step $t$ | that of its result |
# | $r_t, z_t, m_t, n_t$ | the GRU's reset gate, update gate, memory, candidate | $(B, H)$ |
# | $W, b$ | weights and bias on the input | $(G H, I)$, $(G H)$ |
# | $U, c$ | weights and bias on the state | $(G H, H)$, $(G H)$ |
# | $G$ | blocks in $W$, $U$, $b$, $c$: 1 for the RNN, 3 for the GRU (reset, update, candidate) | number |
# | $\circ$ | product element by element | |
# | $\delta a$ | $\partial L/\partial a$, the gradient of the loss $L$ | that of $a$ |
# | $\alpha_t$ | $\partial h_t/\partial w$ for one weight $w$ | that of $h_t$ |
# | $\rho(U)$, $\lVert U\rVert_2$ | [spectral radius](glossary.md#spectral-radius) (largest $\lvert$eigenvalue$\rvert$), spectral norm (largest stretch) | numbers |
#
# Equations act on one sequence as a column, $Wx_t$; the code holds a batch in rows and writes `x @ W.T`. The update gate is PyTorch's: $z=1$ *keeps* the old state. So has the paper that brought the GRU, Cho et al. (2014); Chung et al. (2014) and Yang et al. (2016) swap $z$ and $1-z$.

# %% [markdown]
# ## Set-up

# %%
import inspect
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import FloatSlider, IntSlider, interact
from torch import nn

from helpers import claims
from helpers.exercises import recurrent as check
from helpers.plots import recurrent as draw
from helpers.plots import style
from helpers.predictions import Prediction
from helpers.recurrent import experiments, gradients, jacobians, layers, steps
from helpers.recurrent.readers import Reader
from helpers.recurrent.tasks import ForgetOnCue
from helpers.timing import measure

torch.set_num_threads(1)  # a step is too small to share
style.use()


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    """Sizes of this notebook's runs."""

    steps: int = 60  # T, of the studies of gradients
    units: int = 32  # H, of the studies of gradients
    seeds: int = 4  # runs of each variant, trained at once
    repeats: int = 5  # samples of each timing


# %%
P = Parameters()
_ = torch.manual_seed(0)

# %% [markdown]
# ## Where this ends
#
# Three untrained networks read the same random inputs twice, from two starting states. How far apart are the two runs later? That is what a network remembers of its start.


# %%
def remembered(layer):
    """Distance of two runs after each step, as a share of the distance they start with."""
    x, h0 = torch.randn(P.steps, 1, P.units).double(), torch.randn(1, 1, P.units).double()
    with torch.no_grad():
        gap = layer(x, h0)[0] - layer(x)[0]  # without h0 the state starts at 0
    return gap.norm(dim=2)[:, 0] / h0.norm()


plain, gated, patient = (kind(P.units, P.units).double() for kind in (nn.RNN, nn.GRU, nn.GRU))
patient.bias_ih_l0.data[P.units : 2 * P.units] += 4  # of the update gate
_, ax = plt.subplots()
for name, layer in {"RNN": plain, "GRU": gated, "GRU, a bias raised": patient}.items():
    ax.semilogy(range(1, P.steps + 1), remembered(layer), label=name, markevery=10)
ax.set(xlabel="steps since the start", ylabel="distance left, share of the start's")
ax.legend()
plt.show()

# %% [markdown]
# The plain network forgets its start at once, and so does a GRU as PyTorch makes it, a little later; with one of its biases raised, the GRU still knows it sixty steps on. (Below $10^{-16}$ there is only rounding.) The derivation below says why the first two fall along straight lines, and what that bias does.
#
# ## A summary in which order counts
#
# You and a friend both do push-ups for thirty days. Who is the keener? Each has a *sequence* of numbers, and sequences have no order of size; a summary has: the mean. Day 1 counts as much as day 30, so you may shuffle the days:

# %%
you, friend = torch.randint(10, 40, (30,)).double(), torch.randint(15, 40, (30,)).double()
for name, days in (("you", you), ("your friend", friend)):
    shuffled = days[torch.randperm(30)]
    print(f"{name:11} mean {days.mean():.2f}   with the days shuffled {shuffled.mean():.2f}")

# %% [markdown]
# Five yearly deposits of 100, 200, 300, 400 and 500 into an account with 5 % interest are another matter.
#
# > **Predict.** Make the same deposits in the opposite order. Is the mean the same? Is the balance? By how much do they differ?

# %%
apart = Prediction("difference of the two balances", None)  # your number for None

# %%
deposits, rate = torch.tensor([100.0, 200.0, 300.0, 400.0, 500.0]), 0.05


def balance(deposits):
    """What the account holds at the end of the last year."""
    h = torch.zeros(())
    for b_t in deposits:
        h = (1 + rate) * (h + b_t)  # this year's deposit joins, then interest is paid
    return h.item()


for name, row in (("as they came", deposits), ("reversed", deposits.flip(0))):
    print(f"{name:13} mean {row.mean():.2f}   balance {balance(row):.2f}")
apart.answer(balance(deposits.flip(0)) - balance(deposits))

# %% [markdown]
# The mean cannot tell the two apart; the balance can. It is a *recurrence*: a state $h$, updated by the same rule at each step. A recurrent network is such a rule with learned weights and a squashing function $g$,
#
# $$h_t = g(W x_t + b + U h_{t-1} + c).$$
#
# ### Exercise 1: savings as a recurrent network
#
# *Difficulty ●○○, 3 minutes.* With $g(a)=a$, one input and one unit, which numbers $u$ and $w$ make $h_t = u\,h_{t-1} + w\,b_t$ the balance at the end of year $t$?
#
# <details><summary>Hint</summary>
#
# Multiply out the line in `balance`.
#
# </details>


# %% exercise="savings"
def savings(rate):
    """Return (u, w) for an interest rate such as 0.05."""
    # BEGIN SOLUTION
    return 1 + rate, 1 + rate
    # END SOLUTION


# %% check="savings" points=1
check.savings_as_recurrence(savings)

# %% [markdown]
# ## The plain RNN, forward
#
# One step is the equation above with $g=\tanh$. This is the code that the rest of the notebook uses:

# %%
print(inspect.getsource(steps.rnn_step))

# %%
reference = nn.RNN(3, 5)
ours = layers.RNN(3, 5)
ours.load_state_dict(reference.state_dict())  # the same names, the same layout
x = torch.randn(7, 2, 3)  # (T, B, I)
print(f"largest difference: {(ours(x)[0] - reference(x)[0]).abs().max():.1e}")

# %% [markdown]
# Zero, or some $10^{-7}$: that is rounding in float32. The tests in `tests/recurrent` repeat this over random shapes, both directions, several layers, packed sequences and initial states.
#
# ## The plain RNN, backward
#
# ### The recursion of the gradient
#
# Write $a_t = Wx_t + b + Uh_{t-1} + c$, and take one weight $w$ of $W$ or $U$. The chain rule gives, with $h_{t-1}$ depending on $w$ too,
#
# $$\alpha_t := \frac{\partial h_t}{\partial w} = g'(a_t)\circ\Big(\frac{\partial a_t}{\partial w}\Big|_{h_{t-1}} + U\,\alpha_{t-1}\Big).$$
#
# Start with four numbers: one unit, $h_t=\tanh(w x_t + u h_{t-1})$, and $\partial h_3/\partial w$ by hand.

# %%
w, u, inputs = torch.tensor(0.5, requires_grad=True), 0.9, (1.0, -0.5, 2.0)
h, alpha = torch.zeros(()), 0.0
for t, x_t in enumerate(inputs, start=1):
    h = torch.tanh(w * x_t + u * h)
    slope = 1 - h.item() ** 2  # tanh' = 1 − tanh²
    alpha = slope * (x_t + u * alpha)
    print(f"t={t}  h={h.item():+.4f}  g'={slope:.4f}  alpha={alpha:+.6f}")
print(f"autograd:{torch.autograd.grad(h, w)[0]:+33.6f}")

# %% [markdown]
# Unroll the recursion: put $\alpha_{T-1}$ into $\alpha_T$, then $\alpha_{T-2}$, and so on. For one unit,
#
# $$\alpha_T=\underbrace{\sum_{k=0}^{T-1}\Big(\prod_{s=T-k+1}^{T}g'(a_s)\,u\Big)\,g'(a_{T-k})\,x_{T-k}}_{C}
# +\Big(\prod_{s=1}^{T}g'(a_s)\,u\Big)\,\alpha_0 .$$
#
# This is often shortened to $C+(g'U)^{n-1}\alpha_0$, with $n-1=T$ factors. With a given $h_0$, $\alpha_0=\partial h_0/\partial w=0$, and the whole gradient stands in $C$. The last term counts where $h_0$ depends on $w$; simplest is $h_0=w$, so that $\alpha_0=1$. Both, term by term:


# %%
def unrolled(h, alpha_0):
    """Print the terms of C, and the last one, for h_0 = h with a derivative by w of alpha_0."""
    slopes, C, factor = [], 0.0, 1.0
    for x_t in inputs:
        h = torch.tanh(w * x_t + u * h)
        slopes.append(1 - h.item() ** 2)
    for k, (x_t, slope) in enumerate(zip(reversed(inputs), reversed(slopes), strict=True)):
        term = factor * slope * x_t
        C += term
        print(f"  {k} steps back: product of {k} factors {factor:.4f}, term {term:+.6f}")
        factor *= slope * u
    last = factor * alpha_0
    print(f"  C {C:+.6f}, last term {last:+.6f}, together {C + last:+.6f},", end=" ")
    print(f"autograd {torch.autograd.grad(h, w)[0].item():+.6f}")


print("h_0 = 0")
unrolled(torch.zeros(()), 0)
print("h_0 = w")
unrolled(w, 1)

# %% [markdown]
# What was said $k$ steps back is multiplied by $k$ factors $g'(a_s)\,u$; with many units, by a product of matrices. That product decides everything in the section on [vanishing and exploding gradients](#Vanishing-and-exploding,-measured).
#
# ### All gradients in one walk
#
# Forward recursion costs one $\alpha$ for every weight. *Backpropagation through time* walks the other way and carries a single vector, $\delta h_t$. Two things flow into it: what the loss says about $h_t$ itself, and what $h_{t+1}$ passes back:
#
# $$\delta h_t = \underbrace{\frac{\partial L}{\partial h_t}\Big|_{\text{outside}}}_{\text{from the output}} + U^\top\delta a_{t+1},\qquad
# \delta a_t = \delta h_t\circ(1-h_t^2).$$
#
# The same $W$, $U$, $b$, $c$ act at each step, so their gradients are sums over the steps:
#
# $$\delta W=\sum_t \delta a_t\,x_t^\top,\quad \delta U=\sum_t \delta a_t\,h_{t-1}^\top,\quad \delta b=\delta c=\sum_t\delta a_t,\quad \delta x_t=W^\top\delta a_t.$$

# %% [markdown]
# `gradients.rnn_backward` does this walk (you will see it after Exercise 2, where one step is yours); `gradients.collect` then does the sums over the steps, one product for each parameter. Three independent witnesses: autograd, `torch.nn`, and finite differences in float64.


# %%
def three_checks(forward, backward, module, blocks, H=4):
    """Print the largest difference of the gradients by hand from each witness."""
    shapes = [(6, 2, 3), (2, H), (blocks * H, 3), (blocks * H, H), (blocks * H,), (blocks * H,)]
    tensors = [torch.randn(s, dtype=torch.float64) for s in shapes]  # x, h0, W, U, b, c
    weight = torch.randn(6, 2, H).double()  # the loss is a weighted sum of all states
    hand = backward(tensors, weight)
    leaves = [t.clone().requires_grad_() for t in tensors]
    auto = torch.autograd.grad((forward(leaves) * weight).sum(), leaves)
    numeric = [
        gradients.finite_difference(lambda: (forward(tensors) * weight).sum(), t) for t in tensors
    ]
    for parameter, value in zip(module.parameters(), tensors[2:], strict=True):
        parameter.data.copy_(value)
    (module(tensors[0], tensors[1][None])[0] * weight).sum().backward()
    library = [None, None, *(p.grad for p in module.parameters())]
    print("     autograd  differences  torch.nn")
    for name, *row in zip(hand._fields, hand, auto, numeric, library, strict=True):
        off = ["-" if o is None else f"{(row[0] - o).abs().max().item():.0e}" for o in row[1:]]
        print(f"δ{name:3} {off[0]:>8} {off[1]:>12} {off[2]:>9}")


# %%
three_checks(
    forward=lambda p: gradients.rnn_forward(*p)[1:],
    backward=lambda p, g: gradients.rnn_backward(
        p[0], gradients.rnn_forward(*p), p[2], p[3], output_gradient=g
    ),
    module=nn.RNN(3, 4).double(),
    blocks=1,
)

# %% [markdown]
# Autograd and `torch.nn` agree to about $10^{-15}$, which is float64's rounding. Finite differences agree to about $10^{-9}$: with a step of $10^{-6}$ that is all they can resolve.
#
# ### Exercise 2: one step back
#
# *Difficulty ●●○, 10 minutes.* Given $\delta h_t$, $h_t$, $h_{t-1}$ (each $(B,H)$) and $U$, return $\delta a_t$, what goes on to $h_{t-1}$, and this step's share of $\delta U$.
#
# <details><summary>Hint</summary>
#
# Rows are sequences: $U^\top\delta a$ becomes `d_a @ U`. For $\delta U$, sum the outer products over the batch.
#
# </details>


# %% exercise="backward-step"
def backward_step(d_h, h_t, h_before, U):
    """Return (d_a, d_before, d_U), shapes (B, H), (B, H), (H, H)."""
    # BEGIN SOLUTION
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U, d_a.T @ h_before
    # END SOLUTION


# %% check="backward-step" points=2
check.rnn_backward_step(backward_step)

# %% [markdown]
# The whole walk, with your step in its middle:

# %%
if check.rnn_backward_step.passed(backward_step):
    print(inspect.getsource(gradients.rnn_backward))
    print(inspect.getsource(gradients.collect))
else:
    print("its source: gradients.rnn_backward??, once you have tried")

# %% [markdown]
# ## Vanishing and exploding, measured
#
# How much does $h_{T-k}$, $k$ steps back, still say to the end? Its *Jacobian* is a product of $k$ matrices, each at its own state:
#
# $$\frac{\partial h_T}{\partial h_{T-k}}=\prod_{s=T}^{T-k+1}\operatorname{diag}(1-h_s^2)\,U,\qquad
# \Big\lVert\frac{\partial h_T}{\partial h_{T-k}}\Big\rVert_2\le\lVert U\rVert_2^{\,k},$$
#
# because the slope of tanh is at most 1.
#
# ### Exercise 3: as far as the bound reaches
#
# *Difficulty ●○○, 5 minutes.* The bound promises something only where $\lVert U\rVert_2<1$. From how many steps back on is a gradient *certainly* shorter than the share `left` of what it was? Return the smallest such whole number of steps, or None where the bound promises nothing.
#
# <details><summary>Hint</summary>
#
# `torch.linalg.matrix_norm(U, 2)`; solve $\lVert U\rVert^k<\texttt{left}$ for $k$, both sides in logarithms. Mind the sign when you divide.
#
# </details>


# %% exercise="reach"
def reach(U, left):
    """Return the smallest k with ‖U‖^k < left, or None where there is none."""
    # BEGIN SOLUTION
    norm = torch.linalg.matrix_norm(U, 2).item()
    k = 0
    while norm < 1 and norm**k >= left:
        k += 1
    return k if norm < 1 else None
    # END SOLUTION


# %% check="reach" points=1
check.reach_of_the_bound(reach)

# %% [markdown]
# > **Predict.** $U$ is random, 32 by 32, and scaled to spectral radius 0.5, 1 or 2. Inputs are random numbers of size 0.1, then 2. What is left of the gradient after 60 steps at radius 0.5? At radius 2, does it explode with small inputs? With large ones?

# %%
left_at_half = Prediction("left after 60 steps at radius 0.5", None)  # your number, such as 1e-3
small_inputs = Prediction("at radius 2, with inputs of size 0.1, it", None)  # "explodes" or "stays"
large_inputs = Prediction("at radius 2, with inputs of size 2, it", None)

# %% [markdown]
# One random matrix proves little, so each curve is the median over 25 of them, lag by lag.


# %%
def rnn_norms(radius, input_size=0.1, seed=1):
    """Norms by lag and the bound ‖U‖^k, for one random U of that spectral radius."""
    generator = torch.Generator().manual_seed(seed)
    U = torch.randn(P.units, P.units, generator=generator).double()
    U = jacobians.with_spectral_radius(U, radius)
    W, zero = torch.eye(P.units).double(), torch.zeros(P.units).double()
    x = input_size * torch.randn(P.steps, 1, P.units, generator=generator).double()
    h = gradients.rnn_forward(x, torch.zeros(1, P.units).double(), W, U, zero, zero)
    measured = jacobians.norms_by_lag(jacobians.rnn_jacobians(h[:, 0], U))
    return measured, jacobians.power_bound(U, P.steps)


def typical(radius, input_size, seeds=25):
    """The median over random matrices of norms by lag and of their bounds."""
    drawn = [rnn_norms(radius, input_size, seed) for seed in range(seeds)]
    return [torch.stack(part).median(dim=0).values for part in zip(*drawn, strict=True)]


# %%
settings = ((0.5, 0.1), (1, 0.1), (2, 0), (2, 0.1), (2, 2))
curves = {f"ρ(U) = {radius:g}, input {x:g}": typical(radius, x) for radius, x in settings}
draw.norms_by_lag({k: v[0] for k, v in curves.items()}, {k: v[1] for k, v in curves.items()})
plt.show()
for (radius, _), (_, bound) in list(zip(settings, curves.values(), strict=True))[:3]:
    print(f"ρ(U) = {radius:g}: median ‖U‖ = {bound[1]:.2f}")
ends = [float(curve[0][-1]) for curve in curves.values()]
left_at_half.answer(ends[0])
for said, end in ((small_inputs, ends[3]), (large_inputs, ends[4])):
    said.answer("explodes" if end > 10 else "stays")

# %% [markdown] claims="03-norm-above-one 03-input-tames"
# Read it from the right. These matrices are random. At $\rho=0.5$ the gradient is gone. At $\rho=1$ it does not grow either, although $\lVert U\rVert_2$ is above 1 and its dashed bound climbs without end. The bound is loose: powers of a matrix grow as its spectral *radius* says, not as its norm. (The radius of $U$ alone does not decide either, once units saturate differently: $U = \tfrac32\begin{pmatrix}1&-1\\1&-1\end{pmatrix}$ has radius 0, and with its second unit saturated the gradient over 60 steps is above $10^{10}$. What counts is the product of the Jacobians.)
#
# At $\rho=2$ there are three curves for the same matrices. Without input the state stays 0, where tanh has slope 1, and the gradient explodes as $U^k$ does. With inputs of size 0.1 it still grows, for most matrices. Inputs of size 2 drive the states into *saturation*, towards ±1 where tanh is flat, and the same matrices no longer explode. How much input that takes depends on the radius: at $\rho=3$ inputs of size 2 are not enough.

# %%
for name in ("03-norm-above-one", "03-input-tames"):
    display(claims.evidence(name))

# %% [markdown]
# (These tables come from records: `make claims NB=03` runs all experiments of this notebook again, on your machine, over all seeds.)
#
# So the common sentence "if the norm of $g'U$ is greater than 1, the gradient explodes" claims too much. A norm above 1 is **necessary, not sufficient**. And what is raised to a power is no single matrix: the factors differ from step to step. The shortest counterexample has a norm of 5:

# %%
U = torch.tensor([[0.0, 5.0], [0.0, 0.0]])
print(
    "norm of U:", torch.linalg.matrix_norm(U, 2).item(), "  norm of U @ U:", (U @ U).norm().item()
)


# %%
def show_rnn(radius, input_size):
    """Redraw for the slider."""
    measured, bound = typical(radius, input_size)
    draw.norms_by_lag({f"ρ(U) = {radius:.2f}": measured}, {f"ρ(U) = {radius:.2f}": bound})
    plt.show()


_ = interact(
    show_rnn,
    radius=FloatSlider(1.3, min=0.2, max=3, step=0.1, description="radius"),
    input_size=FloatSlider(0.1, min=0, max=2, step=0.1, description="input"),
)

# %% [markdown]
# Find, for a radius of your choice, the input at which the curve neither grows nor falls.
#
# ### Clipping helps against one of the two
#
# [Clipping](glossary.md#gradient-clipping) shortens a gradient $\delta U$ that is longer than a limit $\ell$, $\delta U\leftarrow\delta U\,\min(1, \ell/\lVert\delta U\rVert)$, and keeps its direction. It cures steps that leap out of the map. It cannot lengthen what has vanished.
#
# ### Exercise 4: one length for all
#
# *Difficulty ●○○, 5 minutes.* A network has several weights, and the gradients of all of them are one long vector. Its length is the square root of the sum of all squares: over every entry of every tensor. `gradients` is a list of tensors of any shapes. Return them in a list, in the same order: as they are where that length is at most `limit`; else all scaled by one factor, so that it is `limit`.
#
# <details><summary>Hint</summary>
#
# `(g**2).sum()` for each `g`, added up, and one root. Divide only where the length is above the limit: it may be 0.
#
# </details>


# %% exercise="clip"
def clip(gradients, limit):
    """Return the list of gradients with a joint length of at most limit."""
    # BEGIN SOLUTION
    length = sum((g**2).sum() for g in gradients).sqrt().item()
    return [g * (limit / length) for g in gradients] if length > limit else list(gradients)
    # END SOLUTION


# %% check="clip" points=2
check.clip_together(clip)


# %%
def clipped(parts, limit):
    """Clip by your function, or by the course's while there is none."""
    if check.clip_together.passed(clip):
        return clip(parts, limit)
    gradients.clip_by_norm(parts, limit)  # in place
    return parts


print("clipped by", "you" if check.clip_together.passed(clip) else "the course")

# %% [markdown]
# Watch both in the smallest case: a recurrence without squashing, $h_t=Uh_{t-1}$, that shall give back after 20 steps what it started with. Answering 0 always costs a loss of about 1, the mean square of the numbers to give back.


# %%
def descend(radius, limit, steps=150, rate=0.05):
    """Train a linear recurrence to give back its start after 20 steps; return the losses."""
    generator = torch.Generator().manual_seed(0)
    U = jacobians.with_spectral_radius(torch.randn(8, 8, generator=generator), radius)
    U.requires_grad_()
    x, losses = torch.randn(64, 8, generator=generator), []
    for _ in range(steps):
        h = x
        for _ in range(20):
            h = h @ U.T
        loss = (h - x).square().mean()
        (gradient,) = torch.autograd.grad(loss, U)
        if limit:
            (gradient,) = clipped([gradient], limit)
        U.data -= rate * gradient
        losses.append(loss.item())
    return losses


# %%
_, ax = plt.subplots()
for radius, limit in ((1.3, None), (1.3, 1.0), (0.5, None), (0.5, 1.0)):
    name = f"ρ = {radius}, " + (f"clipped at {limit:g}" if limit else "not clipped")
    losses = [loss for loss in descend(radius, limit) if loss < float("inf")]  # NaN is not, either
    look = {"marker": "", "lw": 2 if limit else 7}
    if len(losses) < 10:
        look = {"marker": "s", "ms": 13}
        name += f": overflows after {len(losses)} step{'s' * (len(losses) > 1)}"
    ax.semilogy(losses, label=name, ls="--" if limit else "-", **look)
ax.set(xlabel="step", ylabel="loss", ylim=(0.1, 1e5))
ax.legend()
plt.show()

# %% [markdown] claims="03-clipping-explosion"
# Exploding ($\rho=1.3$): without clipping the first step throws $U$ so far that the loss overflows, and the curve ends where it began; with it, the loss comes down. Vanishing ($\rho=0.5$): both curves lie on each other and stay at the loss of answering 0. There is nothing to clip.
#
# ## The GRU
#
# The plain RNN multiplies by the same kind of factor at each step. A *gated recurrent unit* lets the data decide what is kept. Two *gates*, numbers between 0 and 1 computed from input and state, do that: the [reset gate](glossary.md#reset-gate) and the [update gate](glossary.md#update-gate).
#
# $$\begin{aligned}
# r_t&=\sigma(W_rx_t+b_r+U_rh_{t-1}+c_r) &&\text{reset gate}\\
# z_t&=\sigma(W_zx_t+b_z+U_zh_{t-1}+c_z) &&\text{update gate}\\
# m_t&=U_nh_{t-1}+c_n &&\text{memory}\\
# n_t&=\tanh(W_nx_t+b_n+r_t\circ m_t) &&\text{candidate}\\
# h_t&=(1-z_t)\circ n_t+z_t\circ h_{t-1} &&\text{new state}
# \end{aligned}$$
#
# In words: the [candidate](glossary.md#candidate) $n_t$ is a plain RNN's new state, but for $r_t$, which scales the past's share in it; $z_t$ then mixes the candidate with the old state.
#
# Step through a real one, of four units, *trained* on a task of the section on [what gates are for](#What-are-the-gates-for?-Ask-by-taking-them-away): numbers $+1$ and $-1$ come in, and now and then a cue (the second input is then 1), from which on the sum of the numbers counts anew. Each box holds the numbers of a run; the slider moves through time.

# %%
small, sequence, signs = experiments.one_that_forgets(seed=1)
with torch.no_grad():
    gates = small.trace(sequence)
print("signs:", *(f"{value:+.0f}" for value in signs[0]), "   cues at steps", signs[1])
before = torch.cat([torch.zeros(1, 1, 4), gates.state[:-1]])


def show_step(t):
    """Draw step t with its numbers."""
    now = steps.GRUStep(*(part[t - 1, 0] for part in gates))
    draw.gru_step(now, sequence[t - 1, 0], before[t - 1, 0], f"step {t} of {len(sequence)}")
    plt.show()


_ = interact(show_step, t=IntSlider(9, min=1, max=len(sequence), description="step t"))

# %% [markdown]
# Compare a unit's $z$ in two steps: where it is larger, the new state is closer to the old one. Then compare steps with a cue and without:

# %%
at_cue = torch.tensor([t in signs[1] for t in range(1, len(sequence) + 1)])
for name, gate in (("reset r", gates.reset), ("update z", gates.update)):
    for what, chosen in (("with a cue", at_cue), ("without", ~at_cue)):
        means = gate[chosen, 0].mean(0)
        print(f"{name:9} {what:11}", " ".join(f"{value:.2f}" for value in means))

# %% [markdown]
# Each column is a unit. At a cue both gates fall towards 0: $z$ discards the old state, $r$ keeps it out of the candidate. Train it from another `seed`: do both gates do so again?
#
# ### Exercise 5: write it
#
# *Difficulty ●●○, 10 minutes.* From the equations to code. `W`, `U`, `b`, `c` hold the three blocks on top of each other: reset, update, candidate.
#
# <details><summary>Hint</summary>
#
# `(x @ W.T + b).chunk(3, dim=1)` gives the three shares of the input.
#
# </details>


# %% exercise="my-gru-step"
def my_gru_step(x, h, W, U, b, c):
    """Return h_t (B, H) from x (B, I) and h (B, H)."""
    # BEGIN SOLUTION
    i_r, i_z, i_n = (x @ W.T + b).chunk(3, dim=1)
    s_r, s_z, m = (h @ U.T + c).chunk(3, dim=1)
    r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
    n = torch.tanh(i_n + r * m)
    return (1 - z) * n + z * h
    # END SOLUTION


# %% check="my-gru-step" points=2
check.gru_from_equations(my_gru_step)

# %% [markdown]
# Carry your step over a sequence: are the states those of `nn.GRU`, and the gradients that autograd brings back through them? Then train with it, on the task of the signs and cues above, from the same start and with the same batches as `nn.GRU`. All gradients together are clipped at 1 by `clipped`, of the section on [vanishing and exploding gradients](#Vanishing-and-exploding,-measured).


# %%
def by_steps(step, layer, x):
    """All states (T, B, H) from a GRU's weights, one step after the other, starting at 0."""
    h, states = x.new_zeros(x.shape[1], layer.hidden_size), []
    for x_t in x:
        h = step(x_t, h, *layer.parameters())
        states.append(h)
    return torch.stack(states)


def learn(read, updates=150):
    """Train a GRU of 4 units whose states come from read(layer, x); return the losses."""
    torch.manual_seed(0)
    task, layer, answer, losses = ForgetOnCue(), nn.GRU(2, 4), nn.Linear(4, 2), []
    parameters = [*layer.parameters(), *answer.parameters()]
    optimizer, drawn = torch.optim.Adam(parameters, lr=0.02), torch.Generator().manual_seed(0)
    for _ in range(updates):
        x, labels = task.draw(32, drawn)
        loss = nn.functional.cross_entropy(answer(read(layer, x)[-1]), labels)
        gradient = clipped(torch.autograd.grad(loss, parameters), 1.0)
        for part, g in zip(parameters, gradient, strict=True):
            part.grad = g
        optimizer.step()
        losses.append(loss.item())
    return losses


# %%
losses = {"nn.GRU": learn(lambda layer, x: layer(x)[0])}
if check.gru_from_equations.passed(my_gru_step):
    layer, x = nn.GRU(3, 4).double(), torch.randn(40, 2, 3).double()
    weight, pair = torch.randn(40, 2, 4).double(), []
    for states in (by_steps(my_gru_step, layer, x), layer(x)[0]):
        back = torch.autograd.grad((states * weight).sum(), list(layer.parameters()))
        pair.append([states, *back])
    for name, one, other in zip(("h", "δW", "δU", "δb", "δc"), *pair, strict=True):
        print(f"{name:2} over 40 steps, largest difference {(one - other).abs().max().item():.0e}")
    losses["your step"] = learn(lambda layer, x: by_steps(my_gru_step, layer, x))
print("loss after" + "".join(f"{count:8}" for count in (1, 50, 100, 150)), "updates")
for name, row in losses.items():
    print(f"{name:10}" + "".join(f"{row[count - 1]:8.4f}" for count in (1, 50, 100, 150)))
if "your step" not in losses:
    print("your step        –: exercise 5 first")

# %% [markdown]
# ### Special cases, exactly
#
# Push a gate's bias to ±200 and the sigmoid *is* 0 or 1 in float32. Three statements, tested without tolerance or to rounding:
#
# - $z=1$: the state is copied;
# - $r=1$, $z=0$: the GRU is the plain RNN;
# - $r=0$, $z=0$: the past is forgotten. (One sometimes reads that units with a reset gate close to *1* forget. The equation says the contrary. Cho et al. write that units with a short memory tend to have reset gates that are "frequently active", and that a gate close to *0* drops the state: an active gate, then, is one that resets.)


# %%
def gru_with(reset=None, update=None):
    """Our GRU with a gate held at 0 or 1 by its bias; None leaves the gate free."""
    torch.manual_seed(0)
    layer = layers.GRU(3, 4)
    for block, value in enumerate((reset, update)):
        if value is not None:
            layer.bias_ih_l0.data[4 * block : 4 * block + 4] = 400 * value - 200
    return layer


x, h0, other = torch.randn(5, 2, 3), torch.randn(1, 2, 4), torch.randn(1, 2, 4)
print("z=1 copies:", gru_with(update=1)(x, h0)[1].equal(h0))
held, plain = gru_with(reset=1, update=0), layers.RNN(3, 4)
plain.load_state_dict({name: value[8:] for name, value in held.state_dict().items()})
print(f"r=1, z=0 is the RNN, up to {(held(x, h0)[0] - plain(x, h0)[0]).abs().max():.1e}")
forgetful = gru_with(reset=0, update=0)
print("r=0, z=0 forgets:", forgetful(x, h0)[0].equal(forgetful(x, other)[0]))

# %% [markdown]
# ## The GRU, backward
#
# Walk the five equations from the last to the first. With $\delta h_t$ known, the last of them gives
#
# $$\delta n_t=\delta h_t\circ(1-z_t),\qquad \delta z_t=\delta h_t\circ(h_{t-1}-n_t).$$
#
# Let $a^n$, $a^z$, $a^r$ be what tanh and the two sigmoids are applied to. Go on with pencil and paper: what are $\delta a^n_t$, $\delta m_t$, $\delta r_t$, $\delta a^z_t$ and $\delta a^r_t$? And which paths lead back to $h_{t-1}$, through which matrix each? Then compare:
#
# <details><summary>The other equations</summary>
#
# $$\begin{aligned}
# \delta a^n_t&=\delta n_t\circ(1-n_t^2) & \delta a^z_t&=\delta z_t\circ z_t\circ(1-z_t)\\
# \delta m_t&=\delta a^n_t\circ r_t & \delta r_t&=\delta a^n_t\circ m_t,\quad \delta a^r_t=\delta r_t\circ r_t\circ(1-r_t)
# \end{aligned}$$
#
# Four paths lead back to the state:
#
# $$\delta h_{t-1}\;\mathrel{+}=\;\underbrace{z_t\circ\delta h_t}_{\text{the copy}}+U_r^\top\delta a^r_t+U_z^\top\delta a^z_t+U_n^\top\delta m_t.$$
#
# </details>
#
# One of the paths is new, the copy $z_t\circ\delta h_t$: **no weight matrix on it**. Where $z_t=1$ the gradient passes unchanged.
#
# ### Exercise 6: one step of the GRU, backward
#
# *Difficulty ●●●, 25 minutes.* Write the step that you have derived. `gates` has `.reset`, `.update`, `.memory`, `.candidate` of this step, each $(B,H)$; `U` has the three blocks on top of each other, $(3H,H)$. Return
#
# - `d_inputs` $(B,3H)$: $\delta a^r, \delta a^z, \delta a^n$ side by side, which go to $W$, $b$ and $x_t$;
# - `d_states` $(B,3H)$: the same for what comes from the state, $\delta a^r, \delta a^z, \delta m$, which go to $U$ and $c$;
# - `d_before` $(B,H)$: what goes on to $h_{t-1}$.
#
# <details><summary>Hint</summary>
#
# The two differ in the last block only, because $r$ stands between $m$ and $a^n$. The three products with $U$ are one: `d_states @ U`.
#
# </details>


# %% exercise="gru-backward"
def gru_step_back(d_h, gates, h_before, U):
    """Return (d_inputs, d_states, d_before) of one step."""
    # BEGIN SOLUTION
    r, z, m, n, _ = gates
    d_an = d_h * (1 - z) * (1 - n**2)
    d_az = d_h * (h_before - n) * z * (1 - z)
    d_ar = d_an * m * r * (1 - r)
    d_states = torch.cat([d_ar, d_az, d_an * r], dim=1)
    return torch.cat([d_ar, d_az, d_an], dim=1), d_states, d_h * z + d_states @ U
    # END SOLUTION


# %% check="gru-backward" points=4
check.gru_backward_step(gru_step_back)

# %% [markdown]
# The walk over all steps is the RNN's, with this step in its middle. If yours is right, the three witnesses now judge *yours*.


# %%
def walk_back(x, h, gates, W, U, output_gradient):
    """Walk a GRU backwards with the reader's step; return every gradient."""
    d_inputs, d_states, d_h = [], [], torch.zeros_like(h[0])
    for t in reversed(range(len(x))):
        one = steps.GRUStep(*(part[t] for part in gates))
        inputs, states, d_h = gru_step_back(d_h + output_gradient[t], one, h[t], U)
        d_inputs.insert(0, inputs)
        d_states.insert(0, states)
    return gradients.collect(x, h, W, d_h, torch.stack(d_inputs), torch.stack(d_states))


mine = check.gru_backward_step.passed(gru_step_back)
gru_backward = walk_back if mine else gradients.gru_backward
print("backward by", "you" if mine else "the course")
if not mine:
    print("its source: gradients.gru_backward??, once you have tried")

# %%
three_checks(
    forward=lambda p: gradients.gru_forward(*p)[0][1:],
    backward=lambda p, g: gru_backward(
        p[0], *gradients.gru_forward(*p), p[2], p[3], output_gradient=g
    ),
    module=nn.GRU(3, 4).double(),
    blocks=3,
)

# %% [markdown]
# ### What the copy does to the gradient
#
# The same study as in the section on [vanishing and exploding gradients](#Vanishing-and-exploding,-measured), with a bias on the update gate: 0 is $z\approx\tfrac12$, 4 is $z\approx0.98$.


# %%
def gru_norms(radius, bias, seed=1):
    """Measured norms by lag of a GRU whose update gate has that bias."""
    generator = torch.Generator().manual_seed(seed)
    H, normal = P.units, lambda *shape: torch.randn(*shape, generator=generator).double()
    blocks = [jacobians.with_spectral_radius(normal(H, H), radius) for _ in range(3)]
    U, W = torch.cat(blocks), torch.eye(H).double().repeat(3, 1)
    b = torch.zeros(3 * H).double()
    b[H : 2 * H] = bias
    x = 0.1 * normal(P.steps, 1, H)
    h, gates = gradients.gru_forward(x, torch.zeros(1, H).double(), W, U, b, 0 * b)
    one = steps.GRUStep(*(part[:, 0] for part in gates))
    J = jacobians.gru_jacobians(h[:, 0], one, U)
    return jacobians.norms_by_lag(J)


def show_gru(radius, bias):
    """Compare an RNN and a GRU of the same radius."""
    curves = {"RNN": rnn_norms(radius)[0], f"GRU, bias of z {bias:g}": gru_norms(radius, bias)}
    draw.norms_by_lag(curves).set_title(f"ρ = {radius:.2f}")
    plt.show()


_ = interact(
    show_gru,
    radius=FloatSlider(0.8, min=0.2, max=3, step=0.1, description="radius"),
    bias=FloatSlider(4, min=-2, max=8, step=0.5, description="bias of z"),
)

# %% [markdown] claims="03-open-gate 03-closed-gate"
# With the gate nearly open for copying, the GRU's curve is almost flat where the RNN's falls off a cliff. Move the bias to −2: the GRU now overwrites most of its state at every step, as the RNN does all of it. Which of the two curves is then the lower? The slider draws one matrix; here are fifty, each with the reset gate as it is, about one half, and held near 1:

# %%
claims.evidence("03-closed-gate")

# %% [markdown]
# The GRU's is the lower, by fifteen powers of ten at $\rho=0.8$ and by nine at $\rho=1.5$. That is the reset gate's doing: it stands as a factor in what comes back through $U_n$ at every step, and $0.5^{60}$ is about $10^{-18}$. With it near 1 a factor of six to eight is left.
#
# ### Exercise 7: a half-life for the state
#
# *Difficulty ●○○, 5 minutes.* If $z$ were constant and the candidate 0, a state would keep the share $z^k$ of itself after $k$ steps. Which bias makes that one half after `steps` steps?
#
# <details><summary>Hint</summary>
#
# Solve $z^k=\tfrac12$ for $z$, then $\sigma(b)=z$ for $b$.
#
# </details>


# %% exercise="half-life"
def half_life(steps):
    """Return the bias of the update gate."""
    # BEGIN SOLUTION
    keep = 0.5 ** (1 / steps)
    return float(torch.logit(torch.tensor(keep, dtype=torch.float64)))
    # END SOLUTION


# %% check="half-life" points=1
check.bias_for_half_life(half_life)

# %% [markdown]
# Your bias for 40 steps, in the GRU of the study above. Its candidate is not 0, so that more than the state's own share may be left of the gradient:

# %%
if check.bias_for_half_life.passed(half_life):
    left = gru_norms(radius=0.8, bias=half_life(40))
    print(f"bias {half_life(40):.2f}: after 40 steps {left[40]:.2f} of the gradient is left")
else:
    print("Exercise 7 first")

# %% [markdown]
# ### Cut the walk
#
# A walk back over a long text must keep every step's values until it returns. *Truncated* backpropagation through time cuts the text into parts: each part starts from the state that the one before has left, as a mere number (`detach`), and the walk back ends there.
#
# > **Predict.** A loss reads the last of 60 states. The state is cut from its past after every 20 steps. Do the states change? Of how many inputs does the loss still have a gradient that is not 0?

# %%
states_change = Prediction("with the cuts, the states", None)  # "change" or "stay"
inputs_reached = Prediction("inputs with a gradient, cut every 20 steps", None)  # your number

# %%
sequence_in = torch.randn(P.steps, 1, P.units).double()


def reach_back(layer, part):
    """All states, and ‖∂L/∂x_t‖ for each t, with the state cut from its past every `part` steps."""
    x, h, states = sequence_in.clone().requires_grad_(), None, []
    for piece in x.split(part):
        out, h = layer(piece, h)
        states.append(out)
        h = h.detach()  # the number stays, the way back is gone
    (gradient,) = torch.autograd.grad(out[-1].sum(), x)
    return torch.cat(states), gradient.norm(dim=2)[:, 0]


def kept(layer, part):
    """Bytes that a forward pass over one part keeps for its way back, the weights not counted."""
    own = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    held = {}

    def note(tensor):
        memory = tensor.untyped_storage()  # several tensors may lie in one
        if memory.data_ptr() not in own:
            held[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(sequence_in[:part].clone())
    return sum(held.values())


# %%
_, ax = plt.subplots()
parts = {"whole": P.steps, "cut every 20": 20, "cut every 5": 5}
reached = {name: reach_back(patient, part) for name, part in parts.items()}
for (name, (_, norms)), marker in zip(reached.items(), "os^", strict=True):
    shown = norms.where(norms > 0, torch.nan)  # 0 has no place on this axis
    ax.semilogy(range(1, P.steps + 1), shown, label=name, marker=marker, markevery=5)
    print(f"{name:13} {int((norms > 0).sum()):3} of {P.steps} inputs have a gradient;", end=" ")
    print(f"the way back keeps {kept(patient, parts[name]) / 1e3:.0f} kB at a time")
ax.set(xlabel="step t of the input", ylabel="gradient of the loss by x at step t, norm")
ax.legend()
plt.show()
same = reached["whole"][0].equal(reached["cut every 20"][0])
states_change.answer("stay" if same else "change")
inputs_reached.answer(int((reached["cut every 20"][1] > 0).sum()))

# %% [markdown]
# (The network is the GRU with a bias raised, from the opening picture.) Where the gradient exists, it is the same with the cuts and without: the curves lie on each other. Before the cut it is exactly 0, not small. So these are two ways to lose a gradient: one that vanishes can be helped by a gate, one that was cut cannot. What is kept is counted above: a third of the values for a third of the steps. (That is so in training, where each part has a loss of its own, and its values are freed before the next part begins.)
#
# ## What are the gates for? Ask by taking them away
#
# A natural question: *why a reset gate, when the update gate can already discard the past?* On paper: with $z=0$ the old state is overwritten, but the candidate that overwrites it still reads $U_nh_{t-1}$; only $r$ can keep the past out of the candidate. Whether a network needs that is another question, and so are: why tanh, why a sigmoid? So measure. Every variant is trained with several seeds, on tasks made to separate them. Before training, the update gates' bias is that of exercise 7, for the half-life in the table (1 is PyTorch's own start, $z=\tfrac12$):
#
# | task | what it asks | units | training steps | half-life |
# |---|---|---|---|---|
# | forget on cue | ±1 comes in at each of 20 steps; which sign has the sum *since the last cue*? | 4 | 250 | 1 |
# | long copy | a symbol, then 39 distractors: which symbol was it? | 12 | 120 | 40 |
# | section of a package | the first 16 words of a Debian package's description: which of eight sections? | 24 | 300 | 16 |
#
# > **Predict.** For each of the first two tasks, with one gate taken away: which accuracy will the network without the reset gate reach, and which without the update gate? Guessing gives 0.5 and 0.25.

# %%
said = {
    (task, variant): Prediction(f"{task}, {variant}", None)  # accuracies, such as 0.5, for None
    for task in ("forget on cue", "long copy")
    for variant in ("without reset", "without update")
}
# for instance: said["long copy", "without reset"] = Prediction("long copy, without reset", 0.5)

# %%
compared = experiments.comparisons()
live = {"forget on cue": {}, "long copy": {}}


def run_live(task):
    """Train three variants on the task, several seeds each, and print their accuracy."""
    for variant in ("GRU", "without reset", "without update"):
        live[task][variant] = compared[task].run(variant, seeds=P.seeds)
        print(f"{task:14} {variant:15} {live[task][variant]}")
        if (task, variant) in said:
            said[task, variant].answer(live[task][variant].mean)


run_live("forget on cue")

# %%
run_live("long copy")

# %%
draw.intervals(live, chance={"forget on cue": 0.5, "long copy": 0.25})
plt.show()

# %% [markdown] claims="03-update-gate"
# A dot is a seed, the diamond their mean, the bar the 95 % interval of the mean (Student's $t$, cut off at 1, where accuracies end), the dotted line is guessing. One thing needs no statistics: with PyTorch's start, **without the update gate the long copy is not learned at all**.
#
# Here is what the records say, one change at a time, each variant against the full GRU with the same start, batches and test set:

# %%
asked = ("update-gate", "real-task", "relu")
for name in (*asked, "hard-sigmoid", "hard-sigmoid-start"):
    display(claims.evidence(f"03-{name}"))

# %% [markdown] claims="03-real-task 03-relu 03-hard-sigmoid 03-hard-sigmoid-start"
# "Holds" means: the 95 % interval of the paired difference leaves out zero, and the difference is large enough to count; "ties": the whole interval is too small to count; "open": these seeds do not decide.
#
# - **Why an update gate?** With PyTorch's start and without the gate, the long copy stays at chance, and the real task suffers. That does not make the gate *necessary*. What counts is the product of Jacobians, in the section on [vanishing and exploding gradients](#Vanishing-and-exploding,-measured): their norm must be near 1. A gate with the bias of exercise 7 is one way to have them; a plain tanh network with an *orthogonal* $U$ is another, and at three times the learning rate the full GRU learns the copy without the bias. (Both were tried over five to eight seeds, outside these records: try them.)
# - **Why a reset gate?** How much it helps depends on the size and on the training; no simple rule survived several seeds and rates. Others found it dispensable: Zhou et al. (2016) merge the two gates, Ravanelli et al. (2018) drop the reset gate.
# - **Why tanh?** With ReLU these seeds do not show a difference of the means: single seeds fail where with tanh none does.
# - **Why a sigmoid?** A hard sigmoid does as well, when it starts with the bias that gives *it* a half-life of 40. Started with the logistic function's bias it stays at chance, for a reason that you can compute: there it is exactly 1, with slope 0: the gate is stuck at *copy* and can never learn to overwrite.

# %%
for name, gate in steps.GATES.items():
    for of in steps.GATES:
        a = torch.tensor(experiments.half_life_bias(40, of), requires_grad=True)
        (slope,) = torch.autograd.grad(gate(a), a)
        print(f"{name:8} at the bias of {of:8} {a:.2f}: gate {gate(a):.4f}, slope {slope:.4f}")

# %% [markdown]
# ### Exercise 8: an ablation of your own
#
# *Difficulty ●●○, 15 minutes.* At a cue of the section on [the GRU](#The-GRU) both gates fell together. Then let one gate do both works: $r_t=z_t$, the rest of the equations as it is. ($W_r$, $U_r$, $b_r$, $c_r$ are then read by nobody.) Write the new state.
#
# `inputs` holds the input's three shares $W_rx_t+b_r$, $W_zx_t+b_z$, $W_nx_t+b_n$; `states` the state's three, $U_rh_{t-1}+c_r$, $U_zh_{t-1}+c_z$, $m_t$; `h` is $h_{t-1}$. Each has the shape $(\ldots,H)$: several seeds are trained at once, so keep to what works element by element.
#
# <details><summary>Hint</summary>
#
# `_, i_z, i_n = inputs` and `_, s_z, m = states`; then the last lines of exercise 5, with `z` in the place of `r`.
#
# </details>


# %% exercise="one-gate"
def one_gate(inputs, states, h):
    """Return h_t, of the shape of h, of a GRU whose update gate is its reset gate too."""
    # BEGIN SOLUTION
    (_, i_z, i_n), (_, s_z, m) = inputs, states
    z = torch.sigmoid(i_z + s_z)
    return (1 - z) * torch.tanh(i_n + z * m) + z * h
    # END SOLUTION


# %% check="one-gate" points=2
check.one_gate_for_both(one_gate)

# %% [markdown]
# > **Predict.** Trained as the three above, with the same seeds: by how much does the cell with one gate differ from the full GRU, in accuracy, on each task?

# %%
expected = {task: Prediction(f"{task}, one gate minus GRU", None) for task in live}
# for instance: expected["long copy"] = Prediction("long copy, one gate minus GRU", -0.1)

# %%
cells = {}
if check.one_gate_for_both.passed(one_gate):
    cells["one gate"] = one_gate
# an idea of your own: cells["my idea"] = my_cell, any function of inputs, states and h
for name, cell in cells.items():
    for task, others in live.items():
        scores = compared[task].run(cell, seeds=P.seeds)
        mean, low, high = scores.against(others["GRU"])
        print(f"{task:14} {name}: {scores}; minus the GRU's {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
        if name == "one gate":
            expected[task].answer(mean)
if not cells:
    print("no cell of yours is trained yet: exercise 8")

# %% [markdown]
# In brackets: the 95 % interval of the mean difference, seed by seed. Where it holds 0, these seeds do not tell your cell from the GRU: that is "not seen", not "the same". Set `seeds` to 16 in the parameters and run again. Then put a cell of your own into `cells`: no reset ($r=1$), a gate that is turned round ($r=1-z$), no squashing.
#
# ### The elder sibling
#
# The *LSTM* (Hochreiter & Schmidhuber 1997, its forget gate from Gers et al. 2000) keeps a second state, $c_t$, beside $h_t$. Its gates $i$, $f$, $o$ are computed like $r$ and $z$, and $g_t$ is a candidate that reads the whole $h_{t-1}$:
#
# $$c_t=f_t\circ c_{t-1}+i_t\circ g_t,\qquad h_t=o_t\circ\tanh(c_t).$$
#
# ### Exercise 9: a step of the LSTM
#
# *Difficulty ●●○, 10 minutes.* $i$, $f$ and $o$ are sigmoids, $g$ is a tanh, each of the sum of two shares. `inputs` holds the input's four shares, in PyTorch's order $i, f, g, o$ (the first is $W_ix_t+b_i$), `states` the state's four in the same order (the first is $U_ih_{t-1}+c_i$, with $c_i$ a bias), and `before` is $c_{t-1}$. Each has the shape $(\ldots,H)$: as in exercise 8, keep to what works element by element. Return $h_t$ and $c_t$, and leave what you are given as it is: the way back needs it.
#
# <details><summary>Hint</summary>
#
# `a_i, a_f, a_g, a_o = (of_x + of_h for of_x, of_h in zip(inputs, states))`. Then $c_t$ before $h_t$.
#
# </details>


# %% exercise="lstm-step"
def lstm_step(inputs, states, before):
    """Return (h_t, c_t), each of the shape of before."""
    # BEGIN SOLUTION
    a_i, a_f, a_g, a_o = (of_x + of_h for of_x, of_h in zip(inputs, states, strict=True))
    c = torch.sigmoid(a_f) * before + torch.sigmoid(a_i) * torch.tanh(a_g)
    return torch.sigmoid(a_o) * torch.tanh(c), c
    # END SOLUTION


# %% check="lstm-step" points=2
check.lstm_from_equations(lstm_step)

# %% [markdown]
# $f$ keeps, as $z$ does. The GRU ties the new to the old, $1-z$ and $z$; the LSTM has a gate $i$ of its own for the new. It has four blocks of weights where the GRU has three. With as many parameters it has fewer units:

# %%
for units in (12, 24):
    gru, lstm = (Reader(5, units, 4, lstm=other) for other in (False, True))
    for name, reader in (("GRU ", gru), ("LSTM", lstm)):
        count = sum(part.numel() for part in reader.parameters())
        print(f"{name} {reader.layer.hidden_size:2} units, {count} parameters")

# %% [markdown]
# Your step, trained on the long copy as the GRU was: the same seeds, batches, rate and number of steps. First with $f$ started at the half-life of 40 at which $z$ starts; then with $i$ started at $1-f$ besides, which the GRU's equation has by itself.
#
# > **Predict.** Which of the two starts, if any, reaches the GRU's accuracy on the long copy?

# %%
reaches = Prediction("the GRU's accuracy is reached by", None)  # "neither", "f", "f, i" or "both"

# %%
if check.lstm_from_equations.passed(lstm_step):
    print(f"{'GRU':8} {live['long copy']['GRU']}")
    reached_by = []
    for name, start in (("f", {}), ("f, i", {"coupled": True})):
        scores = compared["long copy"].run({"lstm": lstm_step, **start}, seeds=P.seeds)
        mean, low, high = scores.against(live["long copy"]["GRU"])
        print(f"{name:8} {scores}; minus the GRU's {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
        reached_by += [name] * (mean > -0.02)
    reaches.answer("both" if len(reached_by) == 2 else "".join(reached_by) or "neither")
else:
    print("LSTM  –: exercise 9 first")

# %% [markdown]
# The records hold both on the tasks above (*forget on cue* with 24 units in place of 4, the long copy also three times as long), with the seeds, batches, rate and number of steps of the GRU, and $f$ started at the half-life at which $z$ starts:

# %%
for name in ("lstm", "lstm-start", "lstm-input"):
    display(claims.evidence(f"03-{name}"))

# %% [markdown] claims="03-lstm 03-lstm-start 03-lstm-input"
# - With $f$ at PyTorch's start, one half, the LSTM does not learn the long copy, as the GRU did not with $z$ at one half.
# - With $f$ at a half-life of 40 it learns part of it, and stays behind the GRU, also when trained three times as long. On the other two tasks these seeds do not show it behind.
# - Is that the LSTM, or its start again? $i$ still starts at one half, so at each step about half a candidate is added to $c$. Start $i$ at $1-f$ too, which the GRU's equation does by itself: with 10 units the LSTM then copies better; with 20 these seeds do not decide. With it the LSTM was not set beside the GRU again, so that a part of the question stays open.

# %% [markdown]
# ## What it costs
#
# The GRU of this course is plain PyTorch, and near to `nn.GRU`. One detail decides: how a step gets its slice of `gi`, the input's share of all gates for all steps, a $(T, B, 3H)$ tensor. The plain way is `gi[t]`.

# %%
T, B, H = 100, 32, 128
library, mine = nn.GRU(H, H), layers.GRU(H, H)
mine.load_state_dict(library.state_dict())
x = torch.randn(T, B, H, requires_grad=True)


def scan(slices):
    """Run over the slices of gi that `slices` yields; return all states."""
    W, U, b, c = mine.weights()
    h, out = torch.zeros(B, H), []
    for gi_t in slices(x @ W.T + b):
        h = mine.step(gi_t, h, U.T, c)
        out.append(h)
    return torch.stack(out)


ways = {
    "nn.GRU": lambda: library(x)[0],
    "our GRU": lambda: mine(x)[0],
    "slices by gi[t]": lambda: scan(lambda gi: (gi[t] for t in range(T))),
}


# %%
def in_turn(ways):
    """Time each way forward and backward, and print the medians beside nn.GRU's."""
    taken = {name: [] for name in ways}
    for _ in range(P.repeats):  # interleaved: a busy moment hits all of them alike
        for name, way in ways.items():
            first = int(not taken[name])  # a run that does not count
            work = lambda w=way: w().sum().backward()  # noqa: E731
            taken[name].append(measure(work, repeats=1, warmup=first).median)
    middle = {name: sorted(samples)[len(samples) // 2] for name, samples in taken.items()}
    for name, value in middle.items():
        print(f"{name:20} {value * 1e3:7.1f} ms   {value / middle['nn.GRU']:.2f} of nn.GRU")


in_turn(ways)

# %% [markdown] claims="03-slices 03-our-gru"
# Why does `gi[t]` cost so much more? The times are of forward and backward together, in the cell and in the record. Forward, `gi[t]` is a view, which copies nothing. **Backward**, the gradient of *one* view is a tensor as large as `gi`, zero but for its slice, and $T$ of these are added up: $T\cdot T B\,3H$ numbers instead of $T B\,3H$. Count the bytes:

# %%
full = T * B * 3 * H * 4  # bytes of gi in float32
print(
    f"gi holds {full / 1e6:.1f} MB; backward through gi[t] writes {T} times that, {T * full / 1e9:.2f} GB"
)

# %% [markdown]
# ### Exercise 10: cut it once
#
# *Difficulty ●●○, 10 minutes.* Return the $T$ slices of `gi`, each $(B, 3H)$, in the order of the steps, such that the way back writes the numbers of `gi` a few times and not $T$ times. The check counts what is written. (Leave `gi` as it is, and let the gradient through.)
#
# <details><summary>Hint</summary>
#
# Every `gi[t]` is an operation of its own, with a way back of its own. Look in PyTorch's documentation, under *Indexing, Slicing, Joining*, for one operation that returns all slices.
#
# </details>


# %% exercise="cut"
def cut(gi):
    """Return the T slices (B, 3H) of gi (T, B, 3H)."""
    # BEGIN SOLUTION
    return gi.unbind(0)
    # END SOLUTION


# %% check="cut" points=2
check.cut_at_once(cut)

# %%
if check.cut_at_once.passed(cut):
    in_turn({**ways, "slices by your cut": lambda: scan(cut)})
else:
    print("slices by your cut –: exercise 10 first")

# %% [markdown]
# `unbind` (and `split`) is one operation with $T$ outputs: its way back stacks the $T$ slices once.

# %% [markdown]
# ## What breaks
#
# Two conventions of the update gate are in use, each other's complement: $z$ keeps the old state here, in PyTorch and in Cho et al. (2014); in Chung et al. (2014) and Yang et al. (2016) $1-z$ keeps it. Run one paper's step with weights that were trained under the other: every shape fits, nothing warns, and the network keeps what it should replace.


# %%
def step_of_yang(x, h, W, U, b, c):
    """One GRU step as Yang et al. (2016) write it: z takes the new, 1 − z keeps the old."""
    i_r, i_z, i_n = (x @ W.T + b).chunk(3, dim=1)
    s_r, s_z, m = (h @ U.T + c).chunk(3, dim=1)
    r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
    return (1 - z) * h + z * torch.tanh(i_n + r * m)


# %% [markdown]
# ### Exercise 11: from one convention to the other
#
# *Difficulty ●○○, 5 minutes.* `W`, `U`, `b`, `c` belong to a GRU whose $z$ keeps the old state; their blocks are stacked as in the section on [the GRU](#The-GRU). Return four tensors with which `step_of_yang` does the same. Leave those that you are given as they are: they are still in use.
#
# <details><summary>Hint</summary>
#
# $1-\sigma(a)=\sigma(-a)$. Which rows of the four make up the update gate's $a$?
#
# </details>


# %% exercise="to-yang"
def to_yang(W, U, b, c):
    """Return W, U, b, c for step_of_yang."""
    # BEGIN SOLUTION
    H, turned = U.shape[1], [part.clone() for part in (W, U, b, c)]
    for part in turned:
        part[H : 2 * H] *= -1
    return turned
    # END SOLUTION


# %% check="to-yang" points=1
check.weights_for_yang(to_yang)

# %% [markdown]
# The weights of `nn.GRU` above, in `step_of_yang`: as they are, and as you turn them.

# %%
x, weights = torch.randn(20, 4, H), [part.detach().clone() for part in library.parameters()]
wanted = library(x)[0]
turned = to_yang(*weights) if check.weights_for_yang.passed(to_yang) else None
for what, parts in (("conventions mixed", weights), ("turned by you", turned)):
    if parts is None:
        print(f"{what}: –, exercise 11 first")
        continue
    states = by_steps(lambda x_t, h, *_, parts=parts: step_of_yang(x_t, h, *parts), library, x)
    print(f"{what}: off by {(states - wanted).abs().max().item():.0e}")

# %% [markdown]
# The cure is one sign. A second difference has none: Cho et al. apply the reset gate before the product, $U_n(r\circ h)$, PyTorch (and the section on [the GRU](#The-GRU)) after it, $r\circ(U_nh+c_n)$. Weights of one are no weights of the other.

# %% [markdown]
# ## What the sources say, what we measured
#
# | the sources say | here |
# |---|---|
# | an average suits push-ups, savings with interest need a summary in which order counts | [summaries](#A-summary-in-which-order-counts): the same mean, two balances |
# | unrolled, the gradient holds $(g'U)^{n-1}$; a norm above 1 *will* explode, below 1 *will* vanish | [vanishing and exploding gradients](#Vanishing-and-exploding,-measured): below 1 it does vanish. Above 1 is necessary, not sufficient: at $\rho(U)=1$ the norm of $U$ is above 1 and the gradient does not grow, the same matrices with $\rho=2$ explode or not depending on the input, and the power is a product of differing Jacobians |
# | the recursion $\alpha_t = g'\cdot(x_t+U\alpha_{t-1})$ | [the RNN's backward pass](#The-plain-RNN,-backward): equal to autograd, digit for digit; unrolled, $C$ and the last term, $(g'U)^{n-1}\alpha_0$, add up to the same, with $\alpha_0=0$ and with $\alpha_0=1$ |
# | $z=1$ copies; $r=1$, $z=0$ is the plain RNN | [the GRU](#The-GRU): exactly, and to rounding |
# | units with a short memory have reset gates close to 1, and forget | [the GRU](#The-GRU): the contrary follows from the equation, and is what the exact check shows: $r=0$ forgets. The paper's word is "active", not "close to 1" |
# | why a reset gate beside an update gate? no answer found | [what gates are for](#What-are-the-gates-for?-Ask-by-taking-them-away): with PyTorch's start long copying needs the update gate; an orthogonal $U$ can stand in for it. How much the reset gate helps depends on size and training |
# | ReLU "in theory", tanh "just performs better"; sigmoid "no formal justification" | [what gates are for](#What-are-the-gates-for?-Ask-by-taking-them-away): these seeds do not settle it in favour of tanh; a hard sigmoid does as well with its own bias, and is stuck with another's |
#
# ## Summary
#
# - An RNN and a GRU are five lines of equations; their gradients are ten, and three witnesses agree with them.
# - A gradient over $k$ steps is a product of $k$ Jacobians. Norms below 1 make it vanish; norms above 1 only permit it to grow. Clipping cures explosion, not vanishing.
# - Truncated backpropagation cuts the gradient at a step, exactly; the states stay what they were.
# - The update gate's copy is a path without a matrix: one way to have Jacobians of norm near 1.
# - A difference between two networks is a claim about seeds: show the interval.
#
# **In practice**: `torch.nn.GRU` (cuDNN on GPUs), `torch.nn.utils.clip_grad_norm_`; for long sequences today mostly attention or state-space layers, whose state is again a gated linear recurrence.
#
# **References**
# - Cho et al. (2014), *Learning phrase representations using RNN encoder-decoder*: the GRU.
# - Werbos (1990), *Backpropagation through time*: the walk backwards.
# - Pascanu, Mikolov & Bengio (2013), *On the difficulty of training recurrent neural networks*: vanishing, exploding, clipping; why the condition is necessary only.
# - Tallec & Ollivier (2018), *Can recurrent neural networks warp time?*: biases of gates as time scales.
# - Chung et al. (2014), *Empirical evaluation of gated recurrent neural networks*: the other convention of $z$.
# - Hochreiter & Schmidhuber (1997), *Long short-term memory*; Gers, Schmidhuber & Cummins (2000), *Learning to forget*: the LSTM and its forget gate.
# - Williams & Peng (1990), *An efficient gradient-based algorithm for on-line training of recurrent network trajectories*: the walk back cut short.
# - Zhou et al. (2016), *Minimal gated unit*; Ravanelli et al. (2018), *Light gated recurrent units*: without a reset gate.
# - Sompolinsky, Crisanti & Sommers (1988), *Chaos in random neural networks*: what $\rho>1$ does without and with input.
#
# **Next**: [04_hierarchical_attention](04_hierarchical_attention.ipynb) stacks two of these GRUs and reads documents with them. Nothing to tear down: this notebook started no ranks.
