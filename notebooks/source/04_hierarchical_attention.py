# %% [markdown]
# # Train hierarchical attention, and check what it attends to
#
# At the end you will have built a model that reads documents sentence by sentence, trained it on real package descriptions, compared it with simpler models, and tested whether what it attends to explains what it answers.

# %% [markdown]
# **You will be able to**
#
# - write [attention](glossary.md#attention) pooling and the [mask](glossary.md#mask) that keeps [padding](glossary.md#padding) out of it;
# - batch sequences of unequal length, many times faster than a loop and with the same results;
# - judge a deep model against a strong simple one on a split that does not leak;
# - test attention as an explanation instead of believing a heat map.
#
# **You need** [03](03_gru_derivation.ipynb) (the GRU) and PyTorch. *Time:* 60 minutes, of which your machine works for about two, mostly in the training. *Cores:* one. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape |
# |---|---|---|
# | $D, S, W$ | documents in a batch, their sentences in all, words of the longest sentence | numbers |
# | $I, H, C$ | size of a word vector, units of a GRU in one direction, classes | numbers |
# | $x_{it}$ | [vector](glossary.md#word-vector) of word $t$ in sentence $i$ | $(I)$ |
# | $h_{it}$ | [state](glossary.md#hidden-state) at that word, of a GRU from the left and one from the right, side by side | $(2H)$ |
# | $W_w$, $b_w$ | weights and bias of the word attention, learned | $(2H,2H)$, $(2H)$ |
# | $u_{it}=\tanh(W_wh_{it}+b_w)$ | what the word offers to the attention | $(2H)$ |
# | $u_w$ | [context vector](glossary.md#context-vector): what the word attention looks for, learned | $(2H)$ |
# | $\alpha_{it}$, $\alpha_i$ | weight of a word in its sentence, of a sentence in its document | in $[0,1]$ |
# | $s_i$, $v$ | summary of a sentence, of the document | $(2H)$ |
#
# The sentence level has a $W_s$, $b_s$ and $u_s$ of its own.
#
# Yang et al. (2016) write the GRU as $h_t=(1-z_t)\circ h_{t-1}+z_t\circ\tilde h_t$: their update gate is PyTorch's reversed, $z_{\text{paper}}=1-z_{\text{PyTorch}}$. The two describe the same family of functions, with the block of $z$ negated. The code below is PyTorch's.

# %% [markdown]
# ## Set-up

# %%
import inspect
from collections import Counter
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch
from IPython.display import HTML, display
from ipywidgets import Dropdown, IntProgress, Label, VBox, interact

from helpers import records
from helpers.attention import batching, documents, explain, model, training
from helpers.attention.experiment import MODELS, Experiment
from helpers.datasets.files import DATA
from helpers.exercises import attention as check
from helpers.plots import attention as draw
from helpers.plots import style
from helpers.timing import measure

style.use()


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    """What this notebook runs."""

    fold: int = 0  # the fifth of the source packages that is held out
    epochs: int = 4  # times over the training documents
    threads: int = 1  # of torch; on an idle machine try 2
    speed_documents: int = 32
    explained: int = 150  # test documents for the pictures and the check by deletion


# %%
P = Parameters()
torch.manual_seed(0)
torch.set_num_threads(P.threads)

# %% [markdown]
# ## Where this ends
#
# The picture is the model of this notebook at work on a real description. Read it from below: a GRU goes over the words of each sentence, in both directions; *attention* makes one vector $s_i$ of each sentence; a second GRU goes over the sentences; attention makes one vector $v$ of the document; and $v$ answers.

# %%
experiment = Experiment(fold=P.fold)
sample = experiment.snapshot.find("tcpreplay")
draw.hierarchy([line.rstrip(".").split() for line in sample.lines[:3]], "which section?")
plt.show()

# %% [markdown]
# The orange arrows are what this notebook is about: how wide each of them is, how to compute that for many documents at once, and what it tells you.
#
# ## 1. The documents
#
# Debian files each package under a section. Can a model tell the section from the description? The snapshot under `data/debian` holds descriptions of eight sections, at least three sentences of prose each, taken from the archive's own indices by a script that stands beside it.

# %%
snapshot = experiment.snapshot
train, test = experiment.documents
print("Debian", snapshot.about["version"], "of", snapshot.about["date"])
print(len(train), "documents to learn from,", len(test), "held out")
sizes = Counter(d.section for d in test).most_common()
print("held out:", ", ".join(f"{section} {n}" for section, n in sizes))
print(f"who always says {sizes[0][0]!r} is right in {sizes[0][1] / len(test):.3f} of them")
print("source packages on both sides:", len({d.source for d in train} & {d.source for d in test}))

# %% [markdown]
# One source package often builds several packages with nearly the same text. Split by *package*, and the test set would contain twins of what was learned; so the split is by *source*, and a source gives two documents at most.
#
# The text is cleaned before it is split into sentences and words: links, headers such as `Homepage:` and bullets are removed, and `<name>` replaces the package's own name. A name such as `aspell-ga` would give the section away.

# %%
print(sample.text[:230], "...\n")
for line in sample.lines[:2]:
    print("-", line)
print("\nwhat a model reads:", *sample.sentences[0])

# %% [markdown]
# ### The bar
#
# First, something simple and strong: count the words of each document, weigh each count by how rare the word is elsewhere ([TF-IDF](glossary.md#tf-idf)), and fit a logistic regression. No order, no sentences, no vectors, a few seconds. A deep model that does not reach this has no business here.
#
# > **Predict.** Always naming the most frequent section gets what the last line above says. What accuracy does counting words reach?

# %%
bar = experiment.bar()
print(f"TF-IDF and logistic regression: right in {bar:.3f} of the held-out documents")

# %% [markdown]
# ## 2. Attention by hand
#
# The GRU leaves one state for each word. How do you make one vector of a sentence's states? Their mean treats all words alike. *Attention* asks each state how well it fits a learned *context vector* $u_w$, turns the answers into weights with a softmax, and takes the weighted mean:
#
# $$u_{it}=\tanh(W_wh_{it}+b_w),\qquad \alpha_{it}=\frac{\exp(u_{it}^\top u_w)}{\sum_{t'}\exp(u_{it'}^\top u_w)},\qquad s_i=\sum_t\alpha_{it}h_{it}.$$
#
# Take three words with states of two numbers each, $W_w$ the identity and $b_w=0$:
#
# > **Predict.** Which of the three words in the next cell gets the largest weight: more than half of the total, or less?

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
# A tensor has rows of one length; sentences have not. Two measures make tensors of them. **Cut** what is longer than most: the limit is a *quantile*, the length that 95 % of the sentences do not exceed. **Pad** what is shorter with a number that stands for no word.

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
# Most sentences are far shorter than the longest, so most of a padded table is padding. All $S$ sentences of a batch lie in one table $(S, W)$ of word numbers, with their lengths and the number of sentences of each document beside it. Here are two small documents:

# %%
# 0 is padding, 1 an unknown word, and say 2 is "a", 3 "tool", 4 "it", 5 "plays", 6 "music"
two = [[[2, 3], [4, 5, 6]], [[2, 1]]]  # "a tool. it plays music" and "a (unknown word)"
table = documents.Batch.of(two)
print(table.words)
print("words of each sentence:     ", table.lengths.tolist())
print("sentences of each document: ", table.counts.tolist())

# %% [markdown]
# A *mask* says which places of the table hold a word.
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
# From words to sentences by a *bidirectional* GRU (two GRUs, one reading from the left and one from the right, their states side by side) and attention; from sentences to a document by another such pair; a linear layer answers. The two levels do not share weights.
#
# $$x_{it}\xrightarrow{\text{GRU}}h_{it}\xrightarrow{\alpha_{it}}s_i\xrightarrow{\text{GRU}}h_i\xrightarrow{\alpha_i}v\xrightarrow{\text{linear}}\text{logits}$$

# The attention is what you wrote in exercises 1 and 3, for $N$ sentences at once:

# %%
print(inspect.getsource(model.AttentionPooling))

# %% [markdown]
# The *encoder* of a level is GRU and attention together. It [packs](glossary.md#packed-sequence) the table before the GRU: a packed sequence holds the real words only, step by step, and says how many sentences are still going on at each step. No step reads padding, and the GRU from the right starts at each sentence's own last word. `vectors` looks up word vectors of those words.

# %%
print(inspect.getsource(model.Encoder.forward))
print(inspect.getsource(model.HierarchicalAttention.read))

# %% [markdown]
# So padding must change nothing. Test it: add 25 useless columns. And since 03 gave us a GRU of our own, put that in too.

# %%
few = [experiment.encode(d) for d in test[:8]]
fresh = experiment.model("hierarchical attention").eval()
own = model.HierarchicalAttention(fresh.embedding, 8, experiment.hidden, gru="ours").eval()
own.load_state_dict(fresh.state_dict())
with torch.no_grad():
    logits = fresh(documents.Batch.of(few))
    wider = fresh(documents.Batch.of(few, padding=25))
    ours = own(documents.Batch.of(few))
print(f"25 columns of padding move the logits by {(wider - logits).abs().max().item():.1e}")
print(f"our GRU for nn.GRU moves them by         {(ours - logits).abs().max().item():.1e}")

# %% [markdown]
# ## 5. One at a time, or all at once
#
# The first implementation one writes is a loop over sentences, and in it over words, to collect every state. The same numbers come out of one packed batch. Four ways to do a training step's forward and backward pass, the last of which pads and neither packs nor masks:
#
# > **Predict.** How much faster than one sentence at a time is the packed batch: 2, 10 or 30 times?

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
# Three agree to rounding. A step of a GRU costs nearly as much for one sentence as for hundreds, so the fewer steps, the better. The fourth is fast as well, and its logits are *wrong*: it reads padding as if it were words.
#
# ### Exercise 4: fast, yet wrong
#
# *Difficulty ●●●, 10 minutes.* Which of these are true of the padded version without a mask?
#
# - **a** Every document's logits are wrong, whatever the batch.
# - **b** The backward GRU starts in the padding, so a short sentence's states depend on how long the longest one is.
# - **c** The softmax gives weight to padding, so the weights of the words no longer sum to 1.
# - **d** Where it is faster than the packed version, it is so because it does less arithmetic.
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
# The word vectors start from vectors of our own: pretrained without labels on the descriptions of all *other* source packages (`data/debian/word_vectors.py` says how), and trained on from there. Three things keep the few thousand documents from being learned by heart: *dropout* sets some numbers of every vector to 0, *word dropout* reads some words as unknown, and *smoothed labels* ask for 0.9 of the true section and spread the rest over all eight. While the cell runs, the bar shows how far it is, with the loss of the last batches.

# %%
print(inspect.signature(training.Recipe))  # rate: Adam's; clip: norm of the gradient
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
# The smoothed loss cannot fall to 0: with a tenth of each label spread over eight sections, even a perfect model stays at 0.47.
#
# ### Beside the simpler models
#
# Does it need the hierarchy, does it need the attention? Three simpler models, with the same word vectors and the same split, answer that:
#
# | model | what is left out |
# |---|---|
# | hierarchy without attention | the weights: a plain mean of the states, on both levels |
# | flat GRU | the hierarchy: one GRU and one attention over all words of the document |
# | average of embeddings | everything: the mean of the word vectors, and a linear layer |
#
# One seed is an anecdote: the same model trained twice differs by a percent. `make bench SUITE=attention` trains each of the four with three seeds. What it wrote, on the machine named under the picture:


# %%
found = records.load(DATA / "bench", "attention")  # newest first
rows = [r for r in found[0].suites["attention"] if r.name.startswith("accuracy")] if found else []
scores = {r.name.removeprefix("accuracy: "): r.parameters["values"] for r in rows}
if scores:
    draw.accuracies(scores, rows[0].peer_value, "TF-IDF + logistic regression")
    plt.show()
    print(found[0].date, "·", found[0].machine.get("cpu"), "·", found[0].command)
else:
    print("No record here: run `make bench SUITE=attention` (ten minutes or more).")

# %%
for row in rows:
    name, spread = row.name.removeprefix("accuracy: "), row.parameters["spread"]
    print(f"{name:28} median {row.value:.3f}  spread {spread:.3f}  {row.parameters['cpu_s']:.0f} s")
    if name != MODELS[0]:
        full, simpler = scores[MODELS[0]], scores[name]
        better, worse = min(full) > max(simpler), max(full) < min(simpler)
        verdict = "is better" if better else "is worse" if worse else "is not shown to differ"
        print(
            f"    hierarchical attention {verdict}, by the medians {rows[0].value - row.value:+.3f}"
        )
print(f"standard error of one share: {(bar * (1 - bar) / len(test)) ** 0.5:.3f}")

# %%
for row in found[0].suites["attention"] if found else ():
    if row.name.startswith("another split"):
        print(f"{row.name:42} {row.value:.3f}   ({row.peer}: {row.peer_value:.3f})")

# %% [markdown]
# "Is better" means that its worst seed beats the other's best, "is not shown to differ" that their seeds overlap; the last column is processor time. Taken alone, the record that comes with the course would say: hierarchical attention is ahead of everything, so both attention and hierarchy help. Now look at the last lines. On another fifth of the packages, the order is not the same:
#
# - **That the model beats counted words** holds on both splits, by about a percent.
# - **The hierarchy**, with attention, is ahead of one flat GRU with attention on both splits, and costs less than half: its steps are the words of the longest *sentence*, not those of the longest document.
# - **Attention** is ahead of plain means on the first split and behind on the other. Epochs, batch and rate were chosen with the full model on the first split, which flatters it there. *That attention helps is not shown.*
# - **Little of the answer is in the order.** The average of word vectors, which knows no order at all, is never far behind. Descriptions are short, and single words such as *protein* or *synthesizer* nearly give the section away.
#
# Seeds vary the training only. A verdict on an architecture needs several splits as well: which documents happen to be held out gives each share the standard error printed above, larger than most of these gaps.
#
# ## 7. Where it goes wrong

# %%
answers = training.predict(net, x_test).argmax(1)
counts = torch.zeros(8, 8, dtype=torch.int64)
counts.index_put_((torch.tensor(y_test), answers), torch.tensor(1), accumulate=True)
draw.confusion(counts.numpy(), snapshot.sections)
plt.show()

# %% [markdown]
# A row is a true section, and its shares add up to 1; on the diagonal stand the answers that are right. Look for the largest shares beside the diagonal: they are confusions that people make too, since a web server's tool may be filed under *net*, *web* or *admin*.
#
# ## 8. What it attends to
#
# Pick a held-out package. The blue bar before a sentence is the sentence's weight $\alpha_i$ in the document; the shade of a word is its weight $\alpha_{it}$ in the sentence, in multiples of an equal share: none up to half of an equal share, full from 4.5 times it on. Point at a word for its weight.


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

# %% [markdown]
# One document can be luck. Over many held-out documents, which words get the most weight on average, by section?

# %%
read = explain.most_attended(
    net, x_test[: 2 * P.explained], y_test[: 2 * P.explained], experiment.vocabulary.words
)
for label, words in read.items():
    print(f"{snapshot.sections[label]:9} {', '.join(words)}")

# %% [markdown]
# ## 9. Is that an explanation?
#
# A heat map persuades because we nod at the words. A claim needs a test that can fail: if the most attended words decide, then hiding *them* (reading them as unknown) must hurt the answer more than hiding as many random words. A word's share of the document is $\alpha_i\alpha_{it}$.

# %%
hidden = (0, 1, 2, 4, 8, 16)
explained = x_test[: P.explained]
size = sum(len(s) for d in explained for s in d) / len(explained)
print(f"{len(explained)} documents of {size:.0f} words on average")

# %% [markdown]
# > **Predict.** Hide the four most attended words of so many. How far does the probability of the model's own answer fall? And for four random ones?

# %%
curves = explain.deletion(net, explained, hidden)
draw.deletion(curves, hidden)
plt.show()
for name, values in curves.items():
    print(f"{name:14}", "  ".join(f"{n}: {v:.3f}" for n, v in zip(hidden, values, strict=True)))
drop = {name: values[0] - values[3] for name, values in curves.items()}
print(f"hiding 4: {drop['most attended']:.3f} lost, at random {drop['random']:.3f}")

# %% [markdown]
# The gap between the two curves is what attention knows about the model's decision. The height at which the lower curve stays is what it does *not* know: that much of the answer survives without its "explanation". So the weights are a hint at where the model looks, and no account of why it answers. (They cannot be more: $h_{it}$ holds the whole sentence, not the word under the shade.)
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
# | the hierarchy makes for a better representation of the text | section 6: ahead of one flat GRU on both splits, by a percent or so; whether attention helps changes with the split |
#
# ## Summary
#
# - Attention pooling is a softmax over scores and a weighted mean of states: three lines.
# - Packing gives what the loop gives, many times faster; padding without a mask is as fast, and wrong.
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
