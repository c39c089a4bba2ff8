"""Many sites: the newest save of each, merged into one file, with a manifest of what is in it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from onlinels.pipelines import join, last_step, merge
from onlinels.saving import PathLike, load, save
from onlinels.saving.files import _replacing

Tell = Callable[[str, int, int], None]
"""Takes a line on a file, how many files are merged, and how many there are to merge."""


class Save(NamedTuple):
    """A file that a site has written."""

    path: Path
    sha256: str
    modified: str


class Site(NamedTuple):
    """What was merged of a site: the save, its rows, and the SHA-256 of those before it."""

    save: Save
    rows: int
    earlier: tuple[str, ...] = ()


class Manifest(NamedTuple):
    """What an output is made of, and the SHA-256 of all that were written there, the last first."""

    outputs: tuple[str, ...]
    sites: dict[str, Site]


def merge_files(output: PathLike, paths: Iterable[PathLike], tell: Tell | None = None) -> None:
    """Merge the newest save of every site into one file; the command ``python -m onlinels merge``.

    One file name is one site: "north.npz" is a save of the same site in whatever folder it lies.
    The sites are those of the files that are passed and those that were merged into the output
    before. The output is made anew from the newest save of each, never from the output before, so
    that a save that comes twice or late counts once. A manifest beside it, `output` + ".json",
    holds the name, path, SHA-256, time and rows of each.

    Parameters
    ----------
    output : str or PathLike
        Where the merged model is saved. What is there already must have been written by this
        function.
    paths : iterable of str or PathLike
        Files of `save` that hold one model or pipeline each. The output itself is left out.
    tell : callable, optional
        Called with a line on every file, the number of files merged and of all to be merged.

    Raises
    ------
    TypeError, ValueError
        If a file cannot be read, holds several models, or does not fit the others; if the save of
        a site that was merged before is gone; if something else has written the output. The
        message names the file, and nothing is written.
    OSError
        If a file cannot be read or written.

    Notes
    -----
    The newer of two saves is the one that was modified later: copy files with their times
    (``cp -p``, ``rsync -t``, ``scp -p``). Content that was merged and replaced before is known by
    its SHA-256, whatever its time. Two files of the same content count once.

    One model at a time is in memory beside the sum, and what `merge` takes. A file is read three
    times, twice of them for its SHA-256; sites may save meanwhile. Sites are merged in the order of
    their names, so that the same saves give the same bytes. Output and manifest are each written
    whole or not at all, the manifest first. If the process dies between the two, the old output
    stays, and the next call writes the new one.

    Examples
    --------
    >>> import contextlib, tempfile
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> model.learn_one({"wind": 3.0}, "calm")
    >>> with contextlib.chdir(tempfile.mkdtemp()):
    ...     model.save("north.npz"); merge_files("all.npz", ["north.npz"], lambda *say: print(say))
    ('north.npz: new, 1 rows', 1, 1)
    ('all.npz: 1 rows of 1 sites', 1, 1)
    """
    place = Path(os.path.realpath(output))
    say = tell or _nothing
    known = _read_manifest(place)
    chosen, left_out = _chosen(known, _saves(place, known, paths))
    _check_counted_once(chosen)
    for line in left_out:
        say(line, 0, len(chosen))
    if _is_merged(place, known, chosen):
        for name, wanted in sorted(chosen.items()):
            rows = known.sites[name].rows
            say(f"{wanted.path}: same as before, {rows:,} rows", len(chosen), len(chosen))
        say(f"{output}: nothing new, left as it is", len(chosen), len(chosen))
        return
    merged, sites = None, dict[str, Site]()
    for name, wanted in sorted(chosen.items()):
        model, found = _read(wanted.path)
        before = known.sites.get(name)
        merged = _joined(merged, model, found.path, next(iter(sites.values()), None))
        sites[name] = _site(found, last_step(model).count, before)
        del model  # Not beside the next one.
        say(f"{found.path}: {_compared(sites[name], before)}", len(sites), len(chosen))
    _write(place, merged, known, sites)
    rows = sum(each.rows for each in sites.values())
    say(f"{output}: {rows:,} rows of {len(sites)} sites", len(chosen), len(chosen))


def _nothing(line: str, done: int, total: int) -> None:
    """Tell nobody."""


# -- which saves -----------------------------------------------------------------------------------


def _saves(output: Path, known: Manifest, paths: Iterable[PathLike]) -> Iterator[Save]:
    """Yield the files that were passed, and those that were merged before; each once."""
    passed = [Path(path) for path in paths]
    for path in passed:
        if not path.is_file():
            raise ValueError(f"{path} is no file. Pass the files that sites have saved.")
    merged = [site.save.path for site in known.sites.values()]
    each = {os.path.realpath(path): path for path in [*merged, *passed] if path.is_file()}
    each.pop(str(output), None)
    if not each:
        raise ValueError("paths has no file, expected those that sites have saved. Pass them.")
    # Times of what was merged are known: a copy may have a later one than a newer save.
    times = {site.save.sha256: site.save.modified for site in known.sites.values()}
    for seen in map(_seen, each.values()):
        yield seen._replace(modified=times.get(seen.sha256, seen.modified))


def _seen(path: Path) -> Save:
    """Return what tells the content of a file."""
    with path.open("rb") as file:
        modified = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime_ns / 1e9, UTC)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Save(path, digest, modified.isoformat(timespec="microseconds"))


def _chosen(known: Manifest, saves: Iterable[Save]) -> tuple[dict[str, Save], list[str]]:
    """Return the newest save of every site, and a line on every other file."""
    chosen, left_out = dict[str, Save](), list[str]()
    owners = {site.save.sha256: name for name, site in known.sites.items()}
    for each in sorted(saves, key=lambda each: (each.path.name, each.path)):
        name = owners.setdefault(each.sha256, each.path.name)
        why, other = _reason(known, name, each), chosen.get(name)
        if why:
            left_out.append(f"{each.path}: {why}")
        elif other is None:
            chosen[name] = each
        elif other.sha256 == each.sha256:
            left_out.append(f"{each.path}: a copy of {other.path}, counted once")
        else:
            older, chosen[name] = _ordered(other, each)
            left_out.append(f"{older.path}: older than {chosen[name].path}, ignored")
    for name, site in known.sites.items():
        if name not in chosen:
            raise ValueError(
                f"{site.save.path} was merged before, and neither that save nor a newer one is "
                "there. Bring it back, or delete the output and its manifest to begin anew."
            )
    return chosen, left_out


def _check_counted_once(chosen: dict[str, Save]) -> None:
    """Raise if a file is the output of an earlier merge of others that are here, too."""
    names = {each.sha256: each.path for each in chosen.values()}
    for each in chosen.values():
        place = Path(os.path.realpath(each.path))
        earlier = _manifest_at(_manifest_path(place), place.parent)
        if each.sha256 not in earlier.outputs:
            continue
        for site in earlier.sites.values():
            for digest in (site.save.sha256, *site.earlier):
                if digest in names:
                    raise ValueError(
                        f"{each.path} is an earlier output of this command that holds "
                        f"{names[digest]} already, and its rows would count twice. Pass one of "
                        "the two."
                    )


def _reason(known: Manifest, name: str, seen: Save) -> str:
    """Return why a save of a site is not to be merged, "" if it may be."""
    site = known.sites.get(name)
    if site and site.save.sha256 == seen.sha256:
        return ""
    if seen.sha256 in known.outputs:
        return "an output of this merge, left out"
    replaced = any(seen.sha256 in each.earlier for each in known.sites.values())
    if replaced or (site and seen.modified <= site.save.modified):
        return "older than what was merged, ignored"
    return ""


def _ordered(a: Save, b: Save) -> tuple[Save, Save]:
    """Return two saves of a site, the newer one last."""
    if a.modified == b.modified:
        raise ValueError(
            f"{a.path} and {b.path} differ and were modified at the same time, expected one file "
            "name for one site. Pass the newer one, or rename one if they are of two sites."
        )
    return (a, b) if a.modified < b.modified else (b, a)


# -- merging ---------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Any, Save]:
    """Return the model in a file, and what tells its content: a site may save meanwhile."""
    seen = _seen(path)
    while True:
        model = load(path)
        again = _seen(path)
        if again == seen:
            break
        seen = again
    if type(model) in (dict, list, tuple):
        raise TypeError(
            f"{path} holds a {type(model).__name__}, expected one model or pipeline. Save the "
            "model that is in it to a file of its own, and merge that."
        )
    return model, seen


def _joined(merged: Any, model: Any, path: Path, first: Site | None) -> Any:
    """Return what is merged so far, from the first site on, with the model of a file."""
    try:
        if first is None:
            return merge(model)
        join(merged, model)
    except (TypeError, ValueError) as error:
        others = "" if first is None else f" with {first.save.path}"
        raise ValueError(f"{path} does not merge{others}: {error}") from error
    return merged


def _site(found: Save, rows: int, before: Site | None) -> Site:
    """Return what is to be known of a site from now on."""
    if before is None:
        return Site(found, rows)
    if before.save.sha256 == found.sha256:
        return before._replace(save=found._replace(modified=before.save.modified))
    return Site(found, rows, (before.save.sha256, *before.earlier))


def _compared(site: Site, before: Site | None) -> str:
    if before is None:
        return f"new, {site.rows:,} rows"
    if before.save.sha256 == site.save.sha256:
        return f"same as before, {site.rows:,} rows"
    return f"newer, {site.rows:,} rows ({before.rows:,} before)"


# -- output and manifest ---------------------------------------------------------------------------


def _manifest_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.json")


def _read_manifest(output: Path) -> Manifest:
    """Return what is known of an output; raise ValueError if it is not one of `merge_files`."""
    if not output.parent.is_dir():
        raise ValueError(f"output is {output}, but there is no such folder. Make it first.")
    known = _manifest_at(_manifest_path(output), output.parent)
    if output.exists() and _seen(output).sha256 not in known.outputs:
        raise ValueError(
            f"{output} was not written by this command, or has changed since, and would be lost. "
            "Move it away, or name another output first of all."
        )
    return known


def _manifest_at(path: Path, folder: Path) -> Manifest:
    """Return what a manifest says of files in a folder; nothing if there is none."""
    if not path.exists():
        return Manifest((), {})
    try:
        said = json.loads(path.read_bytes())
        return Manifest(
            tuple(said["outputs"]),
            {
                name: Site(
                    Save(folder / each["path"], each["sha256"], each["modified"]),
                    int(each["rows"]),
                    tuple(each["earlier"]),
                )
                for name, each in said["sites"].items()
            },
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ValueError(
            f"{path} cannot be read as a manifest: {error!r}. Move it away."
        ) from error


def _is_merged(output: Path, known: Manifest, chosen: dict[str, Save]) -> bool:
    """Tell whether an output is already that of the saves chosen."""
    return (
        {name: site.save.sha256 for name, site in known.sites.items()}
        == {name: each.sha256 for name, each in chosen.items()}
        and output.exists()
        and _seen(output).sha256 == known.outputs[0]
    )


def _write(output: Path, merged: Any, known: Manifest, sites: dict[str, Site]) -> None:
    """Write the output aside, then the manifest, and put the output in its place."""
    beside = output.with_name(f".{output.name[:24]}.{secrets.token_hex(8)}.saving")
    try:
        save(merged, beside)
        digest = _seen(beside).sha256
        said = {
            "outputs": list(dict.fromkeys([digest, *known.outputs])),
            "sites": {name: _described(site, output.parent) for name, site in sites.items()},
        }
        with _replacing(_manifest_path(output)) as file:
            file.write(json.dumps(said, indent=1).encode())
        if output.exists():
            with suppress(OSError):
                shutil.copymode(output, beside)
        os.replace(beside, output)
    finally:
        with suppress(OSError):
            os.unlink(beside)


def _described(site: Site, folder: Path) -> dict[str, Any]:
    path = Path(os.path.abspath(site.save.path))
    # So that the folder may be moved with all that is in it.
    inside = path.relative_to(folder) if path.is_relative_to(folder) else path
    return {
        "path": inside.as_posix(),
        "sha256": site.save.sha256,
        "modified": site.save.modified,
        "rows": site.rows,
        "earlier": list(site.earlier),
    }
