"""A class on JupyterHub: one installation that nobody changes, a student's work in the home.

``make hub MEMORY=5G CORES=2 IDLE=3600 COURSE=parallel`` starts it, as root; JupyterHub's own
options pass through HUB_ARGS (``--JupyterHub.bind_url=...``). README.md here is the recipe.
"""

import contextlib
import grp
import os
import shutil
import sys
from pathlib import Path

RECIPE = Path(__file__).resolve().parent
ROOT = RECIPE.parents[1]
HUB = Path(sys.prefix)  # .venv-hub
COURSE = (ROOT / ".venv").resolve()
sys.path.insert(0, str(RECIPE))

import settings  # noqa: E402 - they stand beside this file
from spawner import CourseSpawner  # noqa: E402

wanted = settings.read(os.environ)
state = wanted.state  # who is logged in, the hub's secrets
state.mkdir(mode=0o700, parents=True, exist_ok=True)

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # a web server with a certificate stands before it
c.ConfigurableHTTPProxy.command = [str(HUB / "node_modules/.bin/configurable-http-proxy")]
c.ConfigurableHTTPProxy.pid_file = str(state / "proxy.pid")
c.JupyterHub.db_url = f"sqlite:///{state}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(state / "cookie_secret")
c.JupyterHub.spawner_class = CourseSpawner

# --- who may come in: this machine's users, with their passwords, if they are in a group
c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.open_sessions = False  # would need the hub to be a session's leader
c.PAMAuthenticator.allowed_groups = set(wanted.members)

# --- what each gets
c.Spawner.mem_limit = wanted.memory
c.Spawner.cpu_limit = wanted.cores
c.Spawner.cmd = [sys.executable, str(RECIPE / "student.py")]
c.Spawner.notebook_dir = "~/work"
c.Spawner.default_url = "/lab/tree/00_start_here.ipynb"
c.Spawner.env_keep = ["LANG", "LC_ALL"]  # nothing else of root's
c.Spawner.environment = {
    "PATH": os.pathsep.join([f"{COURSE}/bin", "/usr/local/bin", "/usr/bin", "/bin"]),
    "PYTHONPATH": str(ROOT),
    "PYTHONDONTWRITEBYTECODE": "1",  # nobody can write beside the modules
    "JUPYTER_PATH": os.pathsep.join(
        [f"{ROOT}/tools/jupyterlab", f"{HUB}/share/jupyter", f"{COURSE}/share/jupyter"]
    ),
    "JUPYTER_CONFIG_PATH": os.pathsep.join(
        [f"{RECIPE}/jupyter", f"{ROOT}/tools/jupyterlab", f"{COURSE}/etc/jupyter"]
    ),
    "JUPYTERLAB_DIR": f"{COURSE}/share/jupyter/lab",
    "COURSE_ID": wanted.course,
    "EXCHANGE": str(wanted.exchange),
    "COURSE_BOARD_SERVICE": "http://127.0.0.1:8765/services/board",  # for board.join()
}
c.Spawner.start_timeout = 120  # thirty at once take their time
c.Spawner.http_timeout = 120

# --- what nobody uses ends: idle kernels with their ranks, then the server that has none left.
# A cell that runs is not idle, so that no long computation and no grading is cut off.
c.Spawner.args = [
    f"--MappingKernelManager.cull_idle_timeout={wanted.idle}",
    f"--MappingKernelManager.cull_interval={max(5, wanted.idle // 10)}",
    "--MappingKernelManager.cull_connected=True",  # a forgotten tab keeps no ranks
    f"--TerminalManager.cull_inactive_timeout={wanted.idle}",
    f"--TerminalManager.cull_interval={max(5, wanted.idle // 10)}",
    f"--ServerApp.shutdown_no_activity_timeout={wanted.idle}",
]
c.Spawner.poll_interval = 10  # seconds until the hub has seen that a server has ended

# --- the board on which a class predicts together, under a user who owns nothing else
board = state.with_name(f"{state.name}-board")
board.mkdir(mode=0o700, exist_ok=True)
shutil.chown(board, "nobody")
c.JupyterHub.services = [
    {
        "name": "board",
        "url": "http://127.0.0.1:8765",
        "command": [sys.executable, "-m", "tools.board", "--hub", f"--file={board}/board.sqlite"],
        "cwd": str(ROOT),
        "environment": {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        "user": "nobody",
        "oauth_no_confirm": True,
        "display": False,
    }
]
with contextlib.suppress(KeyError):  # who gets the projector's page
    c.JupyterHub.load_groups = {"teachers": {"users": grp.getgrnam("teachers").gr_mem}}
    c.JupyterHub.load_roles = [
        {"name": "board", "scopes": ["access:services!service=board"], "groups": ["teachers"]}
    ]

# --- what this machine adds or changes: logins/ and containers/ have examples
own = state / "own.py"
if own.is_file():
    load_subconfig(str(own))  # noqa: F821 - JupyterHub defines it
