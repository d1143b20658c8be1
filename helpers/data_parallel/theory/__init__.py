"""What formulas predict of data-parallel training.

- ``time_model``: when does a second replica pay?
- ``drift``: how far replicas are apart, predicted and followed
- ``order_statistics``: how long the N-th of W workers takes
"""
