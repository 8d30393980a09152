"""Virtual environments of pinned packages: one for each file of tests/real/environments, made once in build/real.

A file that begins with `# over NAME` has only the packages that differ from the environment NAME; the others are
taken from there, so that one PyTorch serves many releases of what runs on it.

A line `# compiled PACKAGE` names a package of sources, which is compiled when all others are there: it sees their
headers. `# variable NAME=VALUE` is a variable of that compilation; `{packages}` is the folder in which PyTorch is.
"""
import os
import pathlib
import subprocess
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OVER = "# over "
COMPILED = "# compiled "
VARIABLE = "# variable "


def names():
    return sorted(path.stem for path in (HERE / "environments").glob("*.txt"))


def base_of(text):
    """The environment below the one that `text`, a file of packages, describes; None if it stands alone."""
    first = text.splitlines()[0] if text else ""
    return first.removeprefix(OVER).strip() if first.startswith(OVER) else None


def _marked(text, mark):
    return [line.removeprefix(mark).strip() for line in text.splitlines() if line.startswith(mark)]


def compiled_of(text):
    """The packages that are compiled against the installed ones."""
    return _marked(text, COMPILED)


def variables_of(text, packages):
    """The variables of their compilation."""
    return dict(entry.replace("{packages}", str(packages)).split("=", 1) for entry in _marked(text, VARIABLE))


def site_packages(folder):
    return next((pathlib.Path(folder) / "lib").glob("python3*/site-packages"))


class Environments:
    """Finds or makes environments. `given`: folders of those that are there already, by name."""

    def __init__(self, given=()):
        self._folders = {name: pathlib.Path(folder).resolve() for name, folder in dict(given).items()}

    def folder(self, name):
        """The folder of the environment `name`, made with pip where it is not there."""
        if name not in self._folders:
            self._folders[name] = self._made(name)
        return self._folders[name]

    def _made(self, name):
        listed = HERE / "environments" / f"{name}.txt"
        if not listed.exists():
            raise SystemExit(f"environment {name}: not known; expected one of {', '.join(names())}")
        path = ROOT / "build" / "real" / name
        text = listed.read_text(encoding="utf-8")
        base = base_of(text)
        below = site_packages(self.folder(base)) if base else None
        if (path / "ready").exists():
            return path
        print(f"{name}: installing {listed} into {path}", flush=True)
        venv.create(path, with_pip=True, clear=True)
        if below:
            (site_packages(path) / "below.pth").write_text(f"{below}\n", encoding="utf-8")
        subprocess.run([path / "bin" / "pip", "install", "-q", "-r", listed], check=True)
        self._compile(text, path, below)
        (path / "ready").touch()
        return path

    def _compile(self, text, path, below):
        variables = {**os.environ, "PATH": f"{path / 'bin'}:{os.environ['PATH']}",
                     **variables_of(text, below or site_packages(path))}
        for package in compiled_of(text):
            print(f"{path.name}: compiling {package}", flush=True)
            subprocess.run([path / "bin" / "pip", "install", "-q", "--no-deps", "--no-build-isolation", package],
                           check=True, env=variables)


def parse_given(entries):
    """{"NAME": "FOLDER"} of entries `NAME=FOLDER`."""
    return dict(entry.split("=", 1) for entry in entries)
