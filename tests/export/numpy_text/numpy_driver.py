"""Driver: runs files of `afx.export.to_numpy` where afx, attrs and llvmlite cannot be imported; a program of its own."""

import importlib.util
import pickle
import sys
import warnings
from pathlib import Path

BLOCKED = ("afx", "attr", "attrs", "llvmlite", "typing_extensions")


class Blocker:
    """A finder of modules that refuses some."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002  # importlib's signature
        """Raise for those; leave others to the next finder."""
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")


def main(folder: Path) -> None:
    """Call the function of each file with its arguments; write the results beside it."""
    sys.meta_path.insert(0, Blocker())
    warnings.simplefilter("error")
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        args = pickle.loads(path.with_suffix(".args").read_bytes())
        path.with_suffix(".result").write_bytes(pickle.dumps(getattr(module, path.stem)(*args)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
