# %% [markdown]
# # Train hierarchical attention, and check what it attends to
#
# At the end you will have built a model that reads documents sentence by sentence, trained it on real package descriptions, and put it beside simpler models, its weights beside a test of whether they explain anything.
#
# **You will be able to**
# - write attention pooling and the mask that keeps padding out of it;
# - batch sequences of unequal length thirty times faster, with the same results;
# - judge a deep model against a strong simple one on a split that does not leak;
# - test attention as an explanation instead of believing a heat map.
#
# **You need** [03](03_gru_derivation.ipynb) (the GRU), PyTorch. *Time:* 60 minutes, of which the training takes under two; 1 core, no GPU.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape |
# |---|---|---|
# | $D, S, W$ | documents in a batch, their sentences in all, words of the longest sentence | numbers |
# | $I, H, C$ | size of a word vector, units of a GRU in one direction, classes | numbers |
# | $x_{it}$ | vector of word $t$ in sentence $i$ | $(I)$ |
# | $h_{it}$ | state at that word, both directions side by side | $(2H)$ |
# | $u_{it}=\tanh(W_wh_{it}+b_w)$ | what the word offers | $(2H)$ |
# | $u_w$, $u_s$ | context vectors: what is looked for, learned | $(2H)$ |
# | $\alpha_{it}$, $\alpha_i$ | weight of a word in its sentence, of a sentence in its document | in $[0,1]$ |
# | $s_i$, $v$ | summary of a sentence, of the document | $(2H)$ |
#
# Yang et al. (2016) write the GRU as $h_t=(1-z_t)\circ h_{t-1}+z_t\circ\tilde h_t$: their update gate is PyTorch's reversed, $z_{\text{paper}}=1-z_{\text{PyTorch}}$. It is the same family of functions, with the block of $z$ negated.

# %%
import inspect
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from IPython.display import HTML, display
from ipywidgets import Dropdown, IntProgress, Label, VBox, interact

from helpers import records
from helpers.attention import batching, documents, explain, model, training
from helpers.attention.experiment import MODELS, Experiment
from helpers.exercises import hierarchical_attention as check
from helpers.plots import attention as draw
from helpers.plots import style
from helpers.timing import measure

torch.manual_seed(0)
style.use()


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    """What this notebook runs."""

    fold: int = 0  # the fifth of the source packages that is held out
    epochs: int = 5
    threads: int = 1  # of torch; on an idle machine try 2
    speed_documents: int = 32
    explained: int = 150  # test documents for the pictures and the check by deletion


P = Parameters()
torch.set_num_threads(P.threads)

# %% [markdown]
# ## 1. The documents
#
# Debian files each package under a section. Can a model tell the section from the description? The snapshot under `data/debian` holds descriptions of eight sections, at least three sentences of prose each, taken from the archive's own indices by a script that stands beside it.

# %%
experiment = Experiment(fold=P.fold)
snapshot = experiment.snapshot
train, test = experiment.documents
print("Debian", snapshot.about["version"], "of", snapshot.about["date"])
print(len(train), "documents to learn from,", len(test), "held out")
print(dict(Counter(d.section for d in train)))
print("source packages on both sides:", len({d.source for d in train} & {d.source for d in test}))

# %% [markdown]
# One source package often builds several packages with nearly the same text. Split by *package*, and the test set would contain twins of what was learned; so the split is by *source*, and a source gives two documents at most.
#
# The text is cleaned before it is split: links, headers such as `Homepage:`, bullets and the package's own name are removed. A name such as `aspell-ga` would give the label away.

# %%
sample = snapshot.find("tcpreplay")
print(sample.text[:330], "...\n")
for line in sample.lines[:3]:
    print("-", line)
print(sample.sentences[0])

# %% [markdown]
# ### The bar
#
# Count the words, weigh them by TF-IDF, and fit a logistic regression. No order, no sentences, no vectors, a few seconds. A deep model that does not reach this has no business here.
#
# > **Predict.** With eight sections, the most frequent one covers 22 %. What accuracy does counting words reach?

# %%
bar = experiment.bar()
print(f"TF-IDF and logistic regression: {bar:.3f} of the held-out documents")

# %% [markdown]
# ## 2. Attention by hand
#
# A sentence of three words has three states. How do you make one vector of them? The mean treats all alike. *Attention* asks each state how well it fits a context vector $u_w$, and takes the weighted mean:
#
# $$u_{it}=\tanh(W_wh_{it}+b_w),\qquad \alpha_{it}=\frac{\exp(u_{it}^\top u_w)}{\sum_{t'}\exp(u_{it'}^\top u_w)},\qquad s_i=\sum_t\alpha_{it}h_{it}.$$
#
# With two units, $W_w$ the identity and $b_w=0$:

# %%
h = torch.tensor([[0.1, 0.0], [0.9, 0.8], [-0.5, 0.2]])  # three words, two units
u_w = torch.tensor([2.0, 1.0])
score = torch.tanh(h) @ u_w
alpha = score.exp() / score.exp().sum()
print("scores ", [f"{value:+.2f}" for value in score])
print("weights", [f"{value:.2f}" for value in alpha], "  sum", f"{alpha.sum():.2f}")
print("summary", [f"{value:.2f}" for value in alpha @ h], " mean", [f"{v:.2f}" for v in h.mean(0)])

# %% [markdown]
# The second word fits best and the summary lies near its state.
#
# ### Exercise 1: attention pooling
#
# *Difficulty ●●○, 10 minutes.* One sentence, its states `h` in rows, $(n, H)$. Return the summary and the weights.
#
# <details><summary>Hint</summary>
#
# Three lines, one for each equation. The sum is over the *states*, not over the $u_{it}$.
#
# </details>


# %% exercise="pooling"
def pool(h, W, b, u):
    """Return s (H) and alpha (n)."""
    # BEGIN SOLUTION
    offered = torch.tanh(h @ W.T + b)
    alpha = (offered @ u).softmax(0)
    return alpha @ h, alpha
    # END SOLUTION


# %% check="pooling" points=2
check.attention_pooling(pool)

# %% [markdown]
# ## 3. Unequal lengths
#
# Sentences have 1 to 1 686 words, documents 4 to 128 sentences. Two measures make tensors of them. **Cut** at a length that a share of the data does not exceed (a quantile); **pad** what is shorter.

# %%
lengths = [len(s) for d in train for s in d.sentences]
print("sentences: 95 % quantile", experiment.limits.words, "words, longest", max(lengths))
print("documents: 95 % quantile", experiment.limits.sentences, "sentences,",
      "longest", max(len(d.sentences) for d in train))  # fmt: skip
_, ax = plt.subplots(figsize=(9, 3))
ax.hist(lengths, bins=range(1, 80))
ax.axvline(experiment.limits.words, color=style.VERMILION, label="read up to here")
ax.set(xlabel="words in a sentence", ylabel="sentences")
ax.legend()
plt.show()

# %% [markdown]
# All $S$ sentences of a batch lie in one padded table $(S, W)$ of word numbers, with their lengths and the number of sentences of each document beside it. A *mask* remembers what is real.
#
# ### Exercise 2: the mask
#
# *Difficulty ●○○, 5 minutes.* From lengths $(N)$, make a tensor of `torch.bool`, $(N, \text{width})$: True where there is a word.
#
# <details><summary>Hint</summary>
#
# Compare `torch.arange(width)` with the lengths as a column.
#
# </details>


# %% exercise="mask"
def make_mask(lengths, width):
    """Return (N, width) of torch.bool."""
    # BEGIN SOLUTION
    return torch.arange(width) < lengths.unsqueeze(1)
    # END SOLUTION


# %% check="mask" points=1
check.mask_from_lengths(make_mask)

# %% [markdown]
# ### Exercise 3: a softmax that does not see padding
#
# *Difficulty ●●○, 5 minutes.* Return weights that sum to 1 over the real places and are 0 elsewhere.
#
# <details><summary>Hint</summary>
#
# $e^{-\infty}=0$. Multiplying by the mask *after* the softmax leaves a sum below 1.
#
# </details>


# %% exercise="softmax"
def masked_softmax(score, keep):
    """Return weights (N, L) from scores (N, L) and keep (N, L)."""
    # BEGIN SOLUTION
    return score.masked_fill(~keep, -torch.inf).softmax(-1)
    # END SOLUTION


# %% check="softmax" points=1
check.masked_softmax(masked_softmax)

# %% [markdown]
# ## 4. The model
#
# Words to sentences by a bidirectional GRU and attention; sentences to a document by another such pair; a linear layer answers. The two levels do not share weights.
#
# $$x_{it}\xrightarrow{\text{GRU}}h_{it}\xrightarrow{\alpha_{it}}s_i\xrightarrow{\text{GRU}}h_i\xrightarrow{\alpha_i}v\xrightarrow{\text{linear}}\text{logits}$$

# %%
print(inspect.getsource(model.AttentionPooling))
print(inspect.getsource(model.HierarchicalAttention.read))

# %% [markdown]
# The encoder packs the padded table before the GRU: no step reads padding, and the backward direction starts at each sentence's own last word. So padding must change nothing. Test it: add 25 useless columns. And since 03 gave us a GRU of our own, put that in too.

# %%
few = [experiment.encode(d) for d in test[:8]]
fresh = experiment.model("hierarchical attention").eval()
embedding = fresh.embedding
own = model.HierarchicalAttention(embedding, 8, experiment.hidden, gru="ours").eval()
own.load_state_dict(fresh.state_dict())
with torch.no_grad():
    logits = fresh(documents.Batch.of(few))
    wider = fresh(documents.Batch.of(few, padding=25))
    ours = own(documents.Batch.of(few))
print("25 columns of padding move the logits by", (wider - logits).abs().max().item())
print("our GRU for nn.GRU moves them by        ", (ours - logits).abs().max().item())

# %% [markdown]
# ## 5. One at a time, or all at once
#
# The first implementation one writes is a loop over sentences, and in it over words, to collect every state. The same numbers come out of one packed batch.
#
# > **Predict.** How much faster is the packed batch: 2, 10 or 30 times?

# %%
chosen = experiment.data[0][: P.speed_documents]
plain = Experiment(fold=P.fold, dropout=0.0).model("hierarchical attention")
torch.set_num_threads(1)
with torch.no_grad():
    right = batching.packed(plain, chosen)
taken = {name: [] for name in batching.WAYS}
for _ in range(3):  # interleaved
    for name, way in batching.WAYS.items():
        work = lambda w=way: batching.forward_backward(w, plain, chosen)  # noqa: E731
        taken[name].append(measure(work, repeats=1, warmup=0).median)
slowest = sorted(taken["one sentence at a time"])[1]
for name, way in batching.WAYS.items():
    middle = sorted(taken[name])[1]
    off = (way(plain, chosen) - right).abs().max().item()
    print(
        f"{name:24}{len(chosen) / middle:7.0f} docs/s {slowest / middle:6.1f} x   off by {off:.0e}"
    )
torch.set_num_threads(P.threads)

# %% [markdown]
# Three agree to rounding. The fourth pads and packs nothing; it is fast, and its logits are *wrong*.
#
# ### Exercise 4: faster, yet wrong
#
# *Difficulty ●●●, 10 minutes.* Which of these are true of the padded version without a mask?
#
# - **a** Every document's logits are wrong, whatever the batch.
# - **b** The backward GRU starts in the padding, so a short sentence's states depend on how long the longest one is.
# - **c** The softmax gives weight to padding, so the weights of the words no longer sum to 1.
# - **d** It is faster because it does less arithmetic.
# - **e** Training repairs it: the model learns to ignore the padding vector.
#
# <details><summary>Hint</summary>
#
# Put one document alone through both versions, then the same one beside a longer one. For **e**: what would the model have to do when the *next* batch has another longest sentence? For **d**: count the steps' rows in the packed version.
#
# </details>

# %% exercise="padding"
letters = None  # replace None by a text such as "ad"
# BEGIN SOLUTION
letters = "bc"
# END SOLUTION

# %% check="padding" points=2
check.why_padding_is_wrong(letters)

# %% [markdown]
# ## 6. Train
#
# The word vectors start from vectors of our own: pretrained without labels on the descriptions of all *other* source packages (`data/debian/word_vectors.py` says how), and trained on from there. Dropout, hidden words and smoothed labels keep 3 740 documents from being learned by heart.

# %%
print(inspect.signature(training.Recipe))
x, y, x_test, y_test = experiment.data
bar_widget, text = IntProgress(description="training"), Label()
display(VBox([bar_widget, text]))


def show_progress(step, steps, loss):
    """Move the bar; write the loss every ten steps."""
    bar_widget.max, bar_widget.value = steps, step
    if step % 10 == 0 or step == steps:
        text.value = f"step {step} of {steps}, loss {loss:.3f}"


net = experiment.model("hierarchical attention", seed=0)
seconds = training.train(net, x, y, training.Recipe(epochs=P.epochs), show_progress)
reached = training.accuracy(net, x_test, y_test)
print(f"trained in {seconds:.0f} s; held-out accuracy {reached:.3f}, the bar is {bar:.3f}")

# %% [markdown]
# The smoothed loss does not fall to 0: with a tenth of each label spread over all sections, a perfect model stays near 0.5.
#
# ### Beside the simpler models
#
# One seed is an anecdote. `make bench SUITE=attention` trains this model and three simpler ones with three seeds each on the same split. What it wrote:


# %%
def find_up(name):
    """The folder of that name in this folder or one above it."""
    here = Path.cwd().resolve()
    return next((p / name for p in (here, *here.parents) if (p / name).is_dir()), Path(name))


found = records.load(find_up("data/bench"), "attention") if find_up("data/bench").is_dir() else []
rows = [r for r in found[0].suites["attention"] if r.name.startswith("accuracy")] if found else []
scores = {r.name.removeprefix("accuracy: "): r.parameters["values"] for r in rows}
if scores:
    draw.accuracies(scores, rows[0].peer_value, "TF-IDF + logistic regression")
    plt.show()
    print(found[0].date, "·", found[0].machine.get("cpu"), "·", found[0].command)
else:
    print("No record yet: run `make bench SUITE=attention` (several minutes).")

# %%
for row in rows:
    values = row.parameters["values"]
    print(f"{row.name:40} median {row.value:.3f}  spread {max(values) - min(values):.3f}")
for simpler in MODELS[1:]:
    if scores:
        best, other = scores[MODELS[0]], scores[simpler]
        clear = min(best) > max(other) or min(other) > max(best)
        sign = "helps" if min(best) > max(other) else "hurts" if clear else "is not shown to help"
        print(f"hierarchical attention against {simpler}: it {sign} here")

# %% [markdown]
# "Is not shown to help" means that the seeds of the two overlap. Read it before you believe the architecture: package descriptions are short, and single words such as *protein* or *synthesizer* carry much of the answer, so counting words is already strong.
#
# ## 7. Where it goes wrong

# %%
answers = training.predict(net, x_test).argmax(1)
counts = torch.zeros(8, 8, dtype=torch.int64)
counts.index_put_((torch.tensor(y_test), answers), torch.tensor(1), accumulate=True)
draw.confusion(counts.numpy(), snapshot.sections)
plt.show()

# %% [markdown]
# A row is a true section, and its shares add up to 1. The confusions are ones that people make: a web server's tool may be filed under *net*, *web* or *admin*.
#
# ## 8. What it attends to
#
# Pick a held-out package. The bar is a sentence's weight; the shade of a word is its weight in the sentence, times the sentence's length (so "no shade" means "half of an equal share or less").


# %%
def show(package):
    """Draw the attention on one document."""
    document = snapshot.find(package)
    seen = explain.weights(net, experiment.encode(document))
    best = max(range(8), key=seen.probabilities.__getitem__)
    title = (f"{package}, filed under {document.section}; "
             f"the model says {snapshot.sections[best]} ({seen.probabilities[best]:.2f})")  # fmt: skip
    cut = [s[: experiment.limits.words] for s in document.sentences if s]
    display(HTML(draw.document_html(cut, seen, title)))


picked = sorted(d.package for d in test)
_ = interact(show, package=Dropdown(options=picked, value=picked[40]))
# %%
read = explain.most_attended(
    net, x_test[: 2 * P.explained], y_test[: 2 * P.explained], experiment.vocabulary.words
)
for label, words in read.items():
    print(f"{snapshot.sections[label]:9} {', '.join(words)}")

# %% [markdown]
# ## 9. Is that an explanation?
#
# A heat map persuades because we nod at the words. A claim needs a test that can fail: if the most attended words decide, then hiding *them* must hurt the answer more than hiding as many random words.
#
# > **Predict.** Hide the four most attended words of about eighty. How far does the probability of the model's own answer fall? And for four random ones?

# %%
hidden = (0, 1, 2, 4, 8, 16)
curves = explain.deletion(net, x_test[: P.explained], hidden)
draw.deletion(curves, hidden)
plt.show()
for name, values in curves.items():
    print(f"{name:14}", "  ".join(f"{n}: {v:.3f}" for n, v in zip(hidden, values, strict=True)))
drop = {name: values[0] - values[3] for name, values in curves.items()}
print(f"hiding 4: {drop['most attended']:.3f} lost, at random {drop['random']:.3f}")

# %% [markdown]
# The gap between the curves is what attention knows about the model's decision; the height of the upper part of the first curve is what it does *not* know. As long as the answer mostly survives without its "explanation", the weights are a hint at where the model looks, and no account of why it answers. (They cannot be more: $h_{it}$ holds the whole sentence, not the word under the shade.)
#
# ## 10. What breaks
#
# A sentence without words has nothing to weigh: the softmax over nothing but $-\infty$ is NaN, and one NaN spoils every weight at the next step. So empty documents are refused, by name, and empty sentences are dropped before they get there.

# %%
print(torch.full((1, 3), -torch.inf).softmax(1))
try:
    documents.encode([[], []], experiment.vocabulary)
except ValueError as error:
    print("refused:", error)
odd = [["a"], ["never-seen-before"], ["word"] * 5000]  # one word; unknown; longer than any limit
ids = documents.encode(odd, experiment.vocabulary, experiment.limits)
print("read:", [len(s) for s in ids], "words; unknown word number", ids[1][0])
print("answer:", snapshot.sections[training.predict(net, [ids]).argmax().item()])

# %% [markdown]
# ## 11. What the sources say, what we measured
#
# | the sources say | here |
# |---|---|
# | a GRU over a sentence, keeping all states, so that `nn.GRU` cannot be called and a loop is needed | `nn.GRU` returns every state; the loop is the slowest row of the table in section 5 |
# | states through an MLP, scored against a context vector, softmax, weighted sum of the states; the same over sentences; two GRUs in all | sections 2 and 4 |
# | sentences must be of one length: cut and padded, the length chosen by quantile | section 3; but padding alone is wrong (section 5): it takes a mask |
# | the hierarchy makes for a better representation of the text | section 6: the record's verdict, model by model, beside a bar without any order |
#
# ## Summary
#
# - Attention pooling is a softmax over scores and a weighted mean of states: three lines.
# - Packing gives what the loop gives, many times faster; padding without a mask is faster still, and wrong.
# - The simple baseline comes first, the split must not leak, and a difference needs more than one seed.
# - A heat map is a hypothesis; deletion tests it.
#
# **In practice**: `torch.nn.utils.rnn.pack_padded_sequence`, nested tensors, `torch.nn.functional.scaled_dot_product_attention` with a mask; for classifying text today, a pretrained transformer fine-tuned, with TF-IDF still as the bar.
#
# **References**
# - Yang et al. (2016), *Hierarchical attention networks for document classification*: the model.
# - Levy & Goldberg (2014), *Neural word embedding as implicit matrix factorization*: why an SVD gives word vectors.
# - Jain & Wallace (2019), *Attention is not explanation*, and Wiegreffe & Pinter (2019), *Attention is not not explanation*: the dispute.
# - Wang & Manning (2012), *Baselines and bigrams*: how strong counting words is.
#
# **Next**: notebook 05 goes one level down, to the kernels that such a model runs on. Nothing to tear down: this notebook started no ranks.
