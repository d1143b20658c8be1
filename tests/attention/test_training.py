"""Training learns what can be learned; explanations point where they must."""

import pytest
import torch

from helpers.attention.counting import KINDS, right
from helpers.attention.documents import UNKNOWN, Vocabulary
from helpers.attention.experiment import MODELS, Experiment, hold_out
from helpers.attention.explain import (
    by_attention,
    by_gradient,
    by_integrated_gradients,
    deletion,
    hiding,
    in_vectors,
    until_it_changes,
    weights,
)
from helpers.attention.model import Embedding, HierarchicalAttention
from helpers.attention.training import Recipe, accuracy, loss_on, predict, train
from helpers.datasets.descriptions import Document

VOCABULARY = Vocabulary(["yes", "no", *"abcdef"])


@pytest.fixture(scope="module")
def learned():
    """A model of documents that say yes or no once, among words that mean nothing."""
    torch.manual_seed(0)
    documents, labels = [], []
    for i in range(160):
        document = [torch.randint(4, 10, (4,)).tolist() for _ in range(3)]
        document[i % 3][i % 4] = 2 + i % 2
        documents.append(document)
        labels.append(i % 2)
    model = HierarchicalAttention(Embedding(VOCABULARY, 6), 2, hidden=6)
    losses = []
    recipe = Recipe(epochs=12, batch=16, rate=0.03, word_dropout=0.0, smoothing=0.0)
    done = train(
        model, documents[:128], labels[:128], recipe, lambda step, steps, loss: losses.append(loss)
    )
    return model, documents[128:], labels[128:], losses, done


def test_it_learns_the_word_that_decides(learned):
    model, documents, labels, losses, done = learned
    assert len(losses) == 12 * 8
    assert done.seconds > 0
    assert (done.losses, done.kept) == ((), 12)
    assert losses[-1] < losses[0] / 3
    assert accuracy(model, documents, labels) > 0.95
    few, many = predict(model, documents, batch=5), predict(model, documents)
    torch.testing.assert_close(few, many, atol=1e-5, rtol=0)
    assert model.training


def test_hiding_words_lowers_the_first_answer(learned):
    model, documents, _, _, _ = learned
    curves = deletion(model, documents, (0, 1, 12))
    assert set(curves) == {"most attended", "gradient × input", "random"}
    assert curves["gradient × input"][1] < curves["random"][1] - 0.1
    assert curves["random"][0] == curves["most attended"][0] > 0.9
    assert curves["random"][2] == pytest.approx(curves["most attended"][2], abs=1e-5)  # 12 is all
    assert curves["random"][2] < 0.7  # without the word that decides, one of two answers is lost


def test_the_epoch_with_the_least_loss_on_the_validation_documents_is_kept():
    torch.manual_seed(1)
    documents = [[torch.randint(4, 10, (5,)).tolist()] for _ in range(48)]
    labels = torch.randint(0, 2, (48,)).tolist()  # noise: what is learned of it is learned by heart
    model = HierarchicalAttention(Embedding(VOCABULARY, 6), 2, hidden=6)
    validation = (documents[32:], labels[32:])
    recipe = Recipe(epochs=6, batch=4, rate=0.05, word_dropout=0.0, smoothing=0.0)
    done = train(model, documents[:32], labels[:32], recipe, validation=validation)
    assert len(done.losses) == 6
    assert done.kept == done.losses.index(min(done.losses)) + 1 < 6
    assert loss_on(model, *validation) == pytest.approx(min(done.losses), abs=1e-5)


def test_scores_of_words_find_what_decides(learned):
    model, documents, _, _, _ = learned
    first = [max(range(12), key=by_gradient(model, document).__getitem__) for document in documents]
    decides = [[w in (2, 3) for s in document for w in s].index(True) for document in documents]
    assert sum(a == b for a, b in zip(first, decides, strict=True)) > 0.4 * len(documents)
    assert sum(by_attention(model, documents[0])) == pytest.approx(1, abs=1e-5)
    found = weights(model, documents[0])
    assert [len(row) for row in found.words] == [len(s) for s in documents[0]]
    assert sum(found.sentences) == pytest.approx(1, abs=1e-5)
    assert sum(found.probabilities) == pytest.approx(1, abs=1e-5)


def test_a_document_as_a_function_of_its_vectors(learned):
    model, documents, _, _, _ = learned
    vectors, answer = in_vectors(model, documents[0])
    assert vectors.shape == (12, 6)
    whole = predict(model, documents[:1]).max().item()
    assert answer(vectors).item() == pytest.approx(whole, abs=1e-5)
    vectors.requires_grad_()
    (gradient,) = torch.autograd.grad(answer(vectors), vectors)
    step = 1e-2 * gradient / gradient.norm()
    risen = answer(vectors.detach() + step) - answer(vectors.detach() - step)
    assert risen.item() == pytest.approx(2e-2 * gradient.norm().item(), rel=0.05, abs=1e-6)
    assert model.training


def test_integrated_gradients_sum_to_what_unknown_words_would_cost(learned):
    model, documents, _, _, _ = learned
    vectors, answer = in_vectors(model, documents[0])
    unknown = model.embedding.weight[UNKNOWN].detach().expand_as(vectors)
    lost = (answer(vectors) - answer(unknown)).item()
    scores = by_integrated_gradients(model, documents[0], points=128)
    assert sum(scores) == pytest.approx(lost, abs=1e-3)


def test_words_are_hidden_until_the_answer_changes(learned):
    model, documents, _, _, _ = learned
    document = documents[0]
    answers = hiding(model, document)([set(), {0, 1}])
    assert answers.shape == (2, 2)
    assert answers[0].tolist() == pytest.approx(predict(model, [document])[0].tolist(), abs=1e-5)
    n = until_it_changes(model, document, by_gradient(model, document))
    assert n is None or 1 <= n <= 12
    with pytest.raises(ValueError, match="two: 2 scores for 12 words"):
        deletion(model, [document], (1,), {"two": lambda model, document: [1.0, 2.0]})


def test_all_documents_of_a_source_are_on_one_side():
    sources = [f"s{k % 20}" for k in range(70)]
    held = hold_out(sources, 0.25)
    assert len({s for s, out in zip(sources, held, strict=True) if out}) == 5
    assert not {s for s, out in zip(sources, held, strict=True) if out} & {
        s for s, out in zip(sources, held, strict=True) if not out
    }


def test_counted_words_find_the_word_that_decides():
    def document(k):
        words = ("yes" if k % 2 else "no", *"abc")
        return Document(f"p{k}", f"s{k}", "net" if k % 2 else "web", 0, " ".join(words))

    documents = [document(k) for k in range(40)]
    for kind in KINDS:
        assert right(kind, documents[:30], documents[30:]).all()


@pytest.mark.parametrize("batches", [1, 2, 9, 10, 11])
def test_any_number_of_steps_can_be_trained(batches):
    """The rate rises for a tenth of the steps: of ten, that was a division by zero."""
    model = HierarchicalAttention(Embedding(VOCABULARY, 2), 2, hidden=2)
    steps = []
    recipe = Recipe(epochs=1, batch=1)
    train(model, [[[2]]] * batches, [0] * batches, recipe, lambda *step: steps.append(step))
    assert [step for step, _, _ in steps] == list(range(1, batches + 1))


def test_documents_and_labels_that_cannot_be_trained_are_refused(learned):
    for documents, labels in (([], []), ([[[2]]], [0, 1])):
        with pytest.raises(ValueError, match=f"{len(documents)} documents with {len(labels)} lab"):
            train(learned[0], documents, labels)
    for settings in ({"epochs": 0}, {"batch": 0}):
        with pytest.raises(ValueError, match=r"Recipe expects .* at least 1; got .*=0"):
            Recipe(**settings)


def test_the_experiment_makes_every_model_from_one_split():
    experiment = Experiment(hidden=4)
    x, y, x_test, y_test = experiment.data
    assert len(x) == len(y) > 4 * len(x_test) * 0.8
    assert len(x_test) == len(y_test)
    assert max(len(s) for d in x for s in d) == experiment.limits.words
    for name in MODELS:
        assert predict(experiment.model(name), x_test[:3]).shape == (3, 8)
    with pytest.raises(KeyError, match="expected one of hierarchical attention"):
        experiment.model("transformer")
