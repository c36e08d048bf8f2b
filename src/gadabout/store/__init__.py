"""A run on disk: a Zarr store that any program can open at any moment, and beside it the data to continue from."""

from gadabout.store.checkpoints import Checkpoints
from gadabout.store.manifest import Manifest, StoreError, digest, layout_from_json, layout_to_json
from gadabout.store.sink import FollowedSink, ZarrSink, start_of

__all__ = [
    "Checkpoints",
    "FollowedSink",
    "Manifest",
    "StoreError",
    "ZarrSink",
    "digest",
    "layout_from_json",
    "layout_to_json",
    "start_of",
]
