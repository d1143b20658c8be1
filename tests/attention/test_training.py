"""Training learns what can be learned; explanations point where they must."""

import subprocess
import sys

import pytest
import torch

from helpers.attention.documents import Vocabulary
from helpers.attention.experiment import MODELS, Experiment
from helpers.attention.explain import deletion, most_attended, weights
from helpers.attention.model import Embedding, HierarchicalAttention
from helpers.attention.training import Recipe, accuracy, predict, train

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
    seconds = train(
        model, documents[:128], labels[:128], recipe, lambda step, steps, loss: losses.append(loss)
    )
    return model, documents[128:], labels[128:], losses, seconds


def test_it_learns_the_word_that_decides(learned):
    model, documents, labels, losses, seconds = learned
    assert len(losses) == 12 * 8
    assert seconds > 0
    assert losses[-1] < losses[0] / 3
    assert accuracy(model, documents, labels) > 0.95


def test_predictions_do_not_depend_on_the_batch(learned):
    model, documents, _, _, _ = learned
    torch.testing.assert_close(
        predict(model, documents, batch=5), predict(model, documents), atol=1e-5, rtol=0
    )
    assert model.training


def test_weights_have_the_documents_shape(learned):
    model, documents, _, _, _ = learned
    found = weights(model, documents[0])
    assert [len(row) for row in found.words] == [len(s) for s in documents[0]]
    assert sum(found.sentences) == pytest.approx(1, abs=1e-5)
    assert sum(found.probabilities) == pytest.approx(1, abs=1e-5)


def test_hiding_words_lowers_the_first_answer(learned):
    model, documents, _, _, _ = learned
    curves = deletion(model, documents, (0, 1, 12))
    assert curves["random"][0] == curves["most attended"][0] > 0.9
    assert curves["random"][2] == pytest.approx(curves["most attended"][2], abs=1e-5)  # 12 is all
    assert curves["random"][2] < 0.7  # without the word that decides, one of two answers is lost


def test_most_attended_words_are_words_of_the_label(learned):
    model, documents, labels, _, _ = learned
    found = most_attended(model, documents, labels, VOCABULARY.words, top=3, at_least=2)
    assert set(found) == {0, 1}
    assert "no" not in found[0]
    assert "yes" not in found[1]


@pytest.mark.parametrize("batches", [1, 2, 9, 10, 11])
def test_any_number_of_steps_can_be_trained(batches):
    """The rate rises for a tenth of the steps: of ten, that was a division by zero."""
    model = HierarchicalAttention(Embedding(VOCABULARY, 2), 2, hidden=2)
    steps = []
    recipe = Recipe(epochs=1, batch=1)
    train(model, [[[2]]] * batches, [0] * batches, recipe, lambda *step: steps.append(step))
    assert [step for step, _, _ in steps] == list(range(1, batches + 1))


def test_no_documents_are_refused(learned):
    with pytest.raises(ValueError, match="0 documents with 0 labels"):
        train(learned[0], [], [])
    with pytest.raises(ValueError, match="no documents"):
        predict(learned[0], [])


def test_labels_must_match_documents():
    with pytest.raises(ValueError, match="1 documents with 2 labels"):
        train(torch.nn.Linear(1, 1), [[[2]]], [0, 1])


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


def test_importing_the_packages_is_light():
    code = (
        "import sys, helpers.attention, helpers.recurrent, helpers.plots.attention,"
        " helpers.plots.recurrent, helpers.exercises.recurrent,"
        " helpers.exercises.attention;"
        "assert not {'torch', 'matplotlib', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
