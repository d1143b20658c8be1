"""Right and wrong answers to an exercise, in ``tests/exercises/cases_<topic>.py``."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """``right`` passes the check, and so do those in ``also``, which are right in another way.

    Each of ``wrong`` (one at least) is plausible and fails, and so do those in ``hangs``, which do
    not end on the ranks. So does each of ``told``, with these words in the message.

    An answer of several parts is a tuple of them. ``keywords`` go to the check with every answer;
    a check with a parameter ``cluster`` is handed four real ranks.
    """

    right: object
    wrong: list
    also: list = field(default_factory=list)
    hangs: list = field(default_factory=list)
    told: dict = field(default_factory=dict)  # words of the message: the wrong answer
    keywords: dict = field(default_factory=dict)
    long: bool = False  # a check of many seconds without ranks


def parts(answer: object) -> tuple:
    """Return the answer as the tuple of positional arguments that the check takes."""
    return answer if isinstance(answer, tuple) else (answer,)
