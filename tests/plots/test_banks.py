"""Pictures of the banks of shared memory."""

from helpers.plots import banks


def test_a_column_of_padding_sends_each_row_to_the_next_bank():
    plain, padded, two = banks.padding(4, (0, 1, 2), read=1)
    numbers = [[int(text.get_text()) for text in ax.texts] for ax in (plain, padded, two)]
    assert numbers[0] == [0, 1, 2, 3] * 4
    assert numbers[1] == [0, 1, 2, 3, 1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]
    assert numbers[2][1::4] == [1, 3, 1, 3]
    titles = [ax.get_title("left") or ax.get_title() for ax in (plain, padded, two)]
    assert [title.rsplit(": ")[1] for title in titles] == [
        "4 wavefronts",
        "1 wavefront",
        "2 wavefronts",
    ]
