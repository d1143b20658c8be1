"""Documents, masks, the model: padding changes nothing, all ways agree, bad input is named."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attention.batching import (
    Unmasked,
    by_document,
    by_sentence,
    packed,
    padded_without_mask,
)
from helpers.attention.documents import (
    PADDING,
    UNKNOWN,
    Batch,
    Limits,
    Vocabulary,
    encode,
)
from helpers.attention.model import (
    AttentionPooling,
    Embedding,
    EmbeddingAverage,
    FlatGRU,
    HierarchicalAttention,
    one_sequence,
)

VOCABULARY = Vocabulary("abcdefgh")
sentence = st.lists(st.integers(1, 9), min_size=1, max_size=6)
corpus = st.lists(st.lists(sentence, min_size=1, max_size=4), min_size=1, max_size=4)
few = settings(max_examples=20, deadline=None)
KINDS = {
    "attention": lambda e: HierarchicalAttention(e, 3, hidden=4),
    "mean": lambda e: HierarchicalAttention(e, 3, hidden=4, pooling="mean"),
    "flat": lambda e: FlatGRU(e, 3, hidden=4),
    "average": lambda e: EmbeddingAverage(e, 3),
}


def make(kind="attention", seed=0):
    torch.manual_seed(seed)
    model = KINDS[kind](Embedding(VOCABULARY, 5)).double().eval()
    if kind == "attention":  # as drawn, the context is near 0 and the weights near equal
        for encoder in (model.word, model.sentence):
            encoder.pool.context.data.mul_(50)
    return model


@pytest.mark.parametrize("kind", KINDS)
@given(corpus, st.integers(1, 7))
@few
def test_padding_changes_nothing(kind, documents, padding):
    model = make(kind)
    with torch.no_grad():
        torch.testing.assert_close(
            model(Batch.of(documents, padding=padding)), model(Batch.of(documents))
        )


@pytest.mark.parametrize("kind", KINDS)
@given(corpus)
@few
def test_a_document_does_not_see_its_neighbours(kind, documents):
    model = make(kind)
    with torch.no_grad():
        alone = torch.cat([model(Batch.of([document])) for document in documents])
        torch.testing.assert_close(model(Batch.of(documents)), alone)


def test_padding_without_a_mask_is_read_and_to_one_length_alike_in_every_batch():
    model, documents = make(), [[[2, 3], [4]], [[5, 6, 7, 8, 9, 2], [3, 4, 5]]]
    fixed = Unmasked(model, Limits(words=6, sentences=3))
    with torch.no_grad():
        right, together = packed(model, documents), padded_without_mask(model, documents)
        alone = padded_without_mask(model, documents[:1])
        of_one_length = fixed(Batch.of(documents))
        torch.testing.assert_close(fixed(Batch.of(documents[:1])), of_one_length[:1])
    for gap in (together - right, alone - together[:1], of_one_length - right):
        assert gap.abs().max() > 1e-4


def test_a_batch_moves_its_words_only():
    batch = Batch.of([[[2, 3]]]).to("meta")
    assert batch.words.device.type == "meta"
    assert {batch.lengths.device.type, batch.counts.device.type} == {"cpu"}


@given(corpus)
@few
def test_all_right_ways_agree(documents):
    model = make().float()
    with torch.no_grad():
        expected = packed(model, documents)
        for way in (by_sentence, by_document):
            torch.testing.assert_close(way(model, documents), expected, atol=1e-5, rtol=0)


def test_gradients_agree_with_finite_differences():
    """Of the words' GRU: they pass both levels' states and weights."""
    model, batch = make(), Batch.of([[[2, 3, 4], [5]], [[6]]])
    assert torch.autograd.gradcheck(lambda _: model(batch), model.word.gru.bias_hh_l0)


def test_weights_sum_to_one_and_leave_padding_out():
    reading = make().read(Batch.of([[[2, 3, 4], [5]], [[6]]]))
    torch.testing.assert_close(reading.words.sum(1), torch.ones(3).double())
    torch.testing.assert_close(reading.sentences.sum(1), torch.ones(2).double())
    assert reading.words[1, 1:].abs().sum() == 0
    assert reading.sentences[1, 1] == 0


def test_pooling_is_the_papers_equations():
    torch.manual_seed(0)
    pool, h = AttentionPooling(4), torch.randn(2, 3, 4)
    found, alpha = pool(h, torch.ones(2, 3, dtype=torch.bool))
    for i in range(2):
        scores = torch.stack(
            [torch.tanh(pool.represent.weight @ h_t + pool.represent.bias) @ pool.context
             for h_t in h[i]]
        )  # fmt: skip
        weight = scores.exp() / scores.exp().sum()
        torch.testing.assert_close(alpha[i], weight)
        torch.testing.assert_close(
            found[i], sum(w * h_t for w, h_t in zip(weight, h[i], strict=True))
        )


def test_one_sequence_keeps_the_order_of_words():
    words, lengths = one_sequence(Batch.of([[[2, 3], [4]], [[5]]]))
    assert words.tolist() == [[2, 3, 4], [5, 0, 0]]
    assert lengths.tolist() == [3, 1]


def test_vocabulary_limits_and_encoding():
    documents = [[["a", "b"], ["a"]], [["c", "a", "a", "b"]]]
    vocabulary = Vocabulary.of(documents, min_count=2, known=["z"])
    assert vocabulary.words[2:] == ["z", "a", "b"]
    assert vocabulary.id("c") == UNKNOWN
    assert Limits.by_quantile(documents, 1.0) == Limits(words=4, sentences=2)
    assert Limits.by_quantile(documents, 0.5).words == 2
    long = [["a"] * 1000, [], ["never"], ["b"]]
    ids = encode(long, vocabulary, Limits(words=5, sentences=2))
    assert [len(s) for s in ids] == [5, 1]
    assert ids[1] == [UNKNOWN]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: encode([[], []], VOCABULARY), ValueError, "without words"),
        (lambda: encode("a tool", VOCABULARY), TypeError, "'a tool': expected sentences of words"),
        (lambda: encode([["a"], "b"], VOCABULARY), TypeError, "'b': expected a sentence of words"),
        (lambda: Batch.of([[[2]], []]), ValueError, "document 1 of the batch is empty"),
        (lambda: Batch.of([[[2], []]]), ValueError, "document 0 .* empty sentence"),
        (lambda: Batch.of([]), ValueError, "at least one document"),
    ],
)
def test_what_cannot_be_read_is_named(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_embedding_takes_vectors_and_keeps_padding_at_zero():
    embedding = Embedding(VOCABULARY, 5, {"b": torch.arange(5.0)})
    assert embedding.weight[VOCABULARY.id("b")].tolist() == [0, 1, 2, 3, 4]
    assert embedding.weight[PADDING].abs().sum() == 0
