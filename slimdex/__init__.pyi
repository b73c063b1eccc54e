# The table of public names: type checkers read it, and `__init__.py` imports from it.
from .errors import CorruptError as CorruptError
from .errors import InputError as InputError
from .errors import InUseError as InUseError
from .errors import SlimdexError as SlimdexError
from .indexes.reducers.linear import Whitening as Whitening
from .indexes.settings import Settings as Settings
from .retrieval.cluster.milvus_search import MilvusCollection as MilvusCollection
from .retrieval.collection import Collection as Collection
from .retrieval.documents import Document as Document
from .retrieval.documents import Hit as Hit
from .retrieval.documents import Part as Part
from .retrieval.encoders.adapters import GivenEncoder as GivenEncoder
from .retrieval.encoders.over_http.http_encoder import HttpEncoder as HttpEncoder
from .retrieval.encoders.transformer import TransformerEncoder as TransformerEncoder
from .retrieval.encoders.word_vectors.static_encoder import StaticEncoder as StaticEncoder
from .retrieval.exporting.export import export as export
from .retrieval.quality.tuning_targets import Target as Target
from .retrieval.remote_collection import RemoteCollection as RemoteCollection
from .retrieval.search.request import SearchRequest as SearchRequest
from .retrieval.search.reranking import CrossEncoder as CrossEncoder

__all__: list[str]
__version__: str
