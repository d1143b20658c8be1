"""The thread picture answers a click, and the tile's animation steps, in a real browser."""

import numpy as np
import pytest

from helpers.cuda import Module
from helpers.cuda.ladder import Convolution
from helpers.plots.accesses import lane_picture, scan_picture, thread_picture, tile_animation
from tests.browser.driver import wait_for

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pictures():
    image = np.random.default_rng(0).random((8, 12), np.float32)
    three = Convolution(np.ones((3, 3)), tile=(4, 4), device="cpu", verify=False)
    clickable = thread_picture(three.record(image, "global"), "image", "out").data
    animated = tile_animation(three.record(image, "tiled"), "image", "tile", (6, 6), 1).data
    three.module.close()
    return clickable, animated


def test_a_click_tells_who_computes_an_output_and_who_reads_a_pixel(page, pictures):
    page.set_content(pictures[0])
    page.get_by_test_id("accesses-cell-out-17").click()
    said = page.get_by_test_id("accesses-text")
    assert "thread (1, 1, 0) of block (1, 0, 0)" in said.inner_text()
    assert "read 9 elements of image" in said.inner_text()
    bold = page.locator('[data-testid^="accesses-cell-image-"][stroke-width="2.5"]')
    assert bold.count() == 9
    page.get_by_test_id("accesses-cell-image-39").click()  # row 3, column 3: four blocks meet
    assert "read by 9 threads of 4 blocks" in said.inner_text()
    page.get_by_test_id("accesses-cell-image-0").click()  # the corner: four outputs need it
    assert "read by 4 threads of 1 block." in said.inner_text()


def test_the_tile_is_filled_step_by_step(page, pictures):
    page.set_content(pictures[1])
    frame, step = page.get_by_test_id("accesses-frame"), page.get_by_test_id("accesses-step")
    assert frame.inner_text() == "step 1 of 4"
    said = page.get_by_test_id("accesses-text")
    assert "6 of them with 0 (grey), outside the image" in said.inner_text()
    assert said.inner_text().endswith("The number is the thread.")  # of one warp: one colour
    for _ in range(3):
        step.click()
    assert "thread 8, which makes the output at [2][4], reads 9 elements" in said.inner_text()
    assert frame.inner_text() == "step 4 of 4"


def test_elements_are_reached_by_keys(page, pictures):
    page.set_content(pictures[0])
    for _ in range(2):  # each array is one stop
        page.keyboard.press("Tab")
    for key in ("ArrowDown", "End", "Home", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused) == "out[0][0]"
    for key in (*["ArrowRight"] * 5, "ArrowDown", " "):
        page.keyboard.press(key)
    assert page.evaluate(focused) == "out[1][5]"
    said = page.get_by_test_id("accesses-text").inner_text()
    assert "thread (1, 1, 0) of block (1, 0, 0)" in said


def test_the_banks_of_a_request_answer_a_click(page):
    memory = np.zeros(32 * 36, np.float32)
    with Module("access.cu", device="cpu", verify=False) as module:
        launch = module["strided"][1, 32]
        one, four = (launch.record(memory, memory[:32].copy(), stride) for stride in (1, 4))
    page.set_content(lane_picture({"1 apart": one, "4 apart": four}, "x", "tile").data)
    said = page.get_by_test_id("lanes-text")
    assert page.get_by_test_id("lanes-frame").inner_text() == "step 1 of 1"
    page.get_by_test_id("lanes-first").click()
    page.get_by_test_id("lanes-bank-8").click()
    assert said.inner_text() == "Bank 8: lane 8. It serves one word at a time: 1 wavefront."
    page.get_by_test_id("lanes-step").click()
    assert "16 sectors = 512 bytes moved" in page.get_by_test_id("lanes-status").inner_text()
    page.get_by_test_id("lanes-bank-8").click()
    assert "lanes 2, 10, 18, 26" in said.inner_text()
    page.keyboard.press("ArrowRight")  # from bank to bank
    page.keyboard.press("Enter")
    assert said.inner_text() == "Bank 9: no lane."


def test_a_scan_is_stepped_and_another_chosen(page):
    x, records = np.arange(8, dtype=np.float32), {}
    with Module("scan.cu", {"N": 8}, device="cpu", verify=False) as module:
        for name, threads in (("scan_tree", 4), ("scan_steps", 8)):
            records[name] = module[name][1, threads].record(x, x.copy())
    page.set_content(scan_picture(records, x).data)
    frame, boxes = page.get_by_test_id("scan-frame"), page.locator("svg rect")
    assert (frame.inner_text(), boxes.count()) == ("step 7 of 7", 64)
    page.get_by_test_id("scan-first").click()
    page.get_by_test_id("scan-step").click()
    assert (frame.inner_text(), boxes.count()) == ("step 1 of 7", 16)
    page.get_by_test_id("scan-choice").select_option("scan_steps")
    assert (frame.inner_text(), boxes.count()) == ("step 3 of 3", 32)


IN_A_CELL = """
import numpy as np
from helpers.cuda import Module
from helpers.plots.accesses import thread_picture
a, b, c = np.ones((3, 10), np.float32)
add = Module("vector_add.cu", device="cpu", verify=False)
thread_picture(add["vector_add"][3, 4].record(a, b, c, 10), "a", "c")
"""


IN_THE_NEXT = """
from helpers.collectives.schedule import model
from helpers.plots.animation import animate
animate(model("ring", 3))
"""
ACTIVE = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"


@pytest.mark.part(of="browser")
@pytest.mark.timeout(400)
def test_clicks_and_keys_are_answered_inside_jupyterlab(opened):
    notebook = opened("own", [IN_A_CELL.strip(), IN_THE_NEXT.strip()])
    notebook.run_all()
    wait_for([notebook], seconds=200)
    assert notebook.failed() == []
    cell = notebook.show(0)
    cell.get_by_test_id("accesses-cell-c-5").click()
    said = cell.get_by_test_id("accesses-text").inner_text()
    assert "thread (1, 0, 0) of block (1, 0, 0)" in said
    cell.get_by_test_id("accesses-cell-a-5").click()
    said = cell.get_by_test_id("accesses-text").inner_text()
    assert said == "a[5] was read by 1 thread of 1 block."
    cell.get_by_test_id("accesses-cell-c-5").click()
    keyboard = notebook.page.keyboard
    for key in ("ArrowRight", "ArrowDown", "Enter"):  # down: there is none, nothing moves
        keyboard.press(key)
    said = cell.get_by_test_id("accesses-text").inner_text()
    assert "thread (2, 0, 0) of block (1, 0, 0)" in said
    assert notebook.page.evaluate(ACTIVE) == 0
    cell = notebook.show(1)
    cell.get_by_test_id("animation-step").click()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowLeft"):
        keyboard.press(key)
    cell.get_by_test_id("animation-frame").get_by_text("step 3 of 4").wait_for()
    assert notebook.page.evaluate(ACTIVE) == 1
    keyboard.press("Control+Enter")  # JupyterLab's own: the cell runs again
    cell.get_by_test_id("animation-frame").get_by_text("step 0 of 4").wait_for()
    cell.get_by_test_id("animation-last").click()
    assert cell.get_by_test_id("animation-frame").inner_text() == "step 4 of 4"
