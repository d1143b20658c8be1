"""Hierarchical attention: documents to tensors, the model, its baselines, training, explanations.

`documents` encodes and batches, `model` is Yang et al. (2016) with masks, `batching` runs it one
sentence, one document or one batch at a time, `training` trains any of the models, `explain` asks
whether attention explains. Torch is imported with these modules, not with this package.
"""
