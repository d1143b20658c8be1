"""How JupyterHub reads a machine's own settings: ``python -m tests.hub.own FOLDER``, of .venv-hub.

``FOLDER/own.py`` is read as the hub reads it, after the recipe's own settings. Prints, as JSON,
whether the hub accepts them, and what is set although no class knows it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from types import SimpleNamespace

from jupyterhub.app import JupyterHub

RECIPE = "deploy/jupyterhub/jupyterhub_config.py"


async def main(folder: str) -> None:
    """Let the hub read everything and make the two classes that the settings name."""
    os.environ["STATE"] = folder
    hub = JupyterHub()
    await hub.initialize([f"--config={RECIPE}"])
    known = (JupyterHub, hub.authenticator_class, hub.spawner_class)
    user = SimpleNamespace(name="ada", id=1, escaped_name="ada")
    spawner = hub.spawner_class(parent=hub, user=user)  # judges the values; the authenticator did
    classes = {one.__name__: one for each in known for one in each.__mro__}
    unknown = [
        f"{section}.{name}"
        for section, settings in hub.config.items()
        for name in settings
        if section in classes and not classes[section].class_traits(config=True).get(name)
    ]
    told = {
        "authenticator": type(hub.authenticator).__name__,
        "spawner": type(spawner).__name__,
        "environment": sorted(spawner.environment),
        "unknown": unknown,
        "unused": sorted(set(hub.config) - set(classes)),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
