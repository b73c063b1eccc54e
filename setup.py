"""Map the folders of this repository to the packages that users import; install the manual page."""

from setuptools import find_packages, setup

FOLDERS = ("indexes", "retrieval", "bench")

found = find_packages(include=[*FOLDERS, *(f"{folder}.*" for folder in FOLDERS)])
setup(
    packages=["slimdex", *(f"slimdex.{name}" for name in found)],
    data_files=[("share/man/man1", ["docs/slimdex.1"])],
    package_dir={f"slimdex.{folder}": folder for folder in FOLDERS},
)
