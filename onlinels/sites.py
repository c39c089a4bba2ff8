"""Merge the newest save of each of many sites into one file, with a manifest of its contents."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from onlinels.checks import refusal
from onlinels.devices import SUMS_MAGIC, SentBytes, checked_bytes, merge_devices, read_device
from onlinels.pipelines import join, last_step, merge
from onlinels.saving import PathLike, dumps, load
from onlinels.saving.files import written_aside

try:
    import fcntl
except ImportError:  # On Windows.
    fcntl = None  # type: ignore[assignment]

MANIFEST_VERSION = 3
"""Number of the format of manifests; every change of the format gets a new number."""

START_AGAIN = "delete the output and its manifest to start again."


class Site(NamedTuple):
    """The newest save of a site, as the manifest describes it.

    `modified` is the time of a save, or the serial number of a device's bytes. `earlier` holds the
    SHA-256 of saves that it has replaced. If the save is itself an output of
    `merge_files`, `inside` holds the SHA-256 and the path of each save in it.
    """

    sha256: str
    modified: str
    rows: int
    earlier: list[str]
    inside: list[str]


Sites = dict[str, Site]
"""Sites by the paths that they save to, relative to the folder of the output if inside it."""


def merge_files(
    output: PathLike,
    paths: Iterable[PathLike],
    tell: Callable[[str], None] | None = None,
    model: Any = None,
) -> None:
    """Merge the newest save of every site into one file, as ``python -m onlinels merge`` does.

    A path identifies a site: a site always saves to the same path, and "monday/north.npz" and
    "tuesday/north.npz" are two sites, whose rows add up. The sites are those of the files that are
    passed and those that were merged into the output before. The output is created anew from the
    newest save of each site, never from the previous output. A save that arrives twice or late
    therefore counts once. The manifest `output` + ".json" stores the path, SHA-256, time and number
    of rows of each save. Outputs can be merged like saves: sites into regions, with one site or
    many, and regions into a nation.

    Parameters
    ----------
    output : str or PathLike
        Path of the merged model. A file that exists there must have been written by this function.
    paths : iterable of str or PathLike
        Files written by `save` that hold one model or pipeline each, or bytes that a device has
        sent (`onlinels.devices`). The output itself is skipped.
    tell : callable, optional
        Function that is called with a line about every file. Other merges into the folder wait
        meanwhile, so a merge that it starts itself waits for ever.
    model : linear model, or pipeline that ends in one, optional
        The model from which the programs of devices were exported, if any path is a device's.

    Raises
    ------
    TypeError, ValueError
        If a file cannot be read, holds several models, or does not fit the others; if the save of a
        site that was merged before is missing, or was replaced by an older one; if something else
        has written the output; or if rows would count twice: those of two outputs with the same
        site, or of an output and a newer save of a site in it. The message names the files, and
        nothing is written.
    OSError
        If a file cannot be read or written.

    Notes
    -----
    **Newest save.** A save that replaces one with a later modification time is refused as older:
    copy files with their times (``cp -p``, ``rsync -t``, ``scp -p``). A save that was merged and
    then replaced is recognised by its SHA-256, whatever its time. Files with the same content count
    once, and so do the saves in an output that is merged too.

    **Devices.** The newest bytes of a device are those with the largest serial number, at whatever
    path and time. Whole numbers of all devices add up exactly; see `onlinels.devices`.

    **Manifest.** The manifest describes the contents of an output, at any depth: copy both files
    together.

    **Memory and time.** The memory holds one model at a time, the sum, and what `merge` needs.
    Every file is read twice, once for its SHA-256.

    **Safety.** Sites can save during a merge. Sites are merged in the order of their paths, so the
    same saves result in the same bytes. The manifest and then the output are each written
    completely or not at all. If the process dies between the two, the old output remains, and the
    next call writes the new one. Calls with outputs in the same folder wait for one another, in
    threads and in processes (not on Windows, which cannot lock folders), so no call loses a site
    that another call has merged.

    Examples
    --------
    >>> import contextlib, tempfile
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> model.learn_one({"wind": 3.0}, "calm")
    >>> with contextlib.chdir(tempfile.mkdtemp()):
    ...     model.save("north.npz"); merge_files("all.npz", ["north.npz"], print)
    north.npz: new site, 1 rows
    all.npz: 1 rows of 1 sites
    """
    place = Path(os.path.realpath(output))
    if not place.parent.is_dir():
        raise refusal("output", f"is {place}", "an existing folder", "Make the folder first.")
    with _folder_held(place.parent):
        _merge_files(place, [Path(path) for path in paths], tell or (lambda line: None), model)


@contextmanager
def _folder_held(folder: Path) -> Iterator[None]:
    """Let one process or thread at a time work in a folder, if the system can lock folders."""
    with ExitStack() as stack:
        if fcntl is not None:
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            # Folders on other machines may not support locks.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                # Unlocked explicitly, because a process forked meanwhile has the descriptor too.
                stack.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
        yield


def _merge_files(
    output: Path, paths: list[Path], tell: Callable[[str], None], exported: Any
) -> None:
    """Merge files while the folder of the output is locked."""
    outputs, known = _read_manifest(output)
    current = _sha256(output) if output.exists() else None
    if current not in (None, *outputs):
        found = "was not written by this command, or has changed since"
        remedy = "Move it away, or pass another output as the first path."
        raise refusal(str(output), found, "an output of it", remedy)
    folder = output.parent
    saves = {name: folder / name for name in known}
    saves |= {_name(path, folder): path for path in sorted(paths)}
    saves.pop(output.name, None)
    sent = _newest_of_devices(saves, exported, tell)
    sites = {name: _site(saves[name], known.get(name), sent.get(name)) for name in sorted(saves)}
    for name, reason in _left_out(saves, sites, known, outputs).items():
        tell(f"{saves[name]}: {reason}")
        del sites[name]
    if not sites:
        raise refusal("paths", "has no file to merge", "saves of sites", "Pass their paths.")
    is_new, merged = sites != known or [current] != outputs[:1], None
    for name, site in sites.items():
        if is_new:
            merged, rows = _added(merged, saves[name], sent.get(name), exported)
            sites[name] = site._replace(rows=rows)
        tell(f"{saves[name]}: {_compared(sites[name], known.get(name))}")
    if not is_new:
        tell(f"{output.name}: nothing new, left as it is")
        return
    if sent:
        # All at once: exact sums add up exactly.
        devices = merge_devices(exported, (sent[name].content for name in sites if name in sent))
        merged = devices if merged is None else join(merged, devices)
    _write_output(output, merged, outputs, sites)
    n_rows = sum(site.rows for site in sites.values())
    tell(f"{output.name}: {n_rows:,} rows of {len(sites)} sites")


def _added(merged: Any, path: Path, sent: SentBytes | None, exported: Any) -> tuple[Any, int]:
    """Return the sum with the model in a save, and its number of rows; bytes are only read."""
    model = None if sent else load(path)
    try:
        if sent:
            return merged, read_device(sent.content, exported).rows
        merged = merge(model) if merged is None else join(merged, model)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be merged: {error}") from error
    return merged, last_step(model).count


def _name(path: Path, folder: Path) -> str:
    """Return the name of the site that saves to a path; `folder` is that of the output."""
    # Only folders are resolved: a link remains the same path when its target changes.
    real = Path(os.path.realpath(path.parent), path.name)
    return (real.relative_to(folder) if real.is_relative_to(folder) else real).as_posix()


def _newest_of_devices(
    saves: dict[str, Path], exported: Any, tell: Callable[[str], None]
) -> dict[str, SentBytes]:
    """Return the bytes of devices by site, and leave out saves with older bytes of a device."""
    sent, newest = dict[str, SentBytes](), dict[int, str]()
    for name in filter(lambda name: _is_of_device(saves[name]), sorted(saves)):
        if exported is None:
            remedy = "Pass the model from which the program of the device was exported."
            raise refusal("model", "is None", f"a model to read {saves[name]}", remedy)
        sent[name] = read = checked_bytes(str(saves[name]), saves[name].read_bytes(), exported)
        other = newest.setdefault(read.device, name)
        if read.serial != sent[other].serial:
            older, newest[read.device] = sorted((name, other), key=lambda each: sent[each].serial)
            tell(f"{saves[older]}: not the newest bytes of device {read.device}, left out")
            del sent[older], saves[older]
    return sent


def _is_of_device(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        head = file.read(len(SUMS_MAGIC))
        return len(head) > 0 and SUMS_MAGIC.startswith(head)  # Cut after a byte, too.
    return False


def _check_file(path: Path) -> None:
    """Raise ValueError unless a file exists and holds bytes."""
    if not path.is_file():
        remedy = f"Pass another path. If it was merged before, bring it back, or {START_AGAIN}"
        raise refusal(str(path), "does not exist", "a save", remedy)
    if not path.stat().st_size:
        remedy = "Let the site save, or the device send, again."
        raise refusal(str(path), "is empty", "a save, or bytes of a device", remedy)


def _site(path: Path, before: Site | None, sent: SentBytes | None) -> Site:
    """Return the site that has saved a file; `before` is the site as it was merged before."""
    _check_file(path)
    modified = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="microseconds")
    inside, sha256 = list[str](), _sha256(path)
    if sent is not None:
        # A device has no clock: serial numbers tell which bytes are newer.
        modified, inside = f"serial number {sent.serial:010}", [f"device {sent.device}"]
    outputs, sites = _read_manifest(Path(os.path.realpath(path)))
    for name, site in sites.items() if sha256 in outputs else ():
        # Models that have learnt nothing are all equal, and have no rows to count.
        if site.rows:
            inside += _contents(path.parent / name, site)
    new = Site(sha256, modified, 0, [], sorted(inside))
    if before is None:
        return new
    if sha256 == before.sha256:
        return before
    if modified < before.modified or sha256 in before.earlier:
        found = "is older than the save that was merged before"
        remedy = f"Bring the newer one back, or {START_AGAIN}"
        raise refusal(str(path), found, "that save or a newer one", remedy)
    # A model without rows does not count as an earlier save: it may occur again, also elsewhere.
    replaced = [before.sha256] if before.rows else []
    return new._replace(earlier=replaced + before.earlier)


def _contents(path: Path, site: Site) -> set[str]:
    """Return the SHA-256 and the path of every save whose rows are in the save of a site."""
    # Paths do not exist if an output was copied with its manifest from elsewhere.
    inside = [each for each in site.inside if not Path(each).is_absolute() or Path(each).is_file()]
    return {os.path.realpath(path), site.sha256, *site.earlier, *inside}


def _left_out(
    saves: dict[str, Path], found: Sites, known: Sites, outputs: list[str]
) -> dict[str, str]:
    """Return which saves are left out and why; raise if rows would count twice."""
    contents = {name: _contents(saves[name], site) for name, site in found.items()}
    reasons, merged = dict[str, str](), list[str]()
    # What holds others comes before them. Of copies, the first counts.
    for name in sorted(found, key=lambda name: -len(contents[name])):
        sha256 = found[name].sha256
        holder = next((other for other in merged if sha256 in contents[other]), None)
        if name not in known and sha256 in outputs:
            reasons[name] = "an output of this merge, left out"
        elif holder is not None:
            reasons[name] = f"in {saves[holder]}, counted once"
        else:
            for other in merged:
                for each in contents[name] & contents[other]:
                    both = f"{saves[other]} and {saves[name]}"
                    fault = f"both contain a save of {each}, whose rows would count twice"
                    remedy = f"Pass one of the two; if a site has moved, {START_AGAIN}"
                    raise refusal(both, fault, "no common site", remedy)
            merged.append(name)
    return reasons


def _compared(site: Site, before: Site | None) -> str:
    if before is None:
        return f"new site, {site.rows:,} rows"
    if before.sha256 == site.sha256:
        return f"same as before, {site.rows:,} rows"
    return f"newer, {site.rows:,} rows ({before.rows:,} before)"


# -- output and manifest ---------------------------------------------------------------------------


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.json")


def _read_manifest(output: Path) -> tuple[list[str], Sites]:
    """Return the SHA-256 of all outputs at a path, the latest first, and the sites in the last."""
    path = _manifest_path(output)
    if not path.exists():
        return [], {}
    try:
        content = json.loads(path.read_bytes())
        sites = {name: Site(**site) for name, site in content["sites"].items()}
        return list(content["outputs"]), sites
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        found = f"cannot be read as a manifest: {error!r}"
        raise refusal(str(path), found, "one of this command", "Move it away.") from error


def _write_output(output: Path, merged: Any, outputs: list[str], sites: Sites) -> None:
    """Write the manifest, and then the output."""
    model = dumps(merged)
    content = {
        "format": MANIFEST_VERSION,
        "outputs": list(dict.fromkeys([hashlib.sha256(model).hexdigest(), *outputs])),
        "sites": {name: site._asdict() for name, site in sites.items()},
    }
    manifest = json.dumps(content, indent=1).encode()
    for path, written in ((_manifest_path(output), manifest), (output, model)):
        with written_aside(path) as file:
            file.write(written)
