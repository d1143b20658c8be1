# The course in a container: docker build -t course . && docker run -p 127.0.0.1:8888:8888 course
#
# The packages are the README's for Debian; tools/bare_machine.py reads them from here and tries them.
# Binder takes this file too: NB_USER and NB_UID are the names that it passes.
FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
        ca-certificates git make g++ python3-venv \
    && rm -rf /var/lib/apt/lists/*
ARG NB_USER=reader
ARG NB_UID=1000
RUN useradd --create-home --uid ${NB_UID} ${NB_USER}
COPY --chown=${NB_UID} . /home/${NB_USER}/course
USER ${NB_USER}
WORKDIR /home/${NB_USER}/course
RUN make setup && rm -rf ~/.cache/pip
ENV PATH=/home/${NB_USER}/course/.venv/bin:${PATH}
# Binder starts JupyterLab by itself: it finds the course's settings and its figures' alt texts too.
ENV JUPYTER_PATH=/home/${NB_USER}/course/tools/jupyterlab
ENV JUPYTER_CONFIG_PATH=/home/${NB_USER}/course/tools/jupyterlab
EXPOSE 8888
# A container has an address of its own: on its loopback nobody outside would reach JupyterLab.
CMD ["make", "lab", "LAB_ARGS=--no-browser --ip=0.0.0.0 --port=8888"]
