"""For /srv/jupyterhub/own.py: a container for each student, by DockerSpawner.

.venv-hub/bin/python -m pip install dockerspawner==14.0.0
docker network create --subnet 172.30.0.0/16 --gateway 172.30.0.1 \
    --opt com.docker.network.bridge.enable_icc=false course
"""

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.spawner_class = "docker"
c.JupyterHub.hub_ip = "172.30.0.1"  # this machine's address in the network of the containers
c.DockerSpawner.image = "course-hub"
c.DockerSpawner.cmd = ["python", "deploy/jupyterhub/student.py"]
c.DockerSpawner.environment = {}  # in place of this machine's: the image has its own
c.DockerSpawner.network_name = "course"
c.DockerSpawner.use_internal_ip = True
c.DockerSpawner.remove = True  # the container; the volume stays
c.DockerSpawner.volumes = {"course-{username}": "/home/reader/work"}
c.DockerSpawner.extra_host_config = {
    "shm_size": "1g",  # ranks exchange messages there
    "pids_limit": 2000,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
}
