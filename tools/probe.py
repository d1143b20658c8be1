"""Ask an index of packages once whether it has the course's PyTorch: ``python tools/probe.py URL``.

pip would ask five times for each of its packages. Takes pip's settings for certificates and proxy,
and says in a clause what is wrong.
"""

import ast
import contextlib
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

LIMIT = 6.0  # seconds
LOCK = Path(__file__).resolve().parents[1] / "requirements.txt"


def pip_settings():
    """Return pip's settings on this machine, by name."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    found = re.findall(r"^(?:global|user|site|install|:env:)\.\.?([\w-]+)=(.*)$", said, re.M)
    return {name: ast.literal_eval(value) for name, value in found}


def certificates(settings):
    """Return pip's own certificates where neither pip nor Python is told of others."""
    cafile = settings.get("cert")
    if not cafile and not ssl.get_default_verify_paths().cafile:
        with contextlib.suppress(ImportError):
            from pip._vendor import certifi

            cafile = certifi.where()
    return ssl.create_default_context(cafile=cafile)


def refusal(index, settings=None, limit=LIMIT):
    """Return why PyTorch cannot be had from an index, '' if it can."""
    version = re.search(r"^torch==(\S+)", LOCK.read_text(encoding="utf-8"), re.M)[1]
    settings = pip_settings() if settings is None else settings
    proxy = settings.get("proxy")
    handlers = [urllib.request.HTTPSHandler(context=certificates(settings))]
    handlers += [urllib.request.ProxyHandler({"http": proxy, "https": proxy})] if proxy else []
    try:
        address = f"{index.rstrip('/')}/torch/"
        with urllib.request.build_opener(*handlers).open(address, timeout=limit) as page:
            names = page.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return f"has no PyTorch (it answers {error.code} {error.reason})"
    except (OSError, ValueError) as error:
        return f"does not answer ({getattr(error, 'reason', None) or error})"
    return "" if f"torch-{version}" in names else f"has no PyTorch {version}"


if __name__ == "__main__":
    why = refusal(sys.argv[1])
    print(why)
    sys.exit(bool(why))
