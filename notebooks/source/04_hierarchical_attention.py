# %% [markdown]
# # Train hierarchical attention, and check what it attends to
#
# At the end you will have built a model that reads documents sentence by sentence, trained it on real package descriptions, compared it with simpler models, and tested whether what it attends to explains what it answers.

# %% [markdown]
# **You will be able to**
#
# - write [attention](glossary.md#attention) pooling and the [mask](glossary.md#mask) that keeps [padding](glossary.md#padding) out of it;
# - batch sequences of unequal length, many times faster than a loop and with the same results;
# - hold documents out so that nothing leaks, and judge a deep model against a strong simple one, document by document;
# - test attention as an explanation, and find a better one, instead of believing a heat map.
#
# **You need** [03](03_gru_derivation.ipynb) (the GRU) and PyTorch. *Time:* 100 minutes, of which your machine works for about two, mostly in the training. *Cores:* one. *GPU:* none.

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
# (Read $u_w$ as a *query* that is learned once and is the same for every sentence, and $u_{it}$ as the *key* of a word: then this is the attention of transformers (networks made of attention, without recurrence) with a single query, a key through a tanh, and the state itself as the *value*.)
#
# Yang et al. (2016) write the GRU as $h_t=(1-z_t)\circ h_{t-1}+z_t\circ\tilde h_t$: their update gate is PyTorch's reversed, $z_{\text{paper}}=1-z_{\text{PyTorch}}$. The two describe the same family of functions, with the block of $z$ negated. The code below is PyTorch's.

# %% [markdown]
# ## Set-up

# %%
import inspect
import random
from collections import Counter
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import HTML, display
from ipywidgets import Dropdown, IntProgress, Label, VBox, interact

from helpers import claims
from helpers.attention import batching, counting, documents, explain, model, training
from helpers.attention.experiment import Experiment
from helpers.exercises import attention as check
from helpers.plots import attention as draw
from helpers.plots import style
from helpers.predictions import Prediction
from helpers.timing import measure

style.use()


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    """What this notebook runs."""

    fold: int = 0  # the fifth of the source packages that is held out
    epochs: int = 5  # times over the training documents, at most
    validation: float = 0.1  # share of the sources that say which epoch is kept
    threads: int = 1  # of torch; on an idle machine try 2
    speed_documents: int = 16
    explained: int = 120  # test documents for the pictures and the check by deletion


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
# The orange arrows are what this notebook is about: which share of $s_i$ and $v$ comes along each of them, how to compute that for many documents at once, and what it tells you. (Here they are all alike; the section on [what the model attends to](#What-it-attends-to) draws them again, as wide as a trained model's weights.)
#
# ## The documents
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
# ### Exercise 1: hold out
#
# *Difficulty ●○○, 5 minutes.* The same care is needed once more, *inside* the training documents: some are held out to say when to stop training. For each document you get the name of its source; hold out a share of the *sources*, chosen at random, with all their documents.
#
# <details><summary>Hint</summary>
#
# Choose from the names without repetition: `random.sample(names, k)`.
#
# </details>


# %% exercise="hold-out"
def hold_out(sources, share):
    """Return a list of bool, one for each document: whether it is held out."""
    # BEGIN SOLUTION
    names = sorted(set(sources))
    chosen = set(random.Random(0).sample(names, round(share * len(names))))
    return [source in chosen for source in sources]
    # END SOLUTION


# %% check="hold-out" points=1
check.held_out_sources(hold_out)

# %% [markdown]
# The section on [training](#Train) trains with your choice.
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
# First, something simple and strong: count the words of each document and its pairs of neighbouring words, weigh each count by how rare the word or pair is elsewhere ([TF-IDF](glossary.md#tf-idf)), and draw a plane between the sections with a linear *support vector machine* (SVM). No sentences, no vectors, hardly any order, some seconds. A deep model that does not reach this has no business here.
#
# > **Predict.** Always naming the most frequent section gets what the last line above says. What accuracy does counting words reach? And counting them where the split is by *package*, so that twins stand on both sides: how much more?

# %%
counted = Prediction("accuracy of counted words", None)  # your number for None, such as 0.5
twins = Prediction("what twins add to it", None)  # such as 0.1

# %%
bar_right = counting.right(counting.KINDS[0], train, test)  # (documents held out), bool
bar = bar_right.mean()
error = (bar * (1 - bar) / len(test)) ** 0.5
print(f"TF-IDF and linear SVM: right in {bar:.3f} of the held-out documents")
print(f"standard error of such a share: {error:.3f}")
counted.answer(bar)
twins.answer(claims.evidence("04-twins").rows[0].parameters["effect"])

# %% [markdown] claims="04-two-words 04-twins"
# The *standard error* says how far such a share would move if other documents had been held out. The second answer comes from a record of runs over five splits, and so does a comparison with simpler counting:

# %%
for name in ("04-two-words", "04-twins"):
    display(claims.evidence(name))

# %% [markdown]
# With all documents the SVM on words and pairs is half a point ahead of a logistic regression on single words (two changes at once); with a quarter of them five splits cannot tell. Twins add three to four points, more than any lead that follows with all documents: split by package, counted words look better than they are.
#
# ## Attention by hand
#
# The GRU leaves one state for each word. How do you make one vector of a sentence's states? Their mean treats all words alike. *Attention* asks each state how well it fits a learned *context vector* $u_w$, turns the answers into weights with a softmax, and takes the weighted mean:
#
# $$u_{it}=\tanh(W_wh_{it}+b_w),\qquad \alpha_{it}=\frac{\exp(u_{it}^\top u_w)}{\sum_{t'}\exp(u_{it'}^\top u_w)},\qquad s_i=\sum_t\alpha_{it}h_{it}.$$
#
# Take three words with states of two numbers each, $W_w$ the identity and $b_w=0$:
#
# > **Predict.** With $u_w=(2, 1)$ and the states $(0.1, 0)$, $(0.9, 0.8)$, $(-0.5, 0.2)$: how much of the total weight does the second word get?

# %%
second = Prediction("weight of the second word", None)  # your number for None

# %%
h = torch.tensor([[0.1, 0.0], [0.9, 0.8], [-0.5, 0.2]])  # three words, two units
u_w = torch.tensor([2.0, 1.0])
score = torch.tanh(h) @ u_w
alpha = score.exp() / score.exp().sum()
print("scores ", [f"{value:+.2f}" for value in score])
print("weights", [f"{value:.2f}" for value in alpha], "  sum", f"{alpha.sum():.2f}")
print("summary", [f"{value:.2f}" for value in alpha @ h], " mean", [f"{v:.2f}" for v in h.mean(0)])
second.answer(alpha[1].item())

# %% [markdown]
# The second word fits best and the summary lies near its state.
#
# ### Exercise 2: attention pooling
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
# ## Unequal lengths
#
# A tensor has rows of one length; sentences have not. Two measures make tensors of them. **Cut** what is longer than most: the limit is a *quantile*, the length that 95 % of the sentences do not exceed. **Pad** what is shorter with a number that stands for no word.

# %%
lengths = [len(s) for d in train for s in d.sentences]
print("sentences: 95 % quantile", experiment.limits.words, "words, longest", max(lengths))
print("documents: 95 % quantile", experiment.limits.sentences, "sentences,",
      "longest", max(len(d.sentences) for d in train))  # fmt: skip
_, ax = plt.subplots(figsize=(9, 3))
ax.hist(np.minimum(lengths, 80), bins=range(1, 82))
ax.axvline(experiment.limits.words, color=style.VERMILION, label="read up to here")
ax.set(xlabel="words in a sentence (the last bar: 80 and more)", ylabel="sentences")
ax.legend()
plt.show()

# %% [markdown]
# (The very longest is no sentence: it is a list without a full stop, which the splitter could not cut.) Most sentences are far shorter than the longest, so most of a padded table is padding. All $S$ sentences of a batch lie in one table $(S, W)$ of word numbers, with their lengths and the number of sentences of each document beside it. Here are two small documents:

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
# ### Exercise 3: the mask
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
# ### Exercise 4: a softmax that does not see padding
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
# ## The model
#
# From words to sentences by a *bidirectional* GRU (two GRUs, one reading from the left and one from the right, their states side by side) and attention; from sentences to a document by another such pair; a linear layer answers. The two levels do not share weights.
#
# $$x_{it}\xrightarrow{\text{GRU}}h_{it}\xrightarrow{\alpha_{it}}s_i\xrightarrow{\text{GRU}}h_i\xrightarrow{\alpha_i}v\xrightarrow{\text{linear}}\text{logits}$$

# The *logits* are one number for each class, whose softmax are the probabilities that the model gives. The attention is what you wrote in exercises 2 and 4, for $N$ sentences at once:

# %%
print(inspect.getsource(model.AttentionPooling))

# %%
if check.attention_pooling.passed(pool):
    with torch.no_grad(), torch.random.fork_rng():  # what follows draws as if this had not
        layer, sentence = model.AttentionPooling(4), torch.randn(5, 4)
        many, _ = layer(sentence[None], torch.ones(1, 5, dtype=torch.bool))
        one, _ = pool(sentence, layer.represent.weight, layer.represent.bias, layer.context)
    print(f"your pooling of one sentence and this layer's: {(one - many[0]).abs().max():.0e} apart")
else:
    print("Exercise 2 first")

# %% [markdown]
# If your mask and your softmax are right, the models below use them in its place:


# %%
class Yours(model.AttentionPooling):
    """Attention pooling with the reader's softmax and mask."""

    def forward(self, h, keep):
        """Return s (N, H) and the weights (N, L) from h (N, L, H)."""
        keep = make_mask(keep.sum(1), h.shape[1])
        weight = masked_softmax(torch.tanh(self.represent(h)) @ self.context, keep)
        return torch.einsum("nl,nlh->nh", weight, h), weight


def with_yours(net):
    """Put the reader's attention into both levels, if it is right; return the model."""
    answers = ((check.mask_from_lengths, make_mask), (check.masked_softmax, masked_softmax))
    if all(one.passed(answer) for one, answer in answers):
        net.word.pool.__class__ = net.sentence.pool.__class__ = Yours
    return net


# %% [markdown]
# The *encoder* of a level is GRU and attention together. It [packs](glossary.md#packed-sequence) the table before the GRU: a packed sequence holds the real words only, step by step, and says how many sentences are still going on at each step. No step reads padding, and the GRU from the right starts at each sentence's own last word. `vectors` looks up word vectors of those words.

# %%
print(inspect.getsource(model.Encoder.forward))
print(inspect.getsource(model.HierarchicalAttention.read))

# %% [markdown]
# So padding must change nothing. Test it: add 25 useless columns. And since 03 gave us a GRU of our own, put that in too.

# %%
few = [experiment.encode(d) for d in test[:8]]
fresh = with_yours(experiment.model("hierarchical attention")).eval()
own = model.HierarchicalAttention(fresh.embedding, 8, experiment.hidden, gru="ours").eval()
own.load_state_dict(fresh.state_dict())
with torch.no_grad():
    logits = fresh(documents.Batch.of(few))
    wider = fresh(documents.Batch.of(few, padding=25))
    ours = own(documents.Batch.of(few))
print("attention by", type(fresh.word.pool).__name__)
print(f"25 columns of padding move the logits by {(wider - logits).abs().max().item():.1e}")
print(f"our GRU for nn.GRU moves them by         {(ours - logits).abs().max().item():.1e}")

# %% [markdown]
# ## One at a time, or all at once
#
# The first implementation one writes is a loop over sentences, and in it over words, to collect every state. The same numbers come out of one packed batch. Four ways to do a training step's forward and backward pass, the last of which pads and neither packs nor masks:
#
# > **Predict.** How many times faster than one sentence at a time is the packed batch?

# %%
faster = Prediction("packed, times as fast as one sentence at a time", None)  # your number

# %%
chosen = experiment.data[0][: P.speed_documents]
plain = experiment.model("hierarchical attention").eval()
torch.set_num_threads(1)
with torch.no_grad():
    right = batching.by_sentence(plain, chosen)
taken = {name: [] for name in batching.WAYS}
for _ in range(3):  # interleaved
    for name, way in batching.WAYS.items():
        work = lambda w=way: batching.forward_backward(w, plain, chosen)  # noqa: E731
        taken[name].append(measure(work, repeats=1, warmup=0).best)
slowest = min(taken["one sentence at a time"])
for name, way in batching.WAYS.items():
    least = min(taken[name])
    off = (way(plain, chosen) - right).abs().max().item()
    print(f"{name:24}{len(chosen) / least:7.0f} docs/s {slowest / least:6.1f} x   off by {off:.0e}")
faster.answer(slowest / min(taken["all sentences packed"]))
torch.set_num_threads(P.threads)

# %% [markdown] claims="04-step 04-packed 04-padded-time"
# One document at a time and all packed give what the loop gives, to rounding. The fourth way gives other logits: it reads padding as if it were words. Why does packing gain so much? A GRU's step over 64 sentences takes less than twice the time of a step over one, so that what counts is the number of steps:

# %%
for name in ("04-step", "04-packed", "04-padded-time"):
    display(claims.evidence(name))

# %% [markdown]
# Packed, the batches took a fourteenth and a twenty-fifth of the time, on both processors that the records are of. Padding without a mask takes as long as packing or less: with 8 documents an eighth less on the one processor and 9 % on the other, with 24 of them 6 % less and nothing. What the mask buys is not time.
#
# ### Exercise 5: padding without a mask
#
# *Difficulty ●●○, 15 minutes.* Which of these are true of the version that pads and has no mask?
#
# - **a** A document that is alone in its batch gets the right logits: nothing else is there to pad it for.
# - **b** The backward GRU starts in the padding, so a short sentence's states depend on how long the longest of the batch is.
# - **c** The softmax gives weight to padding, so the weights of the words no longer sum to 1.
# - **d** Where it is faster than the packed version, it is so because it does less arithmetic.
# - **e** With every sentence padded to one and the same length, and every document to one number of sentences, a document's logits are the same in every batch.
#
# The next cell has what you need to try them: documents alone and together, packed, padded to the longest of the batch, and padded to the limits of the section on [unequal lengths](#Unequal-lengths).
#
# <details><summary>Hint</summary>
#
# For **a**, look at a document whose own sentences differ in length. For **d**, count the places of the table and the words in it.
#
# </details>

# %%
ways = {"packed": plain, "to the batch": batching.Unmasked(plain).eval()}
ways["to one length"] = batching.Unmasked(plain, experiment.limits).eval()
pair = sorted(chosen, key=lambda d: max(map(len, d)))[:: len(chosen) - 1]  # by longest sentence
print("words of each sentence:", [[len(sentence) for sentence in d] for d in pair])
with torch.no_grad():
    for name, way in ways.items():
        alone, beside = way(documents.Batch.of(pair[:1]))[0], way(documents.Batch.of(pair))[0]
        off = (alone - plain(documents.Batch.of(pair[:1]))[0]).abs().max().item()
        print(f"{name:14} alone, off by {off:.0e};"
              f" beside another document, moved by {(beside - alone).abs().max().item():.0e}")  # fmt: skip

# %% exercise="padding"
letters = None  # replace None by a text such as "ad"
# BEGIN SOLUTION
letters = "bce"
# END SOLUTION

# %% check="padding" points=2
check.why_padding_is_wrong(letters)

# %% [markdown] claims="04-padding-trained 04-padding-batch"
# So is it wrong? The logits are not those of the model with a mask. But a model may be *trained* with its padding, and then it has learned to live with it. Both kinds were trained, on five splits:

# %%
for name in ("04-padding-trained", "04-padding-batch"):
    display(claims.evidence(name))

# %% [markdown]
# - **As often right?** With a quarter of the documents nine of the ten trainings were right less often, by four points on average. But the splits differ so much among themselves, from nothing to eleven points, that five of them leave it *open*.
# - **Padded to the longest of the batch**, 2.8 % of the documents get another answer when they are asked about alone: what the model says of a text depends on who else is in the room.
# - **Padded to one length for all**, as the source does it, none does; the price is more arithmetic.
#
# `batching.Unmasked` can be trained like any model: try it in the section on [training](#Train) in place of `net`.
#
# ## Train
#
# The word vectors start from vectors of our own: pretrained without labels on the descriptions of all *other* source packages, by a truncated singular value decomposition (SVD) of a table that says how much more often than by chance two words stand near each other (`data/debian/word_vectors.py` says how), and trained on from there. Three things are there to keep the few thousand documents from being learned by heart (what each of them is worth was not measured here): *dropout* sets some numbers of every vector to 0, *word dropout* reads some words as unknown, and *smoothed labels* ask for 0.9 of the true section and spread the rest over all eight. While the cell runs, the bar shows how far it is, with the loss of the last batches.

# %%
print(inspect.getsource(training.Recipe))

# %% [markdown]
# How often to go over the documents is chosen by documents that are neither trained on nor tested with: after each epoch the loss on them is taken, and the model ends with the weights for which it was least. They are those of your exercise 1, if it is right.

# %%
x, y, x_test, y_test = experiment.data
sources = [d.source for d in train]
mine = check.held_out_sources.passed(hold_out)
out = hold_out(sources, P.validation) if mine else experiment.validation
learn, validate = (
    [[v for v, held in zip(values, out, strict=True) if bool(held) is side] for values in (x, y)]
    for side in (False, True)
)
print(f"{len(learn[0])} documents to learn from, {len(validate[0])} that say when to stop,"
      f" {len(x_test)} held out; chosen by {'you' if mine else 'the course'}")  # fmt: skip
bar_widget, text = IntProgress(description="training"), Label()
display(VBox([bar_widget, text]))


# %%
def show_progress(step, steps, loss):
    """Move the bar; write the loss every ten steps."""
    bar_widget.max, bar_widget.value = steps, step
    if step % 10 == 0 or step == steps:
        text.value = f"step {step} of {steps}, loss {loss:.3f}"


net = with_yours(experiment.model("hierarchical attention", seed=0))
recipe = training.Recipe(epochs=P.epochs)
done = training.train(net, *learn, recipe, show_progress, validation=validate)
answers = training.predict(net, x_test).argmax(1)
net_right = answers.numpy() == np.array(y_test)
print(f"trained in {done.seconds:.0f} s; loss on the validation documents after each epoch:",
      *(f"{loss:.3f}" for loss in done.losses), f"- epoch {done.kept} is kept")  # fmt: skip
print(f"held-out accuracy {net_right.mean():.3f}, the bar is {bar:.3f}")

# %% [markdown]
# The smoothed loss of the training cannot fall to 0: with a tenth of each label spread over eight sections, even a perfect model stays at 0.47.
#
# ### Exercise 6: a fair comparison
#
# *Difficulty ●●○, 10 minutes.* Two shares of the same documents are not two independent numbers. Most documents both models get right, or both wrong, and those say nothing about which is better. What counts are the documents that only one of them has right. If the two were equally good, each such document would fall to either side like a coin: the *sign test* asks how probable a split at least this uneven is, on either side. Return how many documents only the first has right, how many only the second, and that probability.
#
# <details><summary>Hint</summary>
#
# `scipy.stats.binomtest(a, a + b).pvalue`. The inputs are NumPy arrays of bool: `mine & ~theirs`.
#
# </details>


# %% exercise="paired"
def paired(mine, theirs):
    """Return (only mine, only theirs, p) from two arrays of bool (documents)."""
    # BEGIN SOLUTION
    from scipy.stats import binomtest

    a, b = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    return a, b, binomtest(a, a + b).pvalue
    # END SOLUTION


# %% check="paired" points=2
check.paired_comparison(paired)

# %%
if check.paired_comparison.passed(paired):
    only_net, only_bar, p = paired(net_right, bar_right)
    print(f"only the network is right: {only_net}; only counted words: {only_bar}; p = {p:.2f}")

# %% [markdown]
# ### Over five splits, beside the simpler models
#
# One split is an anecdote, and one training too. Does the network beat counted words? Does it need the hierarchy, does it need the attention? Three simpler networks, with the same word vectors and the same splits, answer that:
#
# | model | what is left out |
# |---|---|
# | hierarchy without attention | the weights: a plain mean of the states, on both levels |
# | flat GRU | the hierarchy: one GRU and one attention over all words of the document |
# | average of embeddings | everything: the mean of the word vectors, and a linear layer |
#
# > **Predict.** In how many of the five splits, learning from all documents, is hierarchical attention ahead of counted words?

# %%
splits = Prediction("splits in which it is ahead of counted words", None)  # 0 to 5

# %% [markdown] claims="04-bar 04-bar-documents 04-bar-rate 04-hierarchy 04-hierarchy-rate 04-hierarchy-both"
# Each fifth of the source packages is held out in turn, each model stops where its validation documents say, and what is compared are two models on the same fifth. `make claims NB=04` trains them all; here is its record.

# %%
rivals = {"04-bar": "counted words", "04-hierarchy": "flat GRU"}
found = {name: claims.evidence(name) for name in rivals}
compared = {}
for name, rival in rivals.items():
    for row in found[name].rows:
        setting = row.parameters["setting"].removesuffix(" of them")
        compared[f"{rival}, {setting}"] = row.parameters["values"]
draw.differences(compared, margin=0.005).set_title("hierarchical attention ahead of ...")
plt.show()
splits.answer(sum(ours > rival for ours, rival in compared["counted words, all documents"]))

# %%
for name in (*rivals, "04-bar-documents"):
    display(claims.evidence(name))

# %% [markdown]
# A dot is a split, the diamond the mean of the five, the bar its 95 % interval; a lead of less than half a point, the grey band, does not count. Two models *tie* where the whole interval lies within 1.5 points, a little more than the standard error of one split.
#
# - **Counted words.** With all documents the two tie. With a quarter of them the network is behind in every split, by such different amounts that the mean stays *open*; but of the documents that only one of the two has right it has 41 %.
# - **The hierarchy** is ahead of one flat GRU, by one point with all documents and by four with a quarter.
#
# Are these gaps due to the architecture, or to the training? Both models were trained at one learning rate, 0.004. So change only the rate: first the rival's, then both, and then the network's beside counted words:

# %%
for name in ("04-hierarchy-rate", "04-hierarchy-both", "04-bar-rate"):
    display(claims.evidence(name))

# %% [markdown]
# **With a quarter of the documents the rate decides.** At twice its rate the flat GRU overtakes the hierarchy in every split; at half of it, it falls sixteen points behind. Where both have twice the rate, the hierarchy is ahead again, though by so different leads that it stays *open*. And the network that was behind counted words is ahead of them in every split, by nearly two points. Only the lead over the flat GRU with all documents stays one point at either rate, so this lead probably reflects the architecture.
#
# What of attention against plain means, and of order against an average of word vectors? At the rate above both look like clear leads. At other rates they shrink to nothing: with a quarter of the documents, attention's six points at 0.004 are none at 0.016, and an average of word vectors at a rate of 0.02 reaches what the network reaches. (Tried on the same splits, outside these records.) Compare architectures only after you tuned each of them.
#
# Batch, rate and number of epochs were chosen with the full model on the first split, so its first-split result is optimistic. The network gives a tenth of its sources to the question of when to stop; counted words learn from all. The five splits share much of what is learned from, so the intervals are rather too narrow.
#
# How far do single words carry? Take the words that stand in ten training documents or more, nine tenths of them of one section, and answer with the section that most such words of a document name:

# %%
seen = {}  # word → in how many documents of each section it stands
for d in train:
    for word in set(d.words):
        seen.setdefault(word, Counter())[d.section] += 1
telling = {}
for word, sections in seen.items():
    section, n = sections.most_common(1)[0]
    if sections.total() >= 10 and n >= 0.9 * sections.total():
        telling[word] = section
named = [Counter(telling[word] for word in set(d.words) if word in telling) for d in test]
pairs = [(votes, d) for votes, d in zip(named, test, strict=True) if votes]
hits = [votes.most_common(1)[0][0] == d.section for votes, d in pairs]
print(f"{len(telling)} telling words, such as", ", ".join(sorted(telling)[::25]))
print(f"{len(hits) / len(test):.2f} of the held-out documents have one, which is right in",
      f"{np.mean(hits):.2f} of those")  # fmt: skip

# %% [markdown]
# ## Where it goes wrong

# %%
counts = torch.zeros(8, 8, dtype=torch.int64)
counts.index_put_((torch.tensor(y_test), answers), torch.tensor(1), accumulate=True)
draw.confusion(counts.numpy(), snapshot.sections)
plt.show()

# %% [markdown]
# A row is a true section, and its shares add up to 1; on the diagonal stand the answers that are right.
#
# ### Exercise 7: the worst confusion
#
# *Difficulty ●○○, 5 minutes.* From the counts (rows: true sections, columns: answers) find the place beside the diagonal that holds the largest *share of its row*. A section without documents has no shares.
#
# <details><summary>Hint</summary>
#
# Divide each row by its sum, at least 1; set the diagonal to 0; `np.unravel_index(shares.argmax(), shares.shape)`.
#
# </details>


# %% exercise="confused"
def most_confused(counts):
    """Return (row, column) from a NumPy array of counts (C, C)."""
    # BEGIN SOLUTION
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    np.fill_diagonal(shares, 0)
    return np.unravel_index(shares.argmax(), shares.shape)
    # END SOLUTION


# %% check="confused" points=1
check.most_confused(most_confused)

# %%
if check.most_confused.passed(most_confused):
    true, said = most_confused(counts.numpy())
    print(f"filed under {snapshot.sections[true]}, and the model says {snapshot.sections[said]}:")
    for d, label, given in zip(test, y_test, answers.tolist(), strict=True):
        if (label, given) == (true, said):
            print(f"- {d.package}: {d.lines[0][:100]}")

# %% [markdown]
# Read them, and say for each where you would have filed it: that tells a fault of the model from a fault of the label.
#
# ## What it attends to
#
# The picture of the beginning once more, with the weights of the model that you trained. An arrow of the width that all had there carries an equal share; here each is wider or narrower by its weight:

# %%
first = [sentence[:4] for sentence in sample.sentences[:3]]
read = documents.encode(first, experiment.vocabulary)
draw.hierarchy(first, "", found=explain.weights(net, read))
plt.show()

# %% [markdown]
# (It read these words only.) Now whole documents. Pick a held-out package. The blue bar before a sentence is the sentence's weight $\alpha_i$ in the document; the shade of a word is its weight $\alpha_{it}$ in the sentence, in multiples of an equal share: none up to half of an equal share, full from 4.5 times it on. Point at a word for its weight.


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
# One document can be luck. Over many held-out documents, drawn at random, which words get the most weight on average, by section? (The documents stand in the order of the alphabet: the first few hundred would be mostly of sections with names in *a*.)

# %%
drawn = random.Random(0).sample(range(len(x_test)), 3 * P.explained)
read = explain.most_attended(
    net, [x_test[k] for k in drawn], [y_test[k] for k in drawn], experiment.vocabulary.words
)
print("documents drawn:", dict(Counter(snapshot.sections[y_test[k]] for k in drawn)))
for label, words in read.items():
    print(f"{snapshot.sections[label]:9} {', '.join(words)}")

# %% [markdown]
# ## Is that an explanation?
#
# A heat map persuades because we nod at the words. A claim needs a test that can fail: if the most attended words decide, then hiding *them* (reading them as unknown) must hurt the answer more than hiding as many others. A word's share of the document is $\alpha_i\alpha_{it}$. Others are random words, and a rival that explains by other means:
#
# *Gradient × input.* Let $p$ be the probability of the model's answer and $x_{it}$ the vector of a word. To first order, $p$ would lose $\nabla_{x_{it}}p\cdot x_{it}$ if the vector became 0. Those products are scores of the words too, and they look at the model's decision, not at a weight inside it.
#
# ### Exercise 8: gradient times input
#
# *Difficulty ●●○, 10 minutes.* `p` is a function that takes word vectors $(n, I)$ and returns the probability of the answer, a scalar with its graph; `vectors` are those of the document. Return a score for each word, $(n)$.
#
# <details><summary>Hint</summary>
#
# A copy of the vectors that requires a gradient; `torch.autograd.grad`; a sum over the last axis.
#
# </details>


# %% exercise="gradient"
def gradient_scores(p, vectors):
    """Return the scores (n) of the words with these vectors (n, I)."""
    # BEGIN SOLUTION
    x = vectors.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(p(x), x)
    return (gradient * x).sum(1)
    # END SOLUTION


# %% check="gradient" points=2
check.gradient_times_input(gradient_scores)

# %%
hidden = (0, 1, 2, 4, 8, 16)
explained = [x_test[k] for k in drawn[: P.explained]]
size = sum(len(s) for d in explained for s in d) / len(explained)
rankings = {"most attended": explain.by_attention, "random": explain.at_random(0)}
mine = check.gradient_times_input.passed(gradient_scores)


def by_your_gradient(net, document):
    """Score words by the reader's function."""
    vectors, p = explain.in_vectors(net, document)
    return torch.as_tensor(gradient_scores(p, vectors)).detach().tolist()


rankings["gradient × input"] = by_your_gradient if mine else explain.by_gradient
print(f"{len(explained)} documents of {size:.0f} words on average; gradient × input by",
      "you" if mine else "the course")  # fmt: skip

# %% [markdown]
# > **Predict.** Hide the four most attended words of so many. How far does the mean probability of the model's own answer fall? And hiding the four of the largest gradient × input?

# %%
by_weight = Prediction("lost by hiding the four most attended words", None)  # such as 0.5
by_slope = Prediction("lost by hiding four by gradient × input", None)

# %%
curves = explain.deletion(net, explained, hidden, rankings)
draw.deletion(curves, hidden)
plt.show()
for name, values in curves.items():
    print(f"{name:16}", "  ".join(f"{n}: {v:.3f}" for n, v in zip(hidden, values, strict=True)))
by_weight.answer(curves["most attended"][0] - curves["most attended"][3])
by_slope.answer(curves["gradient × input"][0] - curves["gradient × input"][3])

# %% [markdown] claims="04-attention-points 04-attention-rare 04-gradient-explains"
# The gap between random words and the most attended ones is what attention knows about the model's decision. What it does *not* know is the gap to the lowest curve: words that decide, and that a better ranking finds. Over five splits, 200 documents of each:

# %%
for name in ("04-attention-points", "04-attention-rare", "04-gradient-explains"):
    display(claims.evidence(name))

# %% [markdown]
# On average over the five, hiding the four most attended words leaves the answer a probability of 0.67, where four random words leave 0.84: attention points at words that count. That is not because they are rare: the four rarest leave 0.84. But the four of the largest gradient × input leave 0.58. What attention gives the most weight is not what the answer hangs on most. What it lacks is the *sign*: an attended word may speak for the answer or against it. Take the absolute value of gradient × input, and its lead is gone: it then does worse than attention. (Tried on three splits, outside these records.)
#
# ### Exercise 9: the fewest words
#
# *Difficulty ●●●, 30 minutes.* The sharpest question to an explanation: which words, hidden together, make the model answer *something else*, and how few are enough? Rankings give every word one score, once. But after one word is hidden, others matter more or less than before: two words that make a phrase are lost with one of them.
#
# Write a search. `answers` takes a list of $K$ sets of word numbers from 0 to $n-1$ and returns the probabilities $(K, C)$ with those words hidden, all at once. Return a set that changes the most probable class, as small as you can. The check asks for no more words than it takes if, in each round, the word is hidden that costs the first answer most, and allows about $4n^2$ sets.
#
# <details><summary>Hint</summary>
#
# In each round, ask for all sets "hidden so far, and one more" in one call. To go further: at the end, try to bring each hidden word back.
#
# </details>


# %% exercise="fewest"
def fewest(answers, n):
    """Return a small set of words (numbers below n) whose hiding changes the answer."""
    # BEGIN SOLUTION
    first, hidden = answers([set()])[0].argmax(), set()
    while answers([hidden])[0].argmax() == first and len(hidden) < n:
        left = [k for k in range(n) if k not in hidden]
        costs = answers([hidden | {k} for k in left])[:, first]
        hidden = hidden | {left[int(costs.argmin())]}
    return hidden
    # END SOLUTION


# %% check="fewest" points=4
check.fewest_words(fewest)

# %%
short = sorted(explained, key=lambda d: sum(map(len, d)))[5:17]  # a search costs its square
needed = {name: [explain.until_it_changes(net, d, rank(net, d)) for d in short]
          for name, rank in rankings.items()}  # fmt: skip
if check.fewest_words.passed(fewest):
    needed["your search"] = [len(fewest(explain.hiding(net, d), sum(map(len, d)))) for d in short]
print("words hidden until the answer is another, in", len(short), "short documents (-: never)")
for name, values in needed.items():
    print(f"{name:16}", " ".join(f"{'-' if n is None else n:>3}" for n in values))

# %% [markdown]
# So the weights are a hint at where the model looks, and no account of why it answers. They cannot be more: $h_{it}$ holds what the GRU made of the whole sentence, not the word under the shade.
#
# ## What breaks
#
# What looks right and is wrong, you have met in the section on [batches](#One-at-a-time,-or-all-at-once): padding without a mask runs, trains, and gives answers that depend on the neighbours in the batch. Another: a sentence without words has nothing to weigh. The softmax over nothing but $-\infty$ is NaN. Which weights does one such sentence among 64 spoil?

# %%
below, attention = torch.nn.Linear(4, 4), model.AttentionPooling(4)
states, keep = torch.randn(64, 5, 4), torch.ones(64, 5, dtype=torch.bool)
keep[17] = False  # one sentence of 64 has no word
attention(below(states), keep)[0].square().sum().backward()
for name, layer in (("attention", attention), ("the layer below it", below)):
    slopes = torch.cat([w.grad.flatten() for w in layer.parameters()])
    print(f"{name}: {int(slopes.isnan().sum())} of {len(slopes)} gradients are NaN")

# %% [markdown]
# Not the attention itself, whose mask cuts the gradient of that sentence, but every weight below it: the next step of training spoils the whole encoder. So empty documents are refused, by name, and empty sentences are dropped before they get there.

# %%
try:
    documents.encode([[], []], experiment.vocabulary)
except ValueError as error:
    print("refused:", error)
odd = [["a"], ["never-seen-before"], ["word"] * 5000]  # one word; unknown; longer than any limit
ids = documents.encode(odd, experiment.vocabulary, experiment.limits)
print("read:", [len(s) for s in ids], "words; unknown word number", ids[1][0])
print("answer:", snapshot.sections[training.predict(net, [ids]).argmax().item()])

# %% [markdown]
# ## What the sources say, what we measured
#
# | the sources say | here |
# |---|---|
# | a GRU over a sentence, keeping all states, so that `nn.GRU` cannot be called and a loop is needed | `nn.GRU` returns every state; the loop is the slowest row of the table in the section on [batches](#One-at-a-time,-or-all-at-once) |
# | states through an MLP, scored against a context vector, softmax, weighted sum of the states; the same over sentences; two GRUs in all | [attention by hand](#Attention-by-hand) and [the model](#The-model); each of the two reads in both directions, which makes four |
# | sentences must be of one length: cut and padded, the length chosen by quantile | [unequal lengths](#Unequal-lengths). Without a mask the model reads padding as words: cut and padded to one length, its answers are at least the same in every batch; padded to the batch, 2.8 % of them change ([batches](#One-at-a-time,-or-all-at-once)) |
# | the hierarchy makes for a better representation of the text | [training](#Train): ahead of one flat GRU by one point of accuracy, with all documents, over five splits and at two rates |
#
# The paper's own ablation is the same as here: attention against plain means in the same hierarchy (HN-ATT, HN-AVE), on reviews and answers, from hundreds of thousands of documents up. Its model had 50 units a direction and word vectors of 200 numbers and learned by SGD with momentum; this one has 32 and 100, and Adam, dropout and smoothed labels against the small number of documents. None of the paper's accuracies stands beside ours: they are of other documents and other labels, so a difference would say nothing of the model.
#
# ## Summary
#
# - Attention pooling is a softmax over scores and a weighted mean of states: three lines.
# - Packing gives what the loop gives, many times faster; padding without a mask is another model, whose answers depend on the batch unless everything is padded to one length.
# - The simple, strong baseline comes first, the split must not leak, and two models are compared document by document. Here the network ties with counted words; with a quarter of the documents it is behind them or ahead of them, depending on its learning rate.
# - A heat map is a hypothesis; deletion tests it, and finds better explanations.
#
# **In practice**: `torch.nn.utils.rnn.pack_padded_sequence`, nested tensors, `torch.nn.functional.scaled_dot_product_attention` with a mask (where the query is made from the text itself and not learned once, keys are linear, and scores are divided by the root of their length); for classifying text today, a pretrained transformer fine-tuned, with TF-IDF still as the bar.
#
# **References**
# - Yang et al. (2016), *Hierarchical attention networks for document classification*: the model.
# - Levy & Goldberg (2014), *Neural word embedding as implicit matrix factorization*: why an SVD gives word vectors.
# - Jain & Wallace (2019), *Attention is not explanation*, and Wiegreffe & Pinter (2019), *Attention is not not explanation*: the dispute.
# - Serrano & Smith (2019), *Is attention interpretable?*: deletion on hierarchical attention, as in the section on [explanations](#Is-that-an-explanation?).
# - Wang & Manning (2012), *Baselines and bigrams*: how strong counting words is.
#
# **Next**: [09_computation_graphs](09_computation_graphs.ipynb) lets a program derive such gradients, and plan the memory that they take. Nothing to tear down: this notebook started no ranks.
