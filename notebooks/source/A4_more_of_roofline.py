# %% [markdown]
# # Put the layers of a network under the roof
#
# An appendix to notebook 07: which layers of a network does memory limit, and what helps?
#
# **You will be able to**
#
# - compute the smallest batch at which arithmetic, not memory, limits a layer, in each number format;
# - explain why a language model writes more slowly than it reads;
# - judge a change of a layer by its operations *and* its bytes.
#
# **You need** lesson 1 of [07](07_roofline.ipynb), and [attention](glossary.md#attention) with queries, keys, values and heads. *Time:* 80 minutes. *Cores:* one, and a C compiler. *GPU:* none.
#
# | symbol | meaning | unit |
# |---|---|---|
# | $I$ | [arithmetic intensity](glossary.md#arithmetic-intensity) | flop/byte |
# | $B$ | batch: samples, or requests, at a time | |
# | $n$ | inputs, and outputs, of a layer | |
# | $C$ | width of a transformer block; channels of a convolution | |
# | $T$ | tokens in the cache, with the new one | |
# | $w$, $v$ | size of a weight, of a value | bytes |
# | $R$ | the [ridge point](glossary.md#ridge-point) | flop/byte |
# | $k$, $s$, $g$ | kernel side, stride and groups of a convolution | |
#
# ## Set-up

# %% tags=["parameters"]
import math
from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
import torch

from helpers.claims import evidence
from helpers.exercises import roofline as check
from helpers.models.transformer import Config
from helpers.models.transformer import layer as piece
from helpers.plots import roofline as draw
from helpers.plots import style
from helpers.predictions import Prediction
from helpers.roofline import ABOVE, kernels, place, under_roof
from helpers.roofline.ceilings import ceilings
from helpers.roofline.design import Layer, shuffle, variants
from helpers.timing import Others, measure, seconds

style.use()
torch.set_num_threads(1)  # one core, so that one roof holds for every point
machine = ceilings()  # measured in less than a minute, once; the result is kept


# %% [markdown]
# ## How large must a batch be before arithmetic limits a layer?
#
# A layer multiplies a batch $x$ ($B \times n$) by weights ($n \times n$). For one sample it reads all weights and uses each once. Every further sample uses them again, so the layer's intensity rises.
#
# ### Exercise 1: the least batch
#
# *Difficulty ●●○, 15 minutes.* The layer does $2Bn^2$ operations. Weights, $x$ and the result each move once between memory and the processor. A weight takes `weight` bytes, and each number of $x$ and of the result takes `value` bytes (4 and 4 in fp32). Return the least whole $B$ at which the layer's intensity is at least `ridge` (flop/byte), or `math.inf` if there is none.
#
# <details><summary>Hint</summary>
#
# The layer moves $n^2$ weights and $2Bn$ values. Solve $I \ge$ ridge for $B$ and round up. Which value does $I$ approach as $B$ grows?
#
# </details>


# %% exercise="compute-bound-batch"
def batch(n, ridge, weight, value):
    """The least batch whose layer n → n is not limited by memory, or math.inf."""
    # BEGIN SOLUTION
    room = n - value * ridge
    return math.ceil(n * ridge * weight / (2 * room)) if room > 0 else math.inf
    # END SOLUTION


# %% check="compute-bound-batch" points=2
check.compute_bound_batch(batch)


# %%
def layers(batches, words=""):
    made = [kernels.layer(rows, 2048) for rows in batches]
    return lambda: [place(name + words, *layer, time_limit=0.5) for name, *layer in made]


with Others() as others:
    some = under_roof(machine, layers((1, 4, 64, 128)), rounds=2)
    one_core, one_memory = machine.roof(1)
    least = batch(2048, one_core / one_memory, 4, 4)
    mine = under_roof(machine, layers({least} - {None, math.inf}, ", yours"))
others.say()
print(f"arithmetic limits the layer from B = {least or '–'}, by your formula")
draw.interactive(*machine.lines(1), some + mine)

# %% [markdown]
# A batch of 1 stands far left: two operations for each weight of 4 bytes. Your least batch, *yours*, stands just right of the ridge. There a real kernel usually stays far below both lines: your batch is a lower bound, and a larger one still helps. In the table's symbols:
#
# $$I(B) = \frac{2Bn^2}{wn^2 + 2vBn} = \frac{2B}{w + 2vB/n} \qquad I(B) = R \;\text{ at }\; B = \frac{wR}{2\,(1 - vR/n)}$$
#
# While $B \ll n$, the intensity is about $2B/w$. So in fp32 the least batch is about twice the ridge. No batch lifts the intensity above $n/v$.
#
# ## Fewer bytes for each number
#
# An fp32 number takes half the bytes of an fp64 number, so a vector register holds twice as many.
#
# > **Predict.** How many times as large is the least batch in fp64 as in fp32? Now store each weight of the fp32 layer in one byte, and convert it before the arithmetic. By which factor does the least batch fall?

# %%
falls = Prediction("least batch in fp64 ÷ in fp32", None)  # your number for None
narrow = Prediction("least batch, weights of 4 bytes ÷ of 1 byte", None)  # your number for None

# %%
found = []
for numbers, dtype, weight, value in (
    ("fp64", "float64", 8, 8),
    ("fp32", "float32", 4, 4),
    ("fp32, weights of 2 bytes", "float32", 2, 4),
    ("fp32, weights of 1 byte", "float32", 1, 4),
):
    top, reading = machine.roof(1, dtype)
    found.append(batch(4096, top / reading, weight, value))
    print(f"{numbers:25} ridge {top / reading:5.2f} flop/byte, least batch {found[-1] or '–'}")
if found[0]:
    falls.answer(found[0] / found[1])
    narrow.answer(found[1] / found[3])

# %% [markdown]
# From fp64 to fp32, $w$ halves. If $R$ doubles, the least batch stays the same. If $R$ grows by less than a factor of 2, the least batch falls; if by more, it rises. Narrower weights change $w$ alone: 2 bytes halve the least batch, 1 byte quarters it (before rounding up).
#
# Does a library reach the roof? We time two layers of 34 million operations each. Memory limits the first, with $B = 1$ and $n = 4096$; arithmetic limits the second, with $B = 64$ and $n = 512$.
#
# > **Predict.** How many times as fast as `float32` is `bfloat16` in the second layer?

# %%
halves = Prediction("batch of 64: time in float32 ÷ in bfloat16", None)  # your number for None

# %%
others = Others()
for rows, n in ((1, 4096), (64, 512)):
    taken = {}
    for dtype in 2 * (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        with others:
            p = place(*kernels.layer(rows, n, dtype), time_limit=0.3)
        taken[dtype] = min(p, taken.get(dtype, p), key=lambda one: one.seconds)  # of two rounds
    for dtype, p in taken.items():
        print(f"B = {rows:2}, n = {n}: {str(dtype)[6:]:9} {seconds(p.seconds):>8}"
              f" {p.performance / 1e9:6.1f} Gflop/s {p.bandwidth / 1e9:5.1f} GB/s"
              f"{'  above the roof' if p.bandwidth > ABOVE * one_memory else ''}")  # fmt: skip
errors = (f"{str(d)[6:]} {kernels.layer_error(64, 512, d):.0e}" for d in list(taken)[1:])
print("errors:", ", ".join(errors))
others.say()
halves.answer(taken[torch.float32].seconds / taken[torch.bfloat16].seconds)

# %% [markdown] claims="A4-half-the-bytes"
# In the records (one is folded), `float32` is 1.9 times as fast as `float64` where memory limits the layer, and 2.1 to 2.25 times where arithmetic does:

# %%
evidence("A4-half-the-bytes")

# %% [markdown]
# Now compare `bfloat16` and `float16` with `float32` in your run. In the first layer, half the bytes promise half the time; a kernel may save less, or even take longer. The two 16-bit formats move equally many bytes: if only one of them is faster, bytes are not the reason. In the second layer, `bfloat16` may pass `float32`'s peak: some processors have fast instructions for it. **Fewer bytes raise the roof; measure whether a kernel follows.** (A row *above the roof* means that a cache delivered weights, or that memory's roof was measured too low.)
#
# Fewer bits cost accuracy: *errors* shows the second layer's largest error ÷ its largest result. `bfloat16` has `float32`'s range but 8 significant bits; `float16` has 11, but a small range.
#
# ## Prefill and decode
#
# A language model handles a request in two phases. **Prefill** reads the prompt: all its tokens pass through a layer at once, as one large batch. **Decode** writes the answer, a token at a time. To attend to earlier tokens, it reads their keys and values from memory: the *KV cache*.
#
# In a transformer block of width $C$, six matrices hold $12\,C^2$ weights: four hold $C^2$, two hold $4\,C^2$. Each token costs $24\,C^2$ operations with them, and $4\,C$ operations for each of the $T$ tokens in the cache. In fp32, decoding one token for each of $B$ requests reads the weights once, $48\,C^2$ bytes. For *each* request it reads a KV cache of $8\,TC$ bytes:
#
# $$I_\text{decode} = \frac{B\,(24\,C^2 + 4\,TC)}{48\,C^2 + 8\,TC\,B}$$
#
# The picture shows these bytes for $C = T = 512$. The number beside each bar is the bytes per token: requests share the weights, but each brings its own keys and values.

# %%
draw.phases(512, 512, (1, 4, 16))
plt.show()

# %% [markdown]
# ### Exercise 2: enough requests
#
# *Difficulty ●●○, 10 minutes.* As $B$ grows, $I_\text{decode}$ approaches a limit. Return this limit, and the least whole $B$ at which $I_\text{decode}$ reaches `share` of it ($0 <$ `share` $< 1$).
#
# <details><summary>Hint</summary>
#
# Divide numerator and denominator by $B$. Which term vanishes as $B$ grows?
#
# </details>


# %% exercise="enough-requests"
def enough(C, T, share):
    """Return (the limit in flop/byte, the least B that reaches this share of it)."""
    # BEGIN SOLUTION
    limit = (24 * C**2 + 4 * T * C) / (8 * T * C)
    return limit, math.ceil(48 * C**2 * share / (8 * T * C * (1 - share)))
    # END SOLUTION


# %% check="enough-requests" points=2
check.enough_requests(enough)

# %% [markdown]
# Here `decode` runs a block of the course's transformer for one new token of each request. The last line compares its result with prefill's last position:


# %%
def split(x, heads):
    return x.unflatten(2, (heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, H, T, C/H)


@torch.no_grad()
def decode(block, x, keys, values):
    """One new token of each request: x (B, 1, C); the cache has room for it at its end."""
    at, attend = block.attention, torch.nn.functional.scaled_dot_product_attention
    h = block.first_norm(x)
    query, keys[:, :, -1:], values[:, :, -1:] = (
        split(part(h), at.heads) for part in (at.query, at.key, at.value)
    )
    x = x + at.out(attend(query, keys, values).transpose(1, 2).flatten(2))
    return x + block.perceptron(block.second_norm(x))


C = T = 512
block = piece(Config(width=C, heads=8, context=T, layers=1), 1).requires_grad_(False)
prompt = torch.randn(1, T, C)
h = block.first_norm(prompt)
keys, values = (split(part(h), 8) for part in (block.attention.key, block.attention.value))
last = decode(block, prompt[:, -1:], keys.clone(), values.clone())
print(f"largest difference: {(last - block(prompt)[:, -1:]).abs().max():.0e}")


# %%
def prefill_and_decode():
    work, least = T * (24 * C**2 + 2 * T * C), 4 * (12 * C**2 + 2 * T * C)  # half of T × T pairs
    points = [place("prefill", lambda: block(prompt), work, least, time_limit=1)]
    for B in (1, 4, 16, 64):
        x, cache = torch.randn(B, 1, C), [one.repeat(B, 1, 1, 1) for one in (keys, values)]
        work, moved = B * (24 * C**2 + 4 * T * C), 4 * (12 * C**2 + 2 * T * C * B)
        call = lambda x=x, cache=cache: decode(block, x, *cache)
        points.append(place(f"decode, B = {B}", call, work, moved, time_limit=1))
    return points


with Others() as others:
    phases = under_roof(machine, prefill_and_decode)
others.say()
for p, tokens in zip(phases, (T, 1, 4, 16, 64), strict=True):
    print(f"{p.name:14} {p.intensity:6.2f} flop/byte {p.performance / 1e9:6.1f} Gflop/s"
          f" {seconds(p.seconds / tokens):>8} a token")  # fmt: skip
if check.enough_requests.passed(enough):
    print(
        "limit {:.1f} flop/byte; decode reaches half of it from B = {}".format(*enough(C, T, 0.5))
    )
draw.interactive(*machine.lines(1), phases)

# %% [markdown]
# Prefill reads the weights once for all $T$ tokens, and stands right of the ridge. Decode for one request reads them for every token, and stands far left. **So for one request, writing a token takes longer than reading one** (last column). More requests move decode to the right, but only up to the limit of exercise 2. Near it, still more requests save no more time per token. If this limit lies left of your ridge, memory limits decode for any number of requests. So servers collect requests, and models shrink the cache, with fewer heads for keys and values, or with fewer bytes for each number.
#
# ## Designing a layer
#
# How much does a convolution layer save if you change its shape? The source, a lecture that we check here, lists smaller kernels, a stride, and *groups*. With $g$ groups, an output channel reads only the $C/g$ input channels of its own group. A *depthwise* layer has one group for each channel. After a grouped layer, a *channel shuffle* interleaves the groups, so that the next layer mixes them. The picture has eight channels. Each row is an output channel, and its coloured squares are the input channels that it reads:

# %%
draw.groups(8, 4)
plt.show()

# %% [markdown]
# ### Exercise 3: what a change saves
#
# *Difficulty ●●○, 10 minutes.* A convolution with a kernel of side $k_1$ gets side $k_2$, a stride of $s$ (it had 1) and $g$ groups (it had 1). The channels stay, there is no bias, and only the stride changes the number of positions (padding makes up for the kernel). Return new ÷ old for its operations, its parameters and the numbers in its output.
#
# <details><summary>Hint</summary>
#
# Each output channel now uses $1/g$ of the input channels. The stride leaves $1/s^2$ of the positions. Which of the three results does this change?
#
# </details>


# %% exercise="layer-factors"
def factors(k1, k2, stride, groups):
    """Return (operations, parameters, outputs), each new ÷ old."""
    # BEGIN SOLUTION
    parameters = k2**2 / k1**2 / groups
    return parameters / stride**2, parameters, 1 / stride**2
    # END SOLUTION


# %% check="layer-factors" points=2
check.layer_factors(factors)

# %% [markdown]
# Here a layer and four changes of it stand under the roof:

# %%
base = Layer()
shapes = {"base": base} | {name: layer for name, (layer, _, _) in variants(base).items()}
built = {name: layer.build() for name, layer in shapes.items()}


def convolutions():
    points = []
    for name, (module, x) in built.items():
        call = lambda m=module, x=x: m(x)
        points.append(place(name, call, shapes[name].flops, shapes[name].bytes, time_limit=1))
    return points


with Others() as others:
    placed = under_roof(machine, convolutions, rounds=2)
others.say()
draw.interactive(*machine.lines(1), placed)

# %% [markdown]
# All changes move the layer left: they save more operations than bytes. The depthwise layer lands left of the ridge, where even a perfect kernel stays below the peak. PyTorch's kernel may stay below memory's line, too.
#
# The next cell compares your factors with counts, as new ÷ old, and with the source's formulas:

# %%
print(f"base: 128 channels in and out, 56 × 56 positions, kernel of side 3, "
      f"{base.flops / 1e6:.0f} Mflop, {base.bytes / 1e6:.1f} MB")  # fmt: skip
print(f"{'':13} {'yours':^23} {'counted':^23}   by the source")
print(f"{'':13}" + 2 * f" {'flops':>7} {'params':>7} {'output':>7}" + f"   {'flops':9} memory")
stated = ("params k₁²/k₂²", "output 1/s²", "params 1/g", "params 1/g")
for (name, (layer, words, _)), memory in zip(variants(base).items(), stated, strict=True):
    mine = factors(base.kernel, layer.kernel, layer.stride, layer.groups)
    counted = tuple(
        getattr(layer, part) / getattr(base, part) for part in ("flops", "parameters", "output")
    )
    show = ["–" if t is None else " ".join(f"{v:7.3f}" for v in t) for t in (mine, counted)]
    print(f"{name:13} {show[0]:>23} {show[1]:>23}   {words:9} {memory}")

# %% [markdown]
# The source errs twice: $1/g^2$ should be $1/g$, and $k_1^2/k_2^2$ should be $k_2^2/k_1^2$. It also calls the shuffle free. Does the time follow the operations? *Least* compares the least times under your roof:


# %%
def compare(name, new, old, time):
    """Print new ÷ old: operations, bytes, least time and measured time of a layer."""
    peak, memory = machine.roof(1)
    least = [max(layer.flops / peak, layer.bytes / memory) for layer in (new, old)]
    print(f"{name:13} {new.flops / old.flops:6.3f} {new.bytes / old.bytes:6.3f} "
          f"{least[0] / least[1]:6.3f} {time:6.3f}")  # fmt: skip


HEAD = f"{'new ÷ old':13}  flops  bytes  least   time"
print(HEAD)
for point in placed[1:]:
    compare(point.name, shapes[point.name], base, point.seconds / placed[0].seconds)
grouped, x = built["4 groups"]
with Others() as others:
    served = measure(lambda: grouped(x), repeats=25, time_limit=1).best
    moved = measure(lambda: shuffle(x, 4), repeats=25, time_limit=1).best
print(f"shuffle: 0 operations, {seconds(moved)}, {moved / served:.0%} of the grouped layer's time")
others.say()

# %% [markdown] claims="A4-time-operations A4-shuffle"
# **Time need not follow operations.** In the records (some are folded), it nearly does for the first three changes: the share of the time is 1.1 to 1.4 times the share of the operations (here, on an Intel Xeon, 1.0 to 1.5). But a depthwise layer keeps 0.8 % of the operations and 5 to 25 % of the time. The roof explains a part of it: *least* falls less than *flops*, since memory limits this layer. The channel shuffle does no operations, but moves bytes: it adds 3 to 7 % to the grouped layer's time.

# %%
display(evidence("A4-time-operations"), evidence("A4-shuffle"))

# %% [markdown]
# ### Exercise 4: choose by the roof
#
# *Difficulty ●●○, 8 minutes.* You may make one change to a layer. `old` holds the layer's (operations, bytes), and `changes` maps the name of each change to the (operations, bytes) of the new layer. Return the name of the change with the smallest least time, and this time ÷ the old layer's. The least time is the larger of operations ÷ peak and bytes ÷ bandwidth. `peak` is in flop/s, `bandwidth` in bytes/s.
#
# <details><summary>Hint</summary>
#
# Collect the least time of each change in a dict. `min(times, key=times.get)` is the name of its smallest entry.
#
# </details>


# %% exercise="choose-change"
def choose(old, changes, peak, bandwidth):
    """Return (name of the best change, its least time ÷ the old one)."""
    # BEGIN SOLUTION
    times = {name: max(f / peak, b / bandwidth) for name, (f, b) in changes.items()}
    best = min(times, key=times.get)
    return best, times[best] / max(old[0] / peak, old[1] / bandwidth)
    # END SOLUTION


# %% check="choose-change" points=2
check.choose_change(choose)

# %% [markdown]
# > **Predict.** A kernel of side 1 leaves a ninth of the operations, and a stride of 2 leaves a quarter. Which of the two saves the base layer more time? And the depthwise layer?

# %%
for_base = Prediction("the better change of the base layer", None)  # "kernel" or "stride"
for_depthwise = Prediction("the better change of the depthwise layer", None)

# %%
for name, said in (("base", for_base), ("depthwise", for_depthwise)):
    old = shapes[name]
    new = {"kernel 3 → 1": replace(old, kernel=1), "stride 2": replace(old, stride=2)}
    counts = {change: (layer.flops, layer.bytes) for change, layer in new.items()}
    mine = "–"
    if check.choose_change.passed(choose):
        asked = (old.flops, old.bytes), counts, *machine.roof(1)
        mine = "{}, least {:.3f}".format(*choose(*asked))
    print(f"{name}: you choose {mine}")
    took, others = {}, Others()
    for change, layer in 2 * [("old", old), *new.items()]:  # the better of two rounds
        call = partial(*layer.build())
        with others:
            p = place(change, call, layer.flops, layer.bytes, time_limit=0.3)
        took[change] = min(p.seconds, took.get(change, p.seconds))
    others.say()
    print(HEAD)
    for change, layer in new.items():
        compare(change, layer, old, took[change] / took["old"])
    said.answer(min(new, key=took.get).split()[0])

# %% [markdown]
# The base layer stands right of the ridge, so the roof chooses fewer operations: the small kernel. The depthwise layer stands left of the ridge, so the roof chooses fewer bytes: the stride. **The same two changes rank differently on two layers.** In our runs the measured times agreed with both choices; once the small kernel even took longer than the large one in the depthwise layer.
#
# > **Answer.** Left of the ridge stand layers that use each loaded number only a few times: small batches, decode, depthwise convolutions. There memory sets the limit, though a kernel may stay below it. A larger batch helps a linear layer: arithmetic can limit it only from about $wR/2$ samples, fewer with narrow weights. In decode it helps less, since each request reads its own KV cache.
#
# **References**
#
# - A. Howard and others, *MobileNets* (2017); X. Zhang and others, *ShuffleNet* (2018): depthwise layers, groups and the shuffle.
# - R. Pope and others, *Efficiently scaling transformer inference* (2022): operations and bytes of prefill and decode.
#
# **Next**: back to [07](07_roofline.ipynb), lesson 2.
