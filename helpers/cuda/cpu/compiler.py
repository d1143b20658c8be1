"""Compile a CUDA C source, unchanged, for this machine's processor: one program per module.

The program is the worker that runs the kernels (runtime/worker.cpp). It is cached by content: the
same source with the same macros compiles once per machine.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from helpers.cuda import source as source_text
from helpers.cuda.cpu.protocol import SharedArray
from helpers.cuda.errors import CompileError

RUNTIME = Path(__file__).parent / "runtime"
RUNTIME_SOURCES = (
    "scheduler.cpp",
    "atomics.cpp",
    "recorder.cpp",
    "tsan.cpp",
    "requests.cpp",
    "worker.cpp",
)
LARGEST_SHARED = 232_448  # bytes a block may use on the largest device (sm_90: 227 KiB)
COMMON = ("-std=c++17", "-g", "-fno-pie", "-fno-omit-frame-pointer", "-fdiagnostics-color=never")
FAST = ("-O2",)
# No vectorisation: one access of the source stays one access of the record.
INSTRUMENTED = ("-O1", "-fsanitize=thread", "-fno-tree-vectorize")
LIMIT = 120.0  # seconds for one run of the compiler
MONTH = 30 * 86_400.0  # seconds that a compiled module is kept after its last use


@dataclass(frozen=True)
class Program:
    """A compiled module.

    Parameters
    ----------
    path : Path
        The program.
    shared : tuple of SharedArray
        Its ``__shared__`` arrays.
    constants : dict
        Bytes of its ``__constant__`` variables by name.
    """

    path: Path
    shared: tuple[SharedArray, ...]
    constants: dict[str, int]


def cache_folder() -> Path:
    """Return the folder of compiled modules, made if absent (``XDG_CACHE_HOME`` is honoured)."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "parallel-deep-learning" / "cuda"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: a folder of this process's user in the temporary one
        folder = Path(tempfile.gettempdir()) / f"parallel-deep-learning-cuda-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@functools.cache
def compiler() -> tuple[str, str]:
    """Return the C++ compiler's path and first version line.

    Raises CompileError where there is none.
    """
    wanted = os.environ.get("CXX", "")
    for name in (wanted, "g++", "clang++", "c++"):
        path = shutil.which(name) if name else None
        if path:
            answer = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=LIMIT
            )
            return path, answer.stdout.splitlines()[0] if answer.stdout else path
    raise CompileError(
        "running CUDA C without a GPU needs a C++ compiler, and neither g++ nor clang++ is on "
        "PATH: install one (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++)"
    )


def build(source: str, name: str, defines: Mapping[str, object], *, instrumented: bool) -> Program:
    """Compile a source for this machine's processor, or find what was compiled before.

    Parameters
    ----------
    source, name : str
        CUDA C, and what messages call it.
    defines : dict
        Macros.
    instrumented : bool
        Whether every access calls the recorder.

    Returns
    -------
    Program
        In the cache folder.

    Raises
    ------
    CompileError
        With the compiler's message and the lines that it is about.
    """
    tail = _tail(source, defines)
    flags = [*COMMON, *(INSTRUMENTED if instrumented else FAST)]
    if "clang" not in compiler()[1]:
        flags.append("-fno-extern-tls-init")
    flags += [f"-D{key}={value}" for key, value in sorted(defines.items())]
    text = f'#line 1 "{name}"\n{source}\n#line 1 "launch of {name}"\n{tail}'
    runtime = _runtime(cache_folder(), os.environ.get("CUDA_ON_CPU_FLAGS", ""))
    key = _digest(text, *flags, compiler()[1], runtime.name)
    path = cache_folder() / f"module-{key}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            unit = Path(folder) / "unit.cpp"
            unit.write_text(text)
            made = Path(folder) / "module"
            include = ["-include", str(RUNTIME / "cuda_on_cpu.h")]
            quiet = ["-Wno-unknown-pragmas", "-Wno-attributes", "-fmax-errors=20"]
            command = [compiler()[0], *flags, *include, *quiet, "-c", str(unit)]
            _run([*command, "-o", f"{folder}/unit.o"], source, name)
            # Linked without -fsanitize: the calls go to runtime/recorder.cpp, not to TSan.
            link = [compiler()[0], "-no-pie", f"{folder}/unit.o", str(runtime), "-lpthread"]
            _run([*link, "-o", str(made)], source, name)
            os.replace(made, path)
        _forget_unused(path.parent)
    else:
        path.touch()  # used: kept for another MONTH
    return _inspect(path, source)


def _forget_unused(folder: Path) -> None:
    """Delete compiled modules that nobody has used for a month."""
    for old in folder.glob("module-*"):
        with contextlib.suppress(OSError):  # another process may be at it too
            if time.time() - old.stat().st_mtime > MONTH:
                old.unlink()


def lines(program: Path, addresses: list[int], name: str) -> list[int | None]:
    """Return the lines of the source that code addresses come from.

    Parameters
    ----------
    program : Path
        A compiled module.
    addresses : list of int
        In its code.
    name : str
        What the source was called when it was compiled.

    Returns
    -------
    list of int or None
        One for each address; None where no line is known.
    """
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not tool or not addresses:
        return [None] * len(addresses)
    answer = subprocess.run(
        [tool, "-a", "-i", "-e", str(program), *(hex(address) for address in addresses)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    found: list[int | None] = []
    for text in answer.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", text):
            found.append(None)
        elif found and found[-1] is None:  # inlined calls: the innermost frame in the source
            # GCC may name the file that it was given in place of the one in its first #line.
            match = re.match(rf"(?:.*/)?(?:{re.escape(name)}|unit\.cpp):(\d+)", text)
            found[-1] = int(match.group(1)) if match else None
    return found if len(found) == len(addresses) else [None] * len(addresses)


def _tail(source: str, defines: Mapping[str, object]) -> str:
    """Write what the worker needs to find and call the kernels of ``source``."""
    table, text = [], []
    for kernel in source_text.kernels(source, defines).values():
        values = ", ".join(
            f"*({_without_restrict(p.c_type)} *)a[{i}]" for i, p in enumerate(kernel.parameters)
        )
        text.append(
            '__attribute__((no_sanitize("thread"), noinline)) static void '
            f"cuda_run_{kernel.name}(void **a) {{ (void)a; {kernel.name}({values}); }}"
        )
        table.append(f'{{"{kernel.name}", cuda_run_{kernel.name}}}, ')
    constants = "".join(
        f'{{"{name}", (void *)&{name}, sizeof {name}}}, '
        for name in source_text.constants(source, defines)
    )
    dynamic = source_text.dynamic_shared(source)
    if dynamic:
        text.append(f"alignas(256) thread_local char cuda_dynamic_shared[{LARGEST_SHARED}];")
    for name in dynamic:
        text.append(
            f'extern thread_local char cuda_alias_{name}[] __asm__("{name}") '
            '__attribute__((alias("cuda_dynamic_shared")));'
        )
    text.append(
        "struct cuda_kernel { const char *name; void (*run)(void **); };\n"
        "struct cuda_constant_symbol { const char *name; void *address; size_t bytes; };\n"
        f"cuda_kernel cuda_kernels[] = {{{''.join(table)}{{nullptr, nullptr}}}};\n"
        f"cuda_constant_symbol cuda_constants[] = {{{constants}{{nullptr, nullptr, 0}}}};\n"
    )
    return "\n".join(text)


def _without_restrict(c_type: str) -> str:
    return re.sub(r"\b(__restrict__|__restrict|restrict)\b", "", c_type)


@functools.cache
def _runtime(cache: Path, extra: str) -> Path:
    """Compile the runner itself, with ``extra`` flags, once per machine and version."""
    texts = [
        path.read_text() for path in sorted(RUNTIME.iterdir()) if path.suffix in (".cpp", ".h")
    ]
    flags = [*COMMON, "-O3", *extra.split()]
    path = cache / f"runtime-{_digest(*texts, *flags, compiler()[1])}.o"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            objects = []
            for name in RUNTIME_SOURCES:
                objects.append(f"{folder}/{name}.o")
                command = [compiler()[0], *flags, "-c", str(RUNTIME / name), "-o", objects[-1]]
                _run(command, "", name)
            _run([compiler()[0], "-no-pie", "-r", *objects, "-o", f"{folder}/all.o"], "", "runtime")
            os.replace(f"{folder}/all.o", path)
    return path


def _run(command: list[str], source: str, name: str) -> None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name}: the compiler did not end within {LIMIT:g} s") from None
    if answer.returncode:
        raise CompileError(source_text.explain(answer.stderr, source, name))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.lru_cache(maxsize=256)
def _inspect(path: Path, source: str) -> Program:
    """Read the shared arrays and constants from the program's symbol table."""
    tool = shutil.which("readelf") or shutil.which("llvm-readelf")
    names_dynamic = source_text.dynamic_shared(source)
    if not tool:
        return Program(path, (), {})
    answer = subprocess.run([tool, "-sW", str(path)], capture_output=True, text=True, timeout=LIMIT)
    local, objects = {}, {}
    for text in answer.stdout.splitlines():
        words = text.split()
        if len(words) >= 8 and words[3] == "TLS" and words[6] != "UND":
            local[words[7]] = (int(words[1], 16), int(words[2], 0))
        elif len(words) >= 8 and words[3] == "OBJECT":
            objects[words[7]] = int(words[2], 0)
    anchor = local["cuda_tls_anchor"][0]
    shared = []
    for symbol, (value, size) in local.items():
        # A block's array is a static of its kernel: _ZZ4tilePKfE5cache, maybe with _0 after it.
        match = re.match(r"_ZZ.*E(\d+)(\w+)$", symbol)
        if symbol in names_dynamic:
            shared.append(SharedArray(symbol, value - anchor, size, True))
        elif match:
            label = match.group(2)[: int(match.group(1))]
            shared.append(SharedArray(label, value - anchor, size, False))
    sizes = {n: objects[n] for n in source_text.constants(source) if n in objects}
    return Program(path, tuple(shared), sizes)
