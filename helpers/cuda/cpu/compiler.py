"""Compile a CUDA C source, unchanged, for this machine's processor: one program per module.

The program is the worker that runs the kernels (runtime/worker.cpp). It is cached by content: the
same source with the same macros compiles once per machine.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.cuda import refused
from helpers.cuda import source as source_text
from helpers.cuda.c_types import code, structs
from helpers.cuda.cpu import assembly, symbols
from helpers.cuda.cpu.marks import with_marks
from helpers.cuda.cpu.protocol import token
from helpers.cuda.cpu.symbols import KERNEL, Symbols
from helpers.cuda.errors import CompileError, UninitialisedError
from helpers.cuda.source import Signature
from helpers.machine.cache import cache_folder
from helpers.machine.compilers import CompilerError, compiler_version, find_compiler

RUNTIME = Path(__file__).parent / "runtime"
RUNTIME_SOURCES = (
    "scheduler.cpp",
    "atomics.cpp",
    "recorder.cpp",
    "tsan.cpp",
    "guard.cpp",
    "order.cpp",
    "paths.cpp",
    "requests.cpp",
    "worker.cpp",
)
LARGEST_SHARED = 232_448  # bytes a block may use on the largest device (sm_90: 227 KiB)
COMMON = ("-std=c++17", "-g", "-fno-pie", "-fno-omit-frame-pointer", "-fdiagnostics-color=never")
SHADOW = 0x7FFF8000  # guard.cpp's OFFSET
# The four programs of a source.
FAST, WATCHED, GUARDED, TRACED = "fast", "watched", "guarded", "traced"
FLAGS = {
    FAST: ("-O2",),
    # No vectorisation: one access of the source stays one access of the record.
    WATCHED: (
        *("-O1", "-fsanitize=thread,bounds,alignment,object-size", "-fno-tree-vectorize"),
        *("-DCUDA_WATCHED", "-fno-exceptions"),
        # A mark (cuda_on_cpu.h) writes below the stack of a function that seems to call nothing.
        *(("-mno-red-zone",) if platform.machine() in ("x86_64", "AMD64") else ()),
    ),
    # Room before and after each local variable, which the flags of WATCHED cannot give. At -O2 two
    # equal ends of two lines become one, and the line that is told may be the other.
    GUARDED: ("-O1", "-fsanitize=kernel-address,bounds", f"-fasan-shadow-offset={SHADOW}"),
    # A call where each piece of code begins; what the kernel calls is part of it (cuda_on_cpu.h).
    TRACED: ("-O1", "-fno-tree-vectorize", "-DCUDA_TRACED"),
}
CLANG_FLAGS = {TRACED: ("-fsanitize-coverage=trace-pc,no-prune",)}
GCC = ("-fno-extern-tls-init",)
GCC_FLAGS = {
    FAST: (),
    WATCHED: (
        *("-fsanitize=bounds-strict", "--param", "tsan-distinguish-volatile=1"),
        # No copies of what lanes of a warp do together, no float4 taken apart.
        *("-fno-thread-jumps", "-fno-tree-sra"),
    ),
    GUARDED: (
        *("-fsanitize=bounds-strict", "--param", "asan-globals=0"),
        *("-fno-sanitize-address-use-after-scope",),
        *("--param", "asan-stack=1", "--param", "asan-instrument-allocas=0"),
        *("--param", "asan-instrumentation-with-call-threshold=0"),
    ),
    TRACED: ("-fsanitize-coverage=trace-pc",),
}
FRAME = re.compile(r'\.string\s+"\d+ \d+ \d+ \d+ ')  # GUARDED has gaps in some function's frame
LIMIT = 120.0  # seconds for one run of the compiler
MONTH = 30 * 86_400.0  # seconds that a compiled module is kept after its last use


@dataclass(frozen=True)
class Program:
    """A compiled module."""

    path: Path
    symbols: Symbols
    text: str  # the source as it was compiled, whose columns reports name


def compiler() -> tuple[str, str]:
    """Return the C++ compiler's path and first version line."""
    try:
        path = find_compiler("C++")
    except CompilerError:
        raise CompileError(
            "running CUDA C without a GPU needs a C++ compiler, and neither g++ nor clang++ is on "
            "PATH: install one (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++)"
        ) from None
    return path, compiler_version(path)


def build(
    source: str,
    name: str,
    defines: Mapping[str, object],
    instances: Sequence[str] = (),
    *,
    kind: str = FAST,
) -> Program:
    """Compile a source for this machine's processor, or find what was compiled before.

    A GUARDED source without local variables in memory has an empty file for its program.
    """
    refused.check_includes(source)
    if kind == WATCHED:
        refused.check(source, refused.HEAP)
    kernels = source_text.kernels(source, defines, instances)
    tail = _tail(source, defines, kernels)
    flags = [*COMMON, *FLAGS[kind]]
    flags += CLANG_FLAGS.get(kind, ()) if is_clang() else [*GCC, *GCC_FLAGS[kind]]
    flags += [f"-D{key}={value}" for key, value in sorted(defines.items())]
    # Kernels get names that the C library cannot have.
    names = dict.fromkeys([*source_text.templates(source), *kernels])
    renamed = "".join(f"#define {n} {KERNEL}{n}\n" for n in names if "<" not in n)
    marked = with_marks(source) if kind == WATCHED else source
    text = f'{renamed}#line 1 "{name}"\n{_one_section(marked)}\n#line 1 "launch of {name}"\n{tail}'
    runtime = _runtime(cache_folder("cuda"), os.environ.get("CUDA_ON_CPU_FLAGS", ""))
    key = _digest(text, *flags, compiler()[1], runtime.name, Path(assembly.__file__).read_text())
    path = cache_folder("cuda") / f"module-{key}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder("cuda")) as folder:
            unit, made = Path(folder) / "unit.cpp", Path(folder) / "module"
            unit.write_text(text)
            include = ["-I", str(RUNTIME / "include"), "-include", str(RUNTIME / "cuda_on_cpu.h")]
            quiet = ["-Wno-unknown-pragmas", "-Wno-attributes", "-fmax-errors=20"]
            if kind == WATCHED:  # certain cases only; "may be used uninitialized" is often wrong
                quiet.append("-Werror=uninitialized")
            command = [compiler()[0], *flags, *include, *quiet, "-S", str(unit)]
            _run([*command, "-o", f"{folder}/unit.s"], source, name)
            said = Path(folder, "unit.s").read_text()
            if kind == GUARDED and not FRAME.search(said):
                made.touch()
            else:
                assembled = Path(folder) / "reader.s"
                assembled.write_text(assembly.rework(said, marked, kind == WATCHED))
                # Linked without -fsanitize: the calls go to the runtime, not to the sanitizers'.
                link = [compiler()[0], "-no-pie", str(assembled), str(runtime), "-lpthread"]
                _run([*link, "-o", str(made)], source, name)
            os.replace(made, path)
        _forget_unused(path.parent)
    else:
        path.touch()  # used: kept for another MONTH
    if not path.stat().st_size:
        return Program(path, Symbols((), ()), marked)
    return Program(path, symbols.read(path, tuple(source_text.dynamic_shared(source))), marked)


def is_clang() -> bool:
    """Tell whether the compiler is clang, whose flags differ."""
    return "clang" in compiler()[1]


def guards_locals(source: str) -> bool:
    """Tell, by a source's text, whether a pointer may lead to a local variable, to be GUARDED."""
    if is_clang() or sys.platform != "linux":
        return False
    text = code(source)
    array = re.compile(r"\b[A-Za-z_]\w*[\s>]+\w+\s*\[")
    elsewhere = re.compile(r"__(?:shared|constant|device)__|^\s*return\b")
    statements = re.split(r"[;{}]", text)
    local = any(array.search(each) and not elsewhere.search(each) for each in statements)
    return local or bool(re.search(r"[(=,?:]\s*&\s*[A-Za-z_]", text))


def _one_section(source: str) -> str:
    """Leave the ``const`` out of ``__constant__ const``: one section cannot hold both kinds."""
    statement = r"[^;{}()#\n]*\b__constant__\b[^;={}\[]*"
    return re.sub(statement, lambda m: re.sub(r"\bconst\b", "     ", m[0]), source)


def _forget_unused(folder: Path) -> None:
    """Delete compiled modules that nobody has used for a month."""
    for old in folder.glob("module-*"):
        with contextlib.suppress(OSError):  # another process may be at it too
            if time.time() - old.stat().st_mtime > MONTH:
                old.unlink()


def _tail(source: str, defines: Mapping[str, object], kernels: dict[str, Signature]) -> str:
    """Write what the worker needs to find and call the kernels of ``source``."""
    table, text = [], []
    for name, dtype in structs(source, defines).items():
        if any(name in p.c_type.split() for kernel in kernels.values() for p in kernel.parameters):
            text.append(
                f'static_assert(sizeof({name}) == {dtype.itemsize}, "NumPy lays {name} out in '
                f'another way");'
            )
    for number, kernel in enumerate(kernels.values()):
        # Read as the compiler sees the parameter's type: a template's own names mean nothing here.
        values = ", ".join(f"cuda_argument{{a[{i}]}}" for i in range(len(kernel.parameters)))
        text.append(
            '__attribute__((no_sanitize("thread"), noinline)) static void '
            f"cuda_run_{number}(void **a) {{ (void)a; ::{kernel.name}({values}); }}"
        )
        table.append(f'{{"{token(kernel.name)}", cuda_run_{number}}}, ')
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
        "#ifdef __SANITIZE_ADDRESS__\nextern const bool cuda_guards_locals = true;\n"
        "#else\nextern const bool cuda_guards_locals = false;\n#endif\n"
    )
    return "\n".join(text)


@functools.cache
def _runtime(cache: Path, extra: str) -> Path:
    """Compile the runner itself, with ``extra`` flags, once per machine and version."""
    texts = [
        path.read_text() for path in sorted(RUNTIME.rglob("*")) if path.suffix in (".cpp", ".h")
    ]
    flags = [*COMMON, "-O3", *(() if is_clang() else GCC), *extra.split()]
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
        answer = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT,
                                env=os.environ | {"LC_ALL": "C"})  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name}: the compiler did not end within {LIMIT:g} s") from None
    if answer.returncode:
        said = source_text.explain(answer.stderr, source, name)
        empty = re.findall(r"line (\d+): error: .*uninitialized.*\n.*", said)
        if empty and len(empty) == said.count(": error: "):
            raise _without_value(said, int(empty[0]))
        raise CompileError(said)


def _without_value(said: str, line: int) -> UninitialisedError:
    """Say which local variables are read before they are written: the compiler's own finding."""
    return UninitialisedError(
        re.sub(
            r"error: (?:variable )?['‘](.+?)['’] .*?uninitialized.*",
            r"the local variable \1 is read before it has a value",
            said,
        ),
        line,
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
