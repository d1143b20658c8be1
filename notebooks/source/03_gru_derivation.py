# %% [markdown]
# # Derive a GRU, and find out what its gates are for
#
# At the end you will have written a [recurrent network](glossary.md#recurrent-network) and a [GRU](glossary.md#gru), computed their gradients through time by hand, and measured what gates do.

# %%
import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatSlider, interact
from torch import nn

from helpers.plots import recurrent as draw
from helpers.plots import style

style.use()


def remember(bias):
    torch.manual_seed(0)
    x, h0 = torch.randn(60, 1, 32).double(), torch.randn(1, 1, 32).double()
    layers = {kind.__name__: kind(32, 32).double() for kind in (nn.RNN, nn.GRU)}
    layers[f"GRU, bias {bias:+g}"] = patient = nn.GRU(32, 32).double()
    patient.load_state_dict(layers["GRU"].state_dict())
    patient.bias_ih_l0.data[32:64] += bias  # of the update gate
    with torch.no_grad():
        gaps = {name: layer(x, h0)[0] - layer(x)[0] for name, layer in layers.items()}
    draw.forgetting({name: gap.norm(dim=2)[:, 0] / h0.norm() for name, gap in gaps.items()})
    plt.show()


# %%
_ = interact(remember, bias=FloatSlider(4, min=-2, max=8, step=1, continuous_update=False))

# %% [markdown]
# Three untrained networks read the same inputs twice, from two starting states. Each curve shows how much of the difference between the states is left: what that network remembers of its start. The RNN forgets first, PyTorch's GRU later. The same GRU with one bias raised by 4 still remembers after 60 steps. Move the slider: how much must the bias be raised? (Below $10^{-16}$ there is only rounding.) You will see why the curves are nearly straight, and what that bias does.
#
# **You will be able to**
#
# - write a plain RNN and a GRU that agree with `torch.nn` to rounding;
# - derive the gradients of both ([backpropagation through time](glossary.md#backpropagation-through-time)) and check them in three ways;
# - predict when a gradient [vanishes](glossary.md#vanishing-gradient) or [explodes](glossary.md#exploding-gradient);
# - compare two networks fairly, over learning rates and seeds;
# - say why a linear recurrence needs $\log_2 T$ steps in sequence instead of $T$.
#
# **You need** matrix calculus and PyTorch; for the last two experiments, [01](01_mpi_basics.ipynb), [05](05_cuda_tiling.ipynb) and [15](15_cuda_threads_that_meet.ipynb) help. *Time:* 150 minutes: 5 until the end of the set-up, then lessons of 43, 50 and 52, exercises included. Each lesson runs after the set-up, without the others. *Cores:* one is enough. *GPU:* none; lesson 3's scan needs a C++ compiler.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape |
# |---|---|---|
# | $T, B, I, H$ | steps, sequences in a batch, inputs, units | numbers |
# | $x_t$ | input at step $t$ | $(B, I)$ |
# | $h_t$ | [hidden state](glossary.md#hidden-state) after step $t$; $h_0$ is given | $(B, H)$ |
# | $a_t$ | argument of tanh or of the sigmoid $\sigma$ | $(B, H)$ |
# | $r_t, z_t, m_t, n_t$ | the GRU's reset gate, update gate, memory, candidate | $(B, H)$ |
# | $W, b$ | weights and bias on the input | $(G H, I)$, $(G H)$ |
# | $U, c$ | weights and bias on the state | $(G H, H)$, $(G H)$ |
# | $G$ | blocks in $W$, $U$, $b$, $c$: 1 for the RNN, 3 for the GRU | number |
# | $\circ$ | elementwise product | |
# | $\delta a$ | $\partial L/\partial a$, the gradient of the loss $L$ | as $a$ |
# | $\rho(U)$, $\lVert U\rVert_2$ | [spectral radius](glossary.md#spectral-radius) (largest $\lvert$eigenvalue$\rvert$), spectral norm (largest stretch) | numbers |
#
# Equations act on one sequence as a column, $Wx_t$; the code holds a batch in rows and writes `x @ W.T`. Here $z=1$ *keeps* the old state, as in PyTorch and Cho et al. (2014). Chung et al. (2014) and Yang et al. (2016) swap $z$ and $1-z$; no error warns of weights from the other convention.

# %% [markdown]
# ## Set-up

# %%
import inspect
from dataclasses import dataclass

from IPython.display import Code, display
from ipywidgets import IntSlider

from helpers import claims, records
from helpers.exercises import recurrent as check
from helpers.paths import BENCH_RECORDS
from helpers.predictions import Prediction
from helpers.recurrent import experiments, gradients, jacobians, layers, steps
from helpers.timing import measure

torch.set_num_threads(1)  # a step is too small to share


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    """Sizes of this notebook's runs."""

    matrices: int = 25  # random U of each curve
    seeds: int = 4  # runs of each variant, trained at once


P = Parameters()

# %% [markdown]
# ## Lesson 1. How does a gradient travel back through time, and how much of it arrives?
#
# *43 minutes.* A recurrent network reads a sequence step by step. How do we differentiate it, and what is left of a gradient after 60 steps back?
#
# ### A summary in which order counts
#
# A mean ignores order; a savings account does not. At the start of five years, put 100, 200, 300, 400 and 500 into an account that pays 5 % interest at each year's end.
#
# > **Predict.** Make the same deposits in the opposite order. By how much does the final balance change?

# %%
apart = Prediction("difference of the two balances", None)  # your number for None

# %%
deposits, rate = torch.tensor([100.0, 200.0, 300.0, 400.0, 500.0]), 0.05


def balance(deposits):
    """What the account holds at the end of the last year."""
    h = torch.zeros(())
    for x_t in deposits:
        h = (1 + rate) * (h + x_t)  # this year's deposit joins, then interest is paid
    return h.item()


for name, row in (("as they came", deposits), ("reversed", deposits.flip(0))):
    print(f"{name:13} mean {row.mean():.2f}   balance {balance(row):.2f}")
apart.answer(balance(deposits.flip(0)) - balance(deposits))

# %% [markdown]
# The balance is a *recurrence*: a state $h$, updated by the same rule at each step. A recurrent network is such a rule with learned weights and a squashing function,
#
# $$h_t = \tanh(W x_t + b + U h_{t-1} + c).$$
#
# One step is one line of PyTorch. We compare a layer that repeats it with `nn.RNN`:

# %%
display(Code(inspect.getsource(steps.rnn_step), language="python"))
reference = nn.RNN(3, 5)
ours = layers.RNN(3, 5)
ours.load_state_dict(reference.state_dict())  # the same names, the same layout
x = torch.randn(7, 2, 3)  # (T, B, I)
print(f"largest difference: {(ours(x)[0] - reference(x)[0]).abs().max():.1g}")

# %% [markdown]
# ### Forward: carry a derivative along
#
# Take one unit, $h_t=\tanh(w x_t + u h_{t-1})$, and three inputs. What is $\partial h_3/\partial w$? Let $\alpha_t=\partial h_t/\partial w$. The slope of tanh is $1-\tanh^2$, and $h_{t-1}$ depends on $w$ too, so the chain rule gives a recurrence:
#
# $$\alpha_t = (1-h_t^2)\,\big(x_t + u\,\alpha_{t-1}\big).$$

# %%
w, u, inputs = torch.tensor(0.5, requires_grad=True), 0.9, (1.0, -0.5, 2.0)
h, alpha = torch.zeros(()), 0.0
for t, x_t in enumerate(inputs, start=1):
    h = torch.tanh(w * x_t + u * h)
    slope = 1 - h.item() ** 2
    alpha = slope * (x_t + u * alpha)
    print(f"t={t}  h={h.item():+.4f}  slope={slope:.4f}  alpha={alpha:+.6f}")
print(f"autograd:{torch.autograd.grad(h, w)[0]:+36.6f}")

# %% [markdown]
# Insert $\alpha_2$ and $\alpha_1$ into the equation of $\alpha_3$: the contribution of the input $k$ steps back has $k$ factors $(1-h_s^2)\,u$. With many units each factor is a matrix.
#
# ### Backward: carry one vector for all weights
#
# The forward recursion needs one $\alpha$ for every weight. *Backpropagation through time* walks the other way and carries one vector, $\delta h_t$. It has two parts, from the loss directly and from step $t+1$:
#
# $$\delta h_t = \underbrace{\left.\frac{\partial L}{\partial h_t}\right|_{\text{output}}}_{\text{from the loss}} + \underbrace{U^\top\delta a_{t+1}}_{\text{from step } t+1},\qquad
# \delta a_t = \delta h_t\circ(1-h_t^2).$$
#
# Every step uses the same $W$, $U$, $b$ and $c$, so their gradients are sums over the steps:
#
# $$\delta W=\sum_t \delta a_t\,x_t^\top,\quad \delta U=\sum_t \delta a_t\,h_{t-1}^\top,\quad \delta b=\delta c=\sum_t\delta a_t,\quad \delta x_t=W^\top\delta a_t.$$
#
# ### Exercise 1: one step back
#
# *Difficulty ●●○, 8 minutes.* Given $\delta h_t$, $h_t$, $h_{t-1}$ (each $(B,H)$) and $U$, return $\delta a_t$; the part of $\delta h_{t-1}$ that step $t$ passes back; and step $t$'s contribution to $\delta U$ (over the whole batch). Leave the tensors that you are given unchanged.
#
# <details><summary>Hint</summary>
#
# Rows are sequences, so $U^\top\delta a$ becomes `d_a @ U`. For $\delta U$, sum the outer products over the batch.
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


# %%
def rnn_walk_back(x, h, W, U, output_gradient):
    """Backpropagation through time with your step; until it is right, with the course's."""
    if not check.rnn_backward_step.passed(backward_step):
        return gradients.rnn_backward(x, h, W, U, output_gradient=output_gradient)
    d_as, d_h = [], torch.zeros_like(h[0])
    for t in reversed(range(len(x))):
        d_a, d_h, _ = backward_step(d_h + output_gradient[t], h[t + 1], h[t], U)
        d_as.insert(0, d_a)
    d_a = torch.stack(d_as)
    return gradients.collect(x, h, W, d_h, d_a, d_a)


gradients.three_checks(
    forward=lambda p: gradients.rnn_forward(*p)[1:],
    backward=lambda p, g: rnn_walk_back(p[0], gradients.rnn_forward(*p), p[2], p[3], g),
    module=nn.RNN(3, 4).double(),
)

# %% [markdown]
# Each column is a witness; each number is its largest difference from the gradient by hand. It is about $10^{-15}$, the rounding of float64, or a few $10^{-9}$ for finite differences.
#
# ### What is left after 60 steps?
#
# The influence of $h_{T-k}$ on $h_T$ is a product of $k$ *Jacobians*, each at its own state:
#
# $$\frac{\partial h_T}{\partial h_{T-k}}=\prod_{s=T}^{T-k+1}\operatorname{diag}(1-h_s^2)\,U,\qquad
# \left\lVert\frac{\partial h_T}{\partial h_{T-k}}\right\rVert_2\le\lVert U\rVert_2^{\,k}.$$
#
# The bound holds because the slope of tanh is at most 1. If $\lVert U\rVert_2<1$, it proves that the gradient vanishes; otherwise it proves nothing.
#
# > **Predict.** $U$ is random, 32 × 32, scaled to a spectral radius of 0.5, 1 or 2. Inputs are normal random numbers times 0.1 or 2 (their *size*). What is left of the gradient after 60 steps at radius 0.5, with small inputs? At radius 2, does it explode with small inputs? With large ones?

# %%
left_at_half = Prediction("left after 60 steps at radius 0.5", None)  # such as 1e-3
# "explodes", "stays" or "vanishes":
small_inputs = Prediction("what it does at radius 2, inputs of size 0.1", None)
large_inputs = Prediction("what it does at radius 2, inputs of size 2", None)


# %%
def typical(radius, input_size):
    """The median over random matrices of norms by lag and of their bounds."""
    drawn = [jacobians.random_rnn(radius, input_size, seed) for seed in range(P.matrices)]
    return [torch.stack(part).median(dim=0).values for part in zip(*drawn, strict=True)]


settings = ((0.5, 0.1), (1, 0.1), (2, 0), (2, 0.1), (2, 2))
curves = {(radius, x): typical(radius, x) for radius, x in settings}
draw.radius_and_input(curves)
plt.show()
for (radius, _), (_, bound) in list(zip(settings, curves.values(), strict=True))[:3]:
    print(f"ρ(U) = {radius:g}: median ‖U‖ = {bound[1]:.2f}")
ends = [float(curve[0][-1]) for curve in curves.values()]
left_at_half.answer(ends[0])
for said, end in ((small_inputs, ends[3]), (large_inputs, ends[4])):
    said.answer("explodes" if end > 10 else "vanishes" if end < 0.1 else "stays")

# %% [markdown] claims="03-norm-above-one 03-input-tames"
# Each curve is the median over random matrices. In the left panel only the radius differs; a dashed line bounds the curve of its colour. At $\rho=0.5$ the gradient vanishes along a nearly straight line: each factor keeps about the same share. At $\rho=1$ it does not explode, although $\lVert U\rVert$ is above 1: a high power of a matrix follows its spectral *radius*, not its norm.
#
# In the right panel only the input differs. Without input the state stays at 0, where the slope of tanh is 1, and the gradient explodes like $U^k$. Inputs of size 0.1 slow the explosion. Inputs of size 2 drive the states into *saturation*, towards ±1, where tanh is flat: the gradient vanishes. In the second record below, *fails* means that the gradient explodes. At $\rho=3$ it does so even with inputs of size 2.

# %%
for name in ("03-norm-above-one", "03-input-tames"):
    display(claims.evidence(name))

# %% [markdown]
# One often reads that the gradient explodes if the norm of $\operatorname{diag}(1-h^2)\,U$ is above 1. That is **necessary, not sufficient**: the first matrix below has norm 5, and its square is zero. The radius of $U$ does not decide either. The second matrix has radius 0: its square is zero. Saturate its second unit, so that the slope of tanh there is $\varepsilon\approx 0$. Each factor becomes $\operatorname{diag}(1,\varepsilon)\,U$, and the product grows:

# %%
norm = torch.linalg.matrix_norm
U = torch.tensor([[0.0, 5.0], [0.0, 0.0]])
print(f"first matrix:  norm {norm(U, 2):.1f}, norm of its square {norm(U @ U, 2):.1f}")

U = 1.5 * torch.tensor([[1.0, -1.0], [1.0, -1.0]]).double()
factor = torch.diag(torch.tensor([1.0, 1e-6]).double()) @ U
for name, matrix in (("second matrix:", U), ("its factor:", factor)):
    radius = torch.linalg.eigvals(matrix).abs().max()
    grown = norm(torch.linalg.matrix_power(matrix, 60), 2)
    print(f"{name:14} radius {radius:.2f}, norm of the product of 60 factors: {grown:.1g}")

# %% [markdown]
# ### Clipping helps against explosion only
#
# [Clipping](glossary.md#gradient-clipping) shortens a gradient $g$ that is longer than a limit $\ell$ to $g\,\ell/\lVert g\rVert$. Take one unit, $h_t=u\,h_{t-1}$ with $h_0=1$, so $h_{20}=u^{20}$. The loss $(u^{20}-1)^2$ asks for $h_{20}=1$. The cell trains $u$ for 100 steps, without a limit (*inf*) and with $\ell=1$:

# %%
for start in (1.3, 0.5):
    for limit in (torch.inf, 1.0):
        u = torch.tensor(start, requires_grad=True)
        for _ in range(100):
            ((u**20 - 1) ** 2).backward()
            torch.nn.utils.clip_grad_norm_([u], limit)
            u.data -= 0.01 * u.grad
            u.grad = None
        loss = (u.item() ** 20 - 1) ** 2
        print(f"from u = {start}, limit {limit:3}: u = {u.item():.3f}, loss {loss:.2g}")

# %% [markdown]
# From $u=1.3$ the gradient explodes: without clipping the loss overflows (*nan*), with clipping $u$ comes close to 1. From $u=0.5$ it vanishes: $u$ hardly moves, clipped or not.
#
# **Answer.** Each step back multiplies the gradient by $\operatorname{diag}(1-h_t^2)$ and $U^\top$, and adds its contribution to every weight's gradient. The product of the Jacobians decides whether the gradient vanishes or explodes. A norm of $U$ below 1 makes it vanish; otherwise neither the norm nor the radius of $U$ decides. *Evidence: three witnesses, curves over random matrices, two 2 × 2 counterexamples.*

# %% [markdown]
# ## Lesson 2. What does a gate do to the gradient?
#
# *50 minutes.* The plain RNN multiplies its state by a matrix at each step. A *gated recurrent unit* lets the data decide what is kept.
#
# ### The equations
#
# A GRU computes two *gates* from input and state: the [reset gate](glossary.md#reset-gate) and the [update gate](glossary.md#update-gate). Each gate holds a number between 0 and 1 for every unit.
#
# $$\begin{aligned}
# r_t&=\sigma(W_rx_t+b_r+U_rh_{t-1}+c_r) &&\text{reset gate}\\
# z_t&=\sigma(W_zx_t+b_z+U_zh_{t-1}+c_z) &&\text{update gate}\\
# m_t&=U_nh_{t-1}+c_n &&\text{memory}\\
# n_t&=\tanh(W_nx_t+b_n+r_t\circ m_t) &&\text{candidate}\\
# h_t&=(1-z_t)\circ n_t+z_t\circ h_{t-1} &&\text{new state}
# \end{aligned}$$
#
# The [candidate](glossary.md#candidate) $n_t$ is the new state of a plain RNN, except that $r_t$ scales what it sees of the past. Then $z_t$ mixes the candidate with the old state.
#
# The GRU below has four units. It has been trained to tell whether the sum of the numbers $+1$ and $-1$ that it reads is positive; a *cue* starts the sum anew. In a gate's cell the blue bar is as long as the value. Elsewhere bars start in the middle, purple above 0 and orange below. **Move the slider:** at a cue all bars of $z$ are short, so little of the old state is kept.

# %%
small, sequence, signs = experiments.one_that_forgets(seed=1)
with torch.no_grad():
    gates = small.trace(sequence)
print("numbers:", *(f"{value:+.0f}" for value in signs[0]), "   cues at steps", *signs[1])
before = torch.cat([torch.zeros(1, 1, 4), gates.state[:-1]])


def show_step(t):
    """Draw step t with its numbers."""
    now = steps.GRUStep(*(part[t - 1, 0] for part in gates))
    x, cue = sequence[t - 1, 0].tolist()
    title = f"step {t} of {len(sequence)}, {'with' if t in signs[1] else 'without'} a cue"
    draw.gru_step(now, {"number": x, "cue": cue}, before[t - 1, 0], title)
    plt.show()


_ = interact(show_step, t=IntSlider(9, min=1, max=len(sequence), description="step t"))

# %% [markdown]
# ### Exercise 2: write it
#
# *Difficulty ●●○, 8 minutes.* Turn the equations into code, with PyTorch's operations throughout. `W`, `U`, `b`, `c` hold their three blocks on top of each other: reset, update, candidate.
#
# <details><summary>Hint</summary>
#
# `(x @ W.T + b).chunk(3, dim=1)` returns the input's contribution to each of the three.
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
# A bias of ±200 makes the sigmoid *equal* to 0 or 1 in float32. Three special cases:

# %%
mine = check.gru_from_equations.passed(my_gru_step)
print("the step is", "yours" if mine else "still the course's: exercise 2")
W, U, c = torch.randn(12, 3), torch.randn(12, 4), torch.randn(12)
x, h, other = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4)


def held(reset, update, h):
    """h_t of a GRU whose gates are held at 0 or 1 by their biases."""
    b = torch.zeros(12)
    b[:4], b[4:8] = 400 * reset - 200, 400 * update - 200
    return my_gru_step(x, h, W, U, b, c) if mine else steps.gru_step(x, h, W, U, b, c).state


plain = steps.rnn_step(x, h, W[8:], U[8:], torch.zeros(4), c[8:])
for name, got, due in (
    ("z=1 copies", held(reset=0, update=1, h=h), h),
    ("r=1, z=0 is the RNN", held(reset=1, update=0, h=h), plain),
    ("r=0, z=0 forgets", held(reset=0, update=0, h=h), held(reset=0, update=0, h=other)),
):
    print(f"{name:20} off by {(got - due).abs().max():.0e}")

# %% [markdown]
# All three hold up to rounding. In the third, two old states give the same new state: a reset gate forgets at 0, not at 1.
#
# ### Backward
#
# Walk through the five equations from the last to the first. The equation of the new state yields
#
# $$\delta n_t=\delta h_t\circ(1-z_t),\qquad \delta z_t=\delta h_t\circ(h_{t-1}-n_t).$$
#
# With $a^n$, $a^z$ and $a^r$ for the arguments of tanh and the two sigmoids,
#
# $$\delta a^n_t=\delta n_t\circ(1-n_t^2),\qquad \delta a^z_t=\delta z_t\circ z_t\circ(1-z_t),\qquad \delta m_t=\delta a^n_t\circ r_t.$$
#
# The reset gate acts inside tanh, so its gradient continues from $\delta a^n$:
#
# $$\delta a^r_t=\delta a^n_t\circ m_t\circ r_t\circ(1-r_t).$$
#
# Take a pencil: which four paths lead from $h_t$ back to $h_{t-1}$, and which matrix, if any, lies on each? Then compare:
#
# <details><summary>The four paths</summary>
#
# $$\delta h_{t-1}\;\mathrel{+}=\;\underbrace{z_t\circ\delta h_t}_{\text{the copy}}+U_r^\top\delta a^r_t+U_z^\top\delta a^z_t+U_n^\top\delta m_t.$$
#
# </details>
#
# One path is the *copy* $z_t\circ\delta h_t$, which the plain network lacks. **No weight matrix lies on it**: it is a *residual connection*. Where $z_t=1$, the gradient passes it unchanged.
#
# ### Exercise 3: one step of the GRU, backward
#
# *Difficulty ●●●, 15 minutes.* Write this step from its equations, without autograd. `d_h` is the whole $\delta h_t$, and `h_before` is $h_{t-1}$. `gates` has `.reset`, `.update`, `.memory`, `.candidate` of this step, each $(B,H)$; `U` has the three blocks on top of each other, $(3H,H)$. Return
#
# - `d_inputs` $(B,3H)$: $\delta a^r, \delta a^z, \delta a^n$ side by side, for $W$, $b$ and $x_t$;
# - `d_states` $(B,3H)$: $\delta a^r, \delta a^z, \delta m$ side by side, for $U$ and $c$;
# - `d_before` $(B,H)$: what is passed back to $h_{t-1}$.
#
# Leave the tensors that you are given unchanged.
#
# <details><summary>Hint</summary>
#
# `d_inputs` and `d_states` differ in the last block only, because $r$ stands between $m$ and $a^n$. The three products with $U$ are one: `d_states @ U`.
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


# %%
mine = check.gru_backward_step.passed(gru_step_back)
print("backward by", "you" if mine else "the course (its source: gradients.gru_backward??)")


def gru_backward(*parts, **loss):
    """Walk back with your step; until it is right, with the course's."""
    if mine:
        return gradients.walk_back(gru_step_back, *parts, **loss)
    return gradients.gru_backward(*parts, **loss)


gradients.three_checks(
    forward=lambda p: gradients.gru_forward(*p)[0][1:],
    backward=lambda p, g: gru_backward(
        p[0], *gradients.gru_forward(*p), p[2], p[3], output_gradient=g
    ),
    module=nn.GRU(3, 4).double(),
)

# %% [markdown]
# ### What the copy does to the gradient
#
# Repeat lesson 1's study, with a GRU beside the RNN. The update gate's bias decides how much is copied: 0 makes $z\approx\tfrac12$, and 4 makes $z\approx0.98$.
#
# > **Predict.** All matrices $U$ have radius 0.8, and the GRU's bias is 0. After 60 steps, which network has more of the gradient left, the GRU or the RNN?

# %%
keeps_more = Prediction("network with more gradient left, bias 0", None)  # "GRU" or "RNN"

# %%
left = {"RNN": jacobians.random_rnn(0.8)[0][-1], "GRU": jacobians.random_gru(0.8, bias=0)[-1]}
for name, norm in left.items():
    print(f"{name}: {norm:.0e} of the gradient is left after 60 steps")
keeps_more.answer(max(left, key=left.get))

# %% [markdown]
# At $z\approx\tfrac12$ each step halves the copy. Move the radius to 0.5: there the RNN loses more, as in the notebook's first picture (radius near 0.6). Then move the bias and watch the green curve:


# %%
def show_gru(radius, bias):
    """Compare an RNN and a GRU of the same radius."""
    gated = {f"GRU, bias of z = {b:g}": jacobians.random_gru(radius, b) for b in (0, bias)}
    plain, _ = jacobians.random_rnn(radius)
    draw.norms_by_lag({"RNN": plain, **gated}).set_title(f"ρ = {radius:.2f}")
    plt.gcf().set_label("What is left of the gradient in an RNN and in a GRU")
    plt.show()


_ = interact(
    show_gru,
    radius=FloatSlider(0.8, min=0.2, max=3, step=0.1, description="radius"),
    bias=FloatSlider(4, min=-2, max=8, step=0.5, description="bias of z"),
)

# %% claims="03-open-gate"
claims.evidence("03-open-gate")

# %% [markdown]
# With a bias of 4, the GRU's curve is almost flat. What helps is not the gate, but a gate near 1.
#
# ### Exercise 4: a half-life for the state
#
# *Difficulty ●○○, 5 minutes.* If $z=\sigma(b)$ were constant and the candidate 0, a state would keep the share $z^k$ of itself after $k$ steps. Which bias $b$ makes this share one half after the given number of steps?
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

# %%
if check.bias_for_half_life.passed(half_life):
    left = jacobians.random_gru(radius=0.8, bias=half_life(40))
    print(f"bias {half_life(40):.2f}: after 40 steps {left[40]:.2f} of the gradient is left")
else:
    print("Exercise 4 first")

# %% [markdown]
# More than half can be left: this GRU's candidate is not 0 and passes on gradient too.
#
# **Answer.** The update gate adds a path without a matrix. On it the gradient keeps the share $z$ at every step; one bias sets the half-life. *Evidence: your backward step agrees with three witnesses; the table shows fifty random matrices.*

# %% [markdown]
# ## Lesson 3. Which parts of a GRU can you leave out?
#
# *52 minutes.* A GRU has two gates, and both read the old state. What is lost without gates, with one of them, or if the gate reads the input alone? And what is gained?
#
# ### Without gates
#
# Compare four networks on a task that needs a long memory, the *long copy*: one of four symbols comes first, then 39 random numbers +1 or −1, and at the end the network must name the symbol. Guessing gives 0.25.
#
# | network | how it starts |
# |---|---|
# | RNN | as `nn.RNN` begins |
# | orthogonal RNN | the same RNN with an orthogonal $U$, so that $\lVert Uh\rVert=\lVert h\rVert$ |
# | GRU | as `nn.GRU` begins: $z\approx\tfrac12$ |
# | half-life GRU | the same GRU, with the bias for a half-life of 40 steps, the task's length |
#
# > **Predict.** Each network is trained with 120 steps of the optimizer Adam at five learning rates from 0.001 to 0.1. Which of the four reach an accuracy above 0.9 at their best rate?

# %%
# names of the table, such as "RNN, orthogonal RNN":
above = Prediction("networks above 0.9 at the best rate, 120 steps", None)

# %% [markdown]
# A record (suite *gates* in `data/bench`) holds a *map*: every network at every rate, with two budgets of steps and five seeds:

# %%
NETWORKS = ("RNN", "orthogonal RNN", "GRU", "half-life GRU")
rows = records.load(BENCH_RECORDS, "gates")[0].suites["gates"]
by_rate = {
    (name, steps): {row.parameters["rate"]: row.parameters["each"] for row in rows
                    if (row.name, row.parameters["steps"]) == (name, steps)}
    for steps in (120, 360)
    for name in NETWORKS
}  # fmt: skip
draw.accuracy_by_rate(by_rate, guessing=0.25, hollow="half-life GRU")
plt.show()

# %%
best = {}
for (name, budget), found in by_rate.items():
    rate, each = max(found.items(), key=lambda item: sum(item[1]))
    best[name, budget] = sum(each) / len(each)
    copied = sum(accuracy > 0.9 for accuracy in each)
    print(f"{budget} steps, {name:14} best mean {best[name, budget]:.2f}, at rate {rate:<5} "
          f"({copied} of {len(each)} seeds above 0.9)")  # fmt: skip
above.answer({name for name in NETWORKS if best[name, 120] > 0.9})

# %% [markdown]
# A network *copies* if its accuracy is above 0.9. The half-life GRU does so with every seed from the rate 0.01 up in 120 steps, from 0.003 up in 360. The *same GRU* without this bias does so only at 0.1. The orthogonal RNN copies with some seeds only, but is ahead at the smallest rate. The RNN's mean never reaches 0.9.
#
# How much of the gradient survives all 40 steps *before training*? Measure lesson 1's product for each network:

# %%
for name in NETWORKS:
    norms = experiments.left_before_training(name)
    print(f"{name:14} of five seeds: smallest {min(norms):.1g}, largest {max(norms):.1g}")

# %% [markdown]
# The half-life GRU and the orthogonal RNN keep more than 1 %. In the map, both copy at the rate 0.01 (the orthogonal RNN with some seeds). The GRU and the RNN keep about $10^{-6}$ or less, and do not copy at this rate. So at this rate, only networks copy whose product of Jacobians does not vanish at the start. An update gate near 1 is one way to this, an orthogonal $U$ another. At 0.1 the GRU copies all the same, although its gradient had vanished at the start.
#
# ### Exercise 5: an ablation of your own
#
# *Difficulty ●●○, 10 minutes.* An *ablation* removes a part to see what it did. Let one gate do the work of two: $r_t=z_t$, the other equations unchanged. Write the new state.
#
# `inputs` holds the input's three contributions $W_rx_t+b_r$, $W_zx_t+b_z$, $W_nx_t+b_n$; `states` holds the state's, $U_rh_{t-1}+c_r$, $U_zh_{t-1}+c_z$, $m_t$; `h` is $h_{t-1}$. Each has the shape $(\ldots,H)$. Use elementwise operations only (several seeds are trained at once), and none in place, which would overwrite what the gradient needs.
#
# <details><summary>Hint</summary>
#
# `_, i_z, i_n = inputs` and `_, s_z, m = states`. Then the last lines of exercise 2, with `z` in the place of `r`.
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
# A second ablation, `from_input`, removes more: gate and candidate read only $x_t$, and the reset gate and tanh are gone. Every cell starts with the half-life GRU's bias for the length of its task. Cells train for 120 steps on the long copy (length 40) and for 250 on *forget on cue* (length 20: is the sum of +1 and −1 since the last cue positive?), at the learning rates 0.01 and 0.03. Each cell is judged at its better rate. (Test accuracy chooses it, so each cell looks slightly too good.)
#
# > **Predict.** By how much does the accuracy of the cell with one gate differ from the half-life GRU's, on each task?

# %%
expected = {  # numbers for None, such as -0.1
    "forget on cue": Prediction("accuracy on forget on cue, one gate minus half-life GRU", None),
    "long copy": Prediction("accuracy on the long copy, one gate minus half-life GRU", None),
}


# %%
def from_input(inputs, states, h):
    """A cell whose gate and candidate do not read the old state."""
    z = torch.sigmoid(inputs[1])
    return (1 - z) * inputs[2] + z * h


# %%
cells = {"half-life GRU": "half-life GRU", "from input": from_input}
if check.one_gate_for_both.passed(one_gate):
    cells["one gate"] = one_gate
apart, scores = {}, {}
for task, comparison in experiments.comparisons().items():
    for name, cell in cells.items():
        tried = {rate: comparison.run(cell, seeds=P.seeds, rate=rate) for rate in (0.01, 0.03)}
        best = max(tried, key=lambda rate: tried[rate].mean)
        scores[name] = tried[best]
        print(f"{task:13} {name:13} accuracy {scores[name]} at the rate {best}")
        if name != "half-life GRU":
            difference = scores[name].against(scores["half-life GRU"])
            apart[f"{task}: {name}"] = difference
            print(
                "   minus half-life GRU: {:+.3f}, 95 % from {:+.3f} to {:+.3f}".format(*difference)
            )
    if "one gate" in cells:
        expected[task].answer(apart[f"{task}: one gate"][0])

# %%
draw.against_the_gru(apart)
plt.show()

# %% [markdown]
# Each ± and each bar is a 95 % interval over four seeds. The differences are *paired*: a seed gives both networks the same batches and test set. If a bar contains 0, we detect no difference; the cells may still differ. In our runs, on *forget on cue*, we detected no loss with one gate, and a loss for the cell that reads the input alone. On the long copy every seed reached 1, so this task cannot tell the cells apart.
#
# ### What is gained: steps at the same time
#
# A transformer processes all $T$ positions of a text at once. A GRU must finish step $t-1$ before it begins step $t$: $T$ steps in sequence. If gate and candidate read the input alone, all $z_t$ and $n_t$ can be computed at once. What is left is a *linear recurrence*, as in minGRU and the core of Mamba:
#
# $$h_t = q_t\circ h_{t-1} + d_t,\qquad q_t=z_t,\quad d_t=(1-z_t)\circ n_t .$$
#
# We can *join* two steps in a row: one step of the same form does what both do.
#
# ### Exercise 6: join two steps
#
# *Difficulty ●○○, 5 minutes.* The pair $(q, d)$ stands for the step $h\mapsto q\circ h+d$. Return the pair of the one step that does what `first` and then `then` do, for every $h$. All four tensors have one shape; leave them unchanged.
#
# <details><summary>Hint</summary>
#
# In $q_2\circ h+d_2$, put what the step `first` makes in place of $h$. What multiplies $h$ now, and what is left if $h=0$?
#
# </details>


# %% exercise="join"
def join(first, then):
    """Return (q, d) of one step that does both."""
    # BEGIN SOLUTION
    return then[0] * first[0], then[0] * first[1] + then[1]
    # END SOLUTION


# %% check="join" points=1
check.join(join)

# %% [markdown]
# Joins can be grouped in any way, though not reordered. So a parallel [scan](glossary.md#scan) joins many pairs at once. Round 1 joins each position with the one before it, round 2 with the one 2 before it, round 3 with the one 4 before it. After $\lceil\log_2T\rceil$ rounds each position holds the join of all steps up to its own; its $d$ is $h_t$ (with $h_0=0$). In the picture $T=8$ and all $q_t=1$, so $h_t$ is a running sum. The row `x` holds $d$, *step* 1 to 3 are the rounds, `t1` to `t7` are threads, and at a *barrier* all wait for each other. **Press |◀, then ▶|:**

# %%
from helpers.cuda import Module
from helpers.plots.accesses import scan_picture

eight = torch.tensor([3.0, 1.0, 7.0, 0.0, 4.0, 1.0, 6.0, 3.0])
with Module("scan.cu", {"N": 8}, device="cpu") as module:  # recorded, on a CPU
    scanned = module["scan_steps"][1, 8].record(eight, torch.zeros(8))
scan_picture({"T = 8": scanned}, eight)

# %% [markdown]
# > **Predict.** $T=4096$ steps of 1 024 numbers each, on one core: which is faster, the loop or the scan?

# %%
faster = Prediction("faster with 1 024 numbers a step", None)  # "loop" or "scan"


# %%
two = join if check.join.passed(join) else steps.join  # until yours is right, the course's


def loop(q, d):
    """h_t = q_t h_(t−1) + d_t, one step after the other."""
    h, out = torch.zeros_like(d[0]), []
    for q_t, d_t in zip(q, d, strict=True):
        h = q_t * h + d_t
        out.append(h)
    return torch.stack(out)


def scan(q, d):
    """The same in rounds, each a join of all positions at once."""
    k = 1
    while k < len(d):
        q_k, d_k = two((q[:-k], d[:-k]), (q[k:], d[k:]))
        q, d = torch.cat([q[:k], q_k]), torch.cat([d[:k], d_k])
        k *= 2
    return d


# %%
T = 4096
for width in (16, 1024):
    q, d = torch.rand(T, width), torch.randn(T, width)
    h = scan(q, d)
    ms = [1e3 * measure(lambda f=f, q=q, d=d: f(q, d), repeats=5).best for f in (loop, scan)]
    print(f"{T} steps of {width:4} numbers: loop {ms[0]:3.0f} ms, scan {ms[1]:3.0f} ms; "
          f"largest difference {(h - loop(q, d)).abs().max():.0e}")  # fmt: skip
faster.answer("loop" if ms[0] < ms[1] else "scan")

# %% [markdown]
# In our runs, on one core, the scan was faster with 16 numbers a step; with 1 024 the loop was faster. The loop makes calls for every step, and multiplies each number once. The scan makes a few large calls, but multiplies each number twice in every round.
#
# *The rest of this lesson is optional; notebooks 01 and 15 help.* Split the steps over $N$ [ranks](glossary.md#rank), processes that exchange messages. Each rank joins its own block in a loop. Then `comm.exscan`, a scan over ranks, gives each rank the join of all earlier blocks, in $\log_2N$ rounds of messages. `n` counts the longest chain of joins in which each needs the one before.

# %%
# %load_ext helpers.cluster
# %load_ext helpers.cuda
from helpers.cluster import Cluster

cluster = Cluster(n=4, preload=("torch",))

# %%
# %%ranks
from itertools import accumulate

import torch


def counted(first, then):
    (q1, d1, n1), (q2, d2, n2) = first, then
    return q2 * q1, q2 * d1 + d2, max(n1, n2) + 1


torch.manual_seed(0)
q, d = torch.rand(4096, 16), torch.randn(4096, 16)
mine = [(q[t], d[t], 0) for t in range(rank * 4096 // size, (rank + 1) * 4096 // size)]
for _ in range(3):  # the last is timed
    comm.Barrier()
    begin = MPI.Wtime()
    Q, D, n = zip(*accumulate(mine, counted), strict=True)
    before = comm.exscan((Q[-1], D[-1], n[-1]), op=counted) or (1, 0, 0)  # None on rank 0
    h = torch.stack(Q) * before[1] + torch.stack(D)
    seconds = MPI.Wtime() - begin
steps_in_sequence = max(n[-1], before[2]) + 1

# %%
q, d = cluster.run(lambda: (q, d))[0]
blocks, depths, taken = zip(*cluster.run(lambda: (h, steps_in_sequence, seconds)), strict=True)
alone = measure(lambda: loop(q, d), repeats=15).best
print(f"loop:    {len(q)} steps in sequence, {1e3 * alone:.1f} ms")
print(f"4 ranks: {max(depths)} steps in sequence, {1e3 * max(taken):.1f} ms; "
      f"largest difference {(torch.cat(blocks) - loop(q, d)).abs().max():.0e}")  # fmt: skip

# %% [markdown]
# The steps in sequence fall from $T$ to $T/N+\log_2N$. The time need not fall: the loop multiplies once a step, and the ranks three times. The ranks also share your cores.
#
# On a GPU each step can have its own thread. The next kernel is the scan of notebook [15](15_cuda_threads_that_meet.ipynb), with `join` for +. Each block computes one of the 16 numbers, a thread for each of 256 steps:

# %% language="cuda" magic_args="--device cpu"
# __global__ void recurrence(const float *q, const float *d, float *h) {
#     __shared__ float Q[2][256], D[2][256];  // [old]: before the round, [1 - old]: after it
#     int t = threadIdx.x, i = t * gridDim.x + blockIdx.x, old = 0;
#     Q[0][t] = q[i], D[0][t] = d[i];
#     for (int k = 1; k < 256; k *= 2) {
#         __syncthreads();
#         float q1 = 1, d1 = 0;  // changes no state
#         if (t >= k) q1 = Q[old][t - k], d1 = D[old][t - k];
#         D[1 - old][t] = Q[old][t] * d1 + D[old][t];
#         Q[1 - old][t] = Q[old][t] * q1;
#         old = 1 - old;
#     }
#     h[i] = D[old][t];
# }

# %%
h = torch.zeros(256, 16)
record = recurrence[16, 256].record(q[:256], d[:256], h)
print(f"{record.events['interval'].max()} barriers for 256 steps; "
      f"largest difference {(h - loop(q[:256], d[:256])).abs().max():.0e}")  # fmt: skip

# %% [markdown]
# A [barrier](glossary.md#barrier) precedes each round: 8 rounds replace 256 steps. (A CPU imitates the threads: we measure no time.)
#
# **Answer.** Do not leave out both gates: on the long copy, at their best rates, both GRUs copied with every seed, and the networks without gates only with some. With one gate for both, we detected no loss (four seeds). The cell that reads the input alone copied, but lost accuracy on *forget on cue*. Its recurrence is linear, so a scan computes it in $\log_2T$ rounds. *Evidence: the map, your ablation, and three scans that agree with the loop.*

# %% [markdown]
# <details><summary><b>What the sources say, what we measured</b></summary>
#
# | the sources say | here |
# |---|---|
# | unrolled, the gradient holds $(g'U)^{n-1}$; a norm above 1 *will* explode, below 1 *will* vanish | lesson 1: below 1 it does vanish; above 1 is necessary, not sufficient |
# | units with a short memory have reset gates close to 1, and forget | lesson 2: equation and check say the opposite; the paper's word is "active" |
#
# </details>
#
# **In practice**: use `torch.nn.GRU` (cuDNN on GPUs) and `torch.nn.utils.clip_grad_norm_`; for long sequences, attention or state-space layers, whose state is a gated linear recurrence.
#
# **References**
# - Cho et al. (2014), *Learning phrase representations using RNN encoder-decoder*: the GRU.
# - Werbos (1990), *Backpropagation through time*: the walk backwards.
# - Pascanu, Mikolov & Bengio (2013), *On the difficulty of training recurrent neural networks*: vanishing, exploding, clipping.
# - Saxe, McClelland & Ganguli (2014), *Exact solutions to the nonlinear dynamics of learning*: orthogonal starts.
# - Tallec & Ollivier (2018), *Can recurrent neural networks warp time?*: biases of gates as time scales.
# - Hochreiter & Schmidhuber (1997), *Long short-term memory*: the older sibling.
# - Zhou et al. (2016), *Minimal gated unit*: one gate for both.
# - Feng et al. (2024), *Were RNNs all we needed?*: minGRU; Gu & Dao (2023), *Mamba*: the linear recurrence at scale.
#
# **Next**: [04 Train hierarchical attention, and check what it attends to](04_hierarchical_attention.ipynb) stacks two GRUs and reads documents with them.

# %%
cluster.stop()
