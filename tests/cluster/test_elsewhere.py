"""What is checked before Slurm or ssh is called, and what is read from Slurm's words."""

import pytest

from helpers.cluster import Cluster, Slurm, Ssh, StartError
from helpers.cluster.start.guarded import address_towards
from helpers.cluster.start.slurm import commands
from helpers.cluster.start.slurm.commands import SlurmError, choose


@pytest.mark.parametrize(
    ("way", "options", "message"),
    [
        (Ssh, {"hosts": "ab"}, r"hosts='ab': expected names of hosts, such as"),
        (Ssh, {"hosts": ["-oProxyCommand=x"]}, r"hosts=\('-oPro.*: expected names"),
        (Slurm, {"time_limit": "an hour"}, r"time_limit='an hour': expected minutes"),
        (Slurm, {"time_limit": -5}, r"time_limit=-5: expected minutes"),
        (Slurm, {"partition": ""}, r"partition='': expected a name"),
        (Slurm, {"options": "--nodes=2"}, r"options='--nodes=2': expected options"),
    ],
)
def test_bad_arguments(way, options, message):
    with pytest.raises(ValueError, match=message):
        way(**options)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (Ssh(), r"hosts=\(\) with n=2: expected names of hosts"),
        (Ssh(["a", "b", "c"]), r"with n=2: .* as many as there are ranks"),
    ],
)
def test_as_many_hosts_as_ranks_at_most(start, message):
    with pytest.raises(ValueError, match=message):
        Cluster(2, start=start)


def test_a_way_to_start_that_is_none():
    with pytest.raises(TypeError, match=r"start='slurm': expected Forked\(\), .* or Ssh"):
        Cluster(2, start="slurm")


@pytest.mark.parametrize(
    ("offered", "library", "chosen"),
    [
        ("none pmi2 pmix pmix_v4", "Open MPI 5.0.8", "pmix"),
        ("none pmi2 pmix_v4 pmix_v3", "Open MPI 5.0.8", "pmix_v4"),
        ("none cray_shasta", "", "cray_shasta"),
        ("none pmix", "", "pmix"),
    ],
)
def test_the_language_of_slurm_that_an_mpi_understands(offered, library, chosen):
    assert choose(offered.split(), library) == chosen
    needs = "pmix" if library.startswith("Open") else "pmi2 or pmix"
    with pytest.raises(StartError, match=f"{library or 'MPI'} on this Slurm: .* need {needs} to"):
        choose(["none"], library)


def test_mpich_is_started_by_its_own_mpiexec(monkeypatch):
    monkeypatch.setattr(commands, "run", lambda *command: "MPI plugin types are...\n\tnone\n\tpmi2")
    launch, kind = commands.starter(6, "MPICH 5.0.1", "/my folder/mpiexec")
    assert (launch, kind) == ("'/my folder/mpiexec' -launcher slurm -n 6", "none")
    assert commands.starter(6, "MPICH 3.4", "") == ("srun", "pmi2")  # a build without mpiexec


def test_a_job_that_slurm_has_forgotten_is_over_and_a_silent_slurm_is_no_answer(monkeypatch):
    def run(*command):
        raise SlurmError(words)

    monkeypatch.setattr(commands, "run", run)
    words = "slurm_load_jobs error: Invalid job id specified"
    assert commands.look("7").ended
    words = "slurm_load_jobs error: Unable to contact slurm controller"
    with pytest.raises(SlurmError, match="Unable to contact"):
        commands.look("7")


def test_a_job_inside_a_job_is_not_told_of_its_size(monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "1")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    told = commands.environment()
    assert "SLURM_NTASKS" not in told
    assert told["SLURM_CONF"] == "/etc/slurm.conf"


def test_the_address_towards_others_is_the_one_in_their_network():
    assert address_towards(["127.0.0.1", "localhost"]) == "127.0.0.1"
    assert address_towards(["no-such-host.invalid"]) == "*"
    assert address_towards([]) == "*"
