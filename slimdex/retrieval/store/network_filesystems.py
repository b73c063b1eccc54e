"""Network file systems: locks of one machine may not hold on another, so changes are refused."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path, PurePath

from slimdex.indexes.errors import InputError

NETWORK = {
    *("9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "ftp", "glusterfs"),
    *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf"),
    *("virtiofs", "vmhgfs", "webdav"),
    *("blobfuse", "blobfuse2", "ceph-fuse", "gcsfuse", "goofys", "gvfsd-fuse", "juicefs", "rclone"),
    *("s3fs", "sshfs", "vmhgfs-fuse"),
}
"""Types of file systems that machines share; those of FUSE without "fuse."."""
SHARE, REMOTE = "\\\\", "remote"
"""Start of a path on another machine, and psutil's word for a drive of one, both on Windows."""


def check_local(path: Path) -> None:
    """Raise `InputError` if a path is on a network file system, as far as the system tells."""
    if (kind := network_kind(path)) is not None:
        raise InputError(
            f"{path}: on a network file system ({kind}); expected a local disk, or "
            "shared_filesystem=True if locks work between all machines that change it"
        )


def is_on_share(path: PurePath) -> bool:
    """Return whether a path names another machine, as on Windows; does not look for it."""
    return path.drive.startswith(SHARE)


@cache
def network_kind(path: Path) -> str | None:
    """Type of the network file system that a path is on; None for a local one."""
    import psutil

    place = path.resolve()
    if is_on_share(place):
        return place.drive
    mounts = []
    with suppress(OSError):
        mounts = psutil.disk_partitions(all=True)
    around = (mount for mount in reversed(mounts) if place.is_relative_to(mount.mountpoint))
    mount = max(around, key=lambda mount: len(Path(mount.mountpoint).parts), default=None)
    if mount is None:
        return None
    is_network = mount.fstype.lower().removeprefix("fuse.") in NETWORK
    return mount.fstype if is_network or REMOTE in mount.opts.split(",") else None
