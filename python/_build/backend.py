"""Builds the wheel and the source distribution, as pip and other front ends ask for it (PEP 517, PEP 660).

The extension module and the command-line tool are built by cargo and go into the wheel. `cargo xtask wheel` runs this file as a program,
and hands over an extension and a tool that were linked for older systems. Equal contents make equal bytes: files are sorted, and
have no times.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The folder with pyproject.toml.
PYTHON = Path(__file__).resolve().parent.parent
#: The workspace of cargo: of a checkout the folder above, of a source distribution the folder `rust`.
RUST = PYTHON / "rust" if (PYTHON / "rust").exists() else PYTHON.parent
#: Files that cargo needs to build the extension and the tool.
RUST_SOURCES = (
    "Cargo.lock",
    "LICENSE",
    "cli/Cargo.toml",
    "cli/src",
    "crates",
    "python/Cargo.toml",
    "python/src",
    "src",
)
#: Tables of Cargo.toml about parts that a source distribution leaves out.
LEFT_OUT = ("[dev-dependencies]", "[[bench]]", "[[example]]", "[[test]]")
PACKAGE_SOURCES = ("LICENSE", "README.md", "_build", "cntk_reader", "pyproject.toml")
EXTENSION = "_native.abi3.so"
TOOL = "cntk-reader"
#: The licences of what was compiled in, beside the project's own.
THIRD_PARTY = "THIRD-PARTY.txt"

ConfigSettings = Optional[Mapping[str, object]]
#: Files of an archive by name: their bytes, and whether they are programs.
Files = dict[str, tuple[bytes, bool]]


class Native(NamedTuple):
    """What was compiled, and for which platform."""

    extension: Path
    tool: Path
    platform: str
    strip: str


def build_wheel(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    """Builds the extension and the tool, and packs the wheel; returns its name."""
    return write_wheel(Path(wheel_directory), compile_native())


def build_editable(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    """Builds the extension into the package's folder, and packs a wheel that only leads there; returns its name."""
    native = compile_native()
    (PYTHON / "cntk_reader" / EXTENSION).write_bytes(stripped(native.extension, native.strip))
    files: Files = {"__editable__.cntk_reader.pth": (f"{PYTHON}\n".encode(), False)}
    return pack(Path(wheel_directory), native, files)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: ConfigSettings = None) -> str:
    """Writes the wheel's metadata without compiling anything; returns the name of their folder."""
    folder = Path(metadata_directory, f"{stem()}.dist-info")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(metadata(), "utf-8")
    return folder.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory: str, config_settings: ConfigSettings = None) -> str:
    """Packs the sources of the package, the extension and the tool; returns the archive's name."""
    files: Files = {"PKG-INFO": (metadata().encode(), False)}
    for source in PACKAGE_SOURCES:
        files.update(sources(PYTHON, source))
    files.setdefault("LICENSE", ((RUST / "LICENSE").read_bytes(), False))
    files["rust/Cargo.toml"] = (cargo_manifest((RUST / "Cargo.toml").read_text("utf-8")).encode(), False)
    for source in RUST_SOURCES:
        files.update({f"rust/{name}": file for name, file in sources(RUST, source).items()})
    name = f"{stem()}.tar.gz"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, (data, is_program) in sorted(files.items()):
            member = tarfile.TarInfo(f"{stem()}/{path}")
            member.size, member.mode = len(data), 0o755 if is_program else 0o644
            archive.addfile(member, io.BytesIO(data))
    with open(Path(sdist_directory, name), "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.write(content.getvalue())
    return name


def cargo_manifest(text: str) -> str:
    """The workspace's manifest without the parts that a source distribution leaves out."""
    tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    kept = "".join(table for table in tables if not table.startswith(LEFT_OUT))
    members = 'members = [".", "crates/*", "cli", "python"]'
    kept = re.sub(r"^default-members = .*$", "", kept, count=1, flags=re.MULTILINE)
    return re.sub(r"^members = \[.*?\]$", members, kept, count=1, flags=re.MULTILINE | re.DOTALL)


def sources(root: Path, name: str) -> Files:
    """A file, or all files of a folder, without what is built or hidden."""
    path = root / name
    if path.is_file():
        return {name: (path.read_bytes(), os.access(path, os.X_OK))}
    found: Files = {}
    for child in sorted(path.iterdir()) if path.is_dir() else ():
        if not child.name.startswith(".") and child.name != "__pycache__" and child.suffix != ".so":
            found.update(sources(root, f"{name}/{child.name}"))
    return found


def find_cargo() -> str:
    """The path of cargo."""
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        raise SystemExit(
            "cntk-reader is built from source here, which takes Rust (cargo), and no cargo was found. Install Rust, or install "
            "the wheel that `cargo xtask wheel` makes on another machine: it needs no compiler."
        )
    return cargo


def compile_native() -> Native:
    """Builds the extension and the tool by cargo, for this machine."""
    cargo = find_cargo()
    environment = {"CARGO_TARGET_DIR": str(RUST / "target" / "pip"), **os.environ}
    built: dict[str, Path] = {}
    compiled = "lib_native.so"
    for targets in (
        ["--package", "cntk-reader-python", "--lib"],
        ["--package", "cntk-reader-cli", "--bin", TOOL],
    ):
        command = [cargo, "rustc", "--release", *targets, "--message-format=json-render-diagnostics"]
        print(" ".join(command), file=sys.stderr, flush=True)
        run = subprocess.run(command, cwd=RUST, env=environment, stdout=subprocess.PIPE, check=False)
        if run.returncode != 0:
            raise SystemExit(f"`{' '.join(command)}` failed in {RUST}; its messages are above.")
        for line in run.stdout.splitlines():
            message = json.loads(line)
            if message["reason"] == "compiler-artifact":
                paths = [Path(path) for path in [*message["filenames"], message["executable"]] if path]
                built.update({path.name: path for path in paths if path.name in (compiled, TOOL)})
    return Native(built[compiled], built[TOOL], local_platform(), "strip")


def local_platform() -> str:
    """The platform of wheels for this machine."""
    if not sys.platform.startswith("linux"):
        raise SystemExit(f"cntk-reader runs on Linux; this is {platform.system()}.")
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def stripped(program: Path, strip: str) -> bytes:
    """A program or library without what only debuggers need."""
    if shutil.which(strip) is None:
        return program.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, program.name)
        subprocess.run([strip, "--strip-unneeded", "-o", output, program], check=True)
        return output.read_bytes()


def write_wheel(folder: Path, native: Native) -> str:
    """Packs the wheel; returns its name."""
    files = sources(PYTHON, "cntk_reader")
    files[f"cntk_reader/{EXTENSION}"] = (stripped(native.extension, native.strip), True)
    files[f"{stem()}.data/scripts/{TOOL}"] = (stripped(native.tool, native.strip), True)
    return pack(folder, native, files)


def pack(folder: Path, native: Native, files: Files) -> str:
    """Writes a wheel with these files and its metadata; returns its name."""
    files = {**files, **dist_info(native.platform)}
    record = f"{stem()}.dist-info/RECORD"
    lines = []
    for name, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    files[record] = ("".join([*lines, f"{record},,\n"]).encode(), False)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{stem()}-{tag(native.platform)}.whl"
    # The metadata come last, so that they can be read without the rest.
    order = sorted(files, key=lambda path: (".dist-info/" in path, path))
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path in order:
            data, is_program = files[path]
            member = zipfile.ZipInfo(path)
            member.create_system = 3
            member.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED, 9)
    return name


def tag(platform_name: str) -> str:
    """CPython 3.9 and newer, whose stable interface the extension module uses."""
    return f"cp39-abi3-{platform_name}"


def dist_info(platform_name: str) -> Files:
    """The metadata of a wheel, but for RECORD."""
    lines = ("Wheel-Version: 1.0", "Generator: cntk-reader", "Root-Is-Purelib: false", f"Tag: {tag(platform_name)}", "")
    folder = f"{stem()}.dist-info"
    return {
        f"{folder}/METADATA": (metadata().encode(), False),
        f"{folder}/WHEEL": ("\n".join(lines).encode(), False),
        f"{folder}/licenses/LICENSE": ((RUST / "LICENSE").read_bytes(), False),
        f"{folder}/licenses/{THIRD_PARTY}": (third_party().encode(), False),
    }


def third_party() -> str:
    """The licences of the crates that are compiled into the extension and the tool, each text once."""
    command = [find_cargo(), "metadata", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"]
    run = subprocess.run(command, cwd=RUST, stdout=subprocess.PIPE, check=True)
    graph = json.loads(run.stdout)
    packages = {package["id"]: package for package in graph["packages"]}
    nodes = {node["id"]: node["deps"] for node in graph["resolve"]["nodes"]}
    reached: set[str] = set()
    waiting = [key for key, package in packages.items() if package["name"] in ("cntk-reader-python", "cntk-reader-cli")]
    while waiting:
        key = waiting.pop()
        if key not in reached:
            reached.add(key)
            # Crates that only build scripts and tests use have another kind.
            waiting += [one["pkg"] for one in nodes[key] if any(kind["kind"] is None for kind in one["dep_kinds"])]
    users: dict[str, list[str]] = {}
    for package in sorted((packages[key] for key in reached), key=lambda package: str(package["name"])):
        # What has no source is of this project.
        for text in licences(Path(package["manifest_path"]).parent) if package["source"] else ():
            users.setdefault(text, []).append(f"{package['name']} {package['version']} ({package['license']})")
    head = "The extension and the tool contain these Rust crates, and Rust's standard library (MIT OR Apache-2.0).\n"
    rule = "\n" + "-" * 80 + "\n"
    return head + "".join(f"{rule}{', '.join(names)}\n\n{text}\n" for text, names in users.items())


def licences(folder: Path) -> list[str]:
    """The texts of the licences in a crate's folder, and in those of C code that it carries along."""
    names = ("license", "licence", "copying", "notice", "unlicense", "copyright")
    found = [path for path in sorted([*folder.iterdir(), *folder.glob("*/*")]) if path.name.lower().startswith(names)]
    texts = [path.read_text("utf-8", "replace").strip() for path in found if path.is_file() and path.suffix != ".rs"]
    return list(dict.fromkeys(texts))


def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((PYTHON / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def version() -> str:
    """The version, which the workspace's manifest has for all packages."""
    text = (RUST / "Cargo.toml").read_text("utf-8")
    return str(tomllib.loads(text)["workspace"]["package"]["version"])


def stem() -> str:
    """The beginning of the names of archives."""
    return f"cntk_reader-{version()}"


def metadata() -> str:
    """The metadata, with the readme as the description."""
    readme = (PYTHON / "README.md").read_text("utf-8")
    fields = "".join(f"{name}: {value}\n" for name, value in metadata_fields(project()))
    return f"{fields}\n{readme}"


def metadata_fields(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of the metadata."""
    yield "Metadata-Version", "2.4"
    yield "Name", table["name"]
    yield "Version", version()
    yield "Summary", table["description"]
    yield "License-Expression", table["license"]
    yield "License-File", "LICENSE"
    yield "License-File", THIRD_PARTY
    yield "Keywords", ",".join(table["keywords"])
    for classifier in table["classifiers"]:
        yield "Classifier", classifier
    for label, url in table["urls"].items():
        yield "Project-URL", f"{label}, {url}"
    yield "Requires-Python", table["requires-python"]
    for requirement in table["dependencies"]:
        yield "Requires-Dist", requirement
    for extra, requirements in table["optional-dependencies"].items():
        yield "Provides-Extra", extra
        for requirement in requirements:
            yield "Requires-Dist", f'{requirement}; extra == "{extra}"'
    yield "Description-Content-Type", "text/markdown"


def main() -> None:
    """Packs a wheel with an extension and a tool that were built already, or the source distribution."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the archive goes")
    parser.add_argument("--extension", type=Path, help="the extension module; without it the source distribution is made")
    parser.add_argument("--tool", type=Path, help="the command-line tool")
    parser.add_argument("--platform", help="platform of the wheel's tag")
    parser.add_argument("--strip", default="strip", help="program that strips symbols")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.extension is None:
        print(build_sdist(str(given.folder)))
    else:
        print(write_wheel(given.folder, Native(given.extension, given.tool, given.platform, given.strip)))


if __name__ == "__main__":
    main()
