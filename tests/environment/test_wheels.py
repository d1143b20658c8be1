"""`make wheels`: what is asked of pip for the laptops of a class."""

import pytest

from tools import lock, wheels


def test_this_machine_takes_the_lock_as_it_is(tmp_path):
    import sys

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    command = wheels.command(tmp_path, wheels.this_system(), python, "")
    assert command[command.index("-c") + 1] == str(lock.LOCK)
    assert not any(word.startswith("sphinx==") for word in command), "that is not a reader's"
    assert "--no-deps" not in command


def test_another_system_gets_its_own_pins(tmp_path):
    command = wheels.command(tmp_path, "macos-arm64", "3.12", "")
    assert "--no-deps" in command
    assert command[command.index("--python-version") + 1] == "3.12"
    assert "macosx_14_0_arm64" in command
    pins = [word for word in command if "==" in word]
    assert any(pin.startswith("appnope==") for pin in pins)
    assert not any(pin.startswith(("dgl==", "nvidia-")) for pin in pins)


def test_another_linux_needs_the_build_of_torch_for_processors(tmp_path):
    with pytest.raises(ValueError, match="TORCH_INDEX"):
        wheels.command(tmp_path, "linux-aarch64", "3.13", "")
    command = wheels.command(tmp_path, "linux-aarch64", "3.13", "https://example.org/cpu")
    assert command[command.index("--extra-index-url") + 1] == "https://example.org/cpu"
    assert "manylinux_2_28_aarch64" in command
