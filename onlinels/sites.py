"""Merge the newest save of each of many sites into one file, with a manifest of its contents."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from onlinels.pipelines import join, last_step, merge
from onlinels.saving import PathLike, files

Tell = Callable[[str, int, int], None]
"""Function of a line about a file, the number of files merged, and the number of all files."""

MANIFEST_VERSION = 2
"""Number of the format of manifests; every change of the format gets a new number."""


class Save(NamedTuple):
    """A file that a site has saved."""

    path: Path
    sha256: str
    modified: str


class Site(NamedTuple):
    """The merged save of a site, its number of rows, and the SHA-256 of earlier saves.

    A save that is itself an output of `merge_files` has sites of its own.
    """

    save: Save
    rows: int
    earlier: tuple[str, ...]
    sites: dict[str, Site]


class Manifest(NamedTuple):
    """The sites in an output, and the SHA-256 of all outputs at its path, the latest first."""

    outputs: tuple[str, ...]
    # The key is the path that a site saves to, relative to the output's folder if it is inside.
    sites: dict[str, Site]


class Choice(NamedTuple):
    """The save of a site to merge, and the site as it was merged before."""

    save: Save
    before: Site | None


def merge_files(output: PathLike, paths: Iterable[PathLike], tell: Tell | None = None) -> None:
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
        Files written by `save` that hold one model or pipeline each. The output itself is skipped.
    tell : callable, optional
        Function that is called with a line about every file, the number of files merged, and the
        number of all files to merge. Other merges into the folder wait meanwhile, so a merge that
        it starts itself waits for ever.

    Raises
    ------
    TypeError, ValueError
        If a file cannot be read, holds several models, or does not fit the others; if the save of a
        site that was merged before is missing; if something else has written the output; or if rows
        would count twice: those of an output and a site that is in it, or of two outputs with the
        same site. The message names the files, and nothing is written.
    OSError
        If a file cannot be read or written.

    Notes
    -----
    **Newest save.** The newer of two saves is the file with the later modification time: copy files
    with their times (``cp -p``, ``rsync -t``, ``scp -p``). A save that was merged and then replaced
    is recognised by its SHA-256, whatever its time. Two files with the same content count once. A
    save that has moved is also recognised by its content, and its site then has the new path.

    **Manifest.** The manifest describes the contents of an output, at any depth: copy both files
    together.

    **Memory and time.** The memory holds one model at a time, the sum, and what `merge` needs.
    Every file is read three times, two of them for its SHA-256.

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
    ...     model.save("north.npz"); merge_files("all.npz", ["north.npz"], lambda *log: print(log))
    ('north.npz: new site, 1 rows', 1, 1)
    ('all.npz: 1 rows of 1 sites', 1, 1)
    """
    place = Path(os.path.realpath(output))
    if not place.parent.is_dir():
        raise ValueError(f"output is {place}, expected an existing folder. Make the folder first.")
    with files.folder_held(place.parent):
        _merge_files(output, place, paths, tell or (lambda line, done, total: None))


def _merge_files(output: PathLike, place: Path, paths: Iterable[PathLike], report: Tell) -> None:
    """Merge files while the folder of the output is locked."""
    known = _read_manifest(place)
    chosen, left_out = _chosen(known, place.parent, _saves(place, known, paths))
    _check_counted_once([_site(each.save, 0, each.before) for each in chosen.values()])
    for line in left_out:
        report(line, 0, len(chosen))
    if _is_merged(place, known, chosen):
        for name, (save, _) in sorted(chosen.items()):
            rows = known.sites[name].rows
            report(f"{save.path}: same as before, {rows:,} rows", len(chosen), len(chosen))
        report(f"{output}: nothing new, left as it is", len(chosen), len(chosen))
        return
    merged, sites = None, dict[str, Site]()
    for name, (wanted, before) in sorted(chosen.items()):
        model, found = _read(wanted.path)
        merged = _joined(merged, model, found.path, next(iter(sites.values()), None))
        sites[name] = _site(found, last_step(model).count, before)
        del model  # Free its memory before the next model is read.
        report(f"{found.path}: {_compared(sites[name], before)}", len(sites), len(chosen))
    # Checked again, because sites (also outputs) may have saved during the merge.
    _check_counted_once(sites.values())
    _write(place, merged, known, sites)
    rows = sum(each.rows for each in sites.values())
    report(f"{output}: {rows:,} rows of {len(sites)} sites", len(chosen), len(chosen))


# -- which saves -----------------------------------------------------------------------------------


def _saves(output: Path, known: Manifest, paths: Iterable[PathLike]) -> Iterator[tuple[str, Save]]:
    """Yield name and save of every file that was passed or merged before; each file once."""
    passed = [Path(path) for path in paths]
    for path in passed:
        if not path.is_file():
            raise ValueError(f"{path} is not a file. Pass files that sites have saved.")
    own = {name: output.parent / name for name in known.sites}
    merged = [site.save.path for site in known.sites.values()]
    each = {
        os.path.realpath(path): path for path in [*own.values(), *merged, *passed] if path.is_file()
    }
    each.pop(str(output), None)
    if not each:
        raise ValueError("paths has no file to merge, expected saves of sites. Pass their paths.")
    names = {os.path.realpath(path): name for name, path in own.items()}
    # Merged saves keep their times: a copy may have a later time than a newer save.
    times = {site.save.sha256: site.save.modified for site in known.sites.values()}
    for real, path in each.items():
        seen = _identified(path)
        name = names.get(real) or _name(path, output.parent)
        yield name, seen._replace(modified=times.get(seen.sha256, seen.modified))


def _name(path: Path, folder: Path) -> str:
    """Return the name of a site: the path that it saves to."""
    # Not resolved: a link remains the same path when its target changes.
    given = Path(os.path.abspath(path))
    for each in (given, Path(os.path.realpath(path.parent), path.name)):
        if each.is_relative_to(folder):
            # Relative, so that the folder can be moved with its contents.
            return each.relative_to(folder).as_posix()
    return given.as_posix()


def _identified(path: Path) -> Save:
    """Return path, SHA-256 and time of a file."""
    with path.open("rb") as file:
        return _content(path, file)


def _content(path: Path, file: Any) -> Save:
    """Return path, SHA-256 and time of an open file."""
    modified = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime_ns / 1e9, UTC)
    return Save(path, _digest(file), modified.isoformat(timespec="microseconds"))


def _digest(file: Any) -> str:
    """Return the SHA-256 of an open file from its current position."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def _chosen(
    known: Manifest, folder: Path, saves: Iterable[tuple[str, Save]]
) -> tuple[dict[str, Choice], list[str]]:
    """Return the newest save of every site, and a line about every other file."""
    chosen, left_out = dict[str, Save](), list[str]()
    owners = {site.save.sha256: name for name, site in known.sites.items()}
    # Files at the paths of known sites first, then files that may be copies of them.
    for path_name, each in sorted(saves, key=lambda pair: (pair[0] not in known.sites, pair[0])):
        name = owners.setdefault(each.sha256, path_name)
        why, other = _reason(known, name, each), chosen.get(name)
        if why:
            left_out.append(f"{each.path}: {why}")
        elif other is None:
            chosen[name] = each
        elif other.sha256 == each.sha256:
            left_out.append(f"{each.path}: a copy of {other.path}, counted once")
        else:
            left_out.append(f"{each.path}: older than {other.path}, ignored")
    for name, site in known.sites.items():
        if name not in chosen:
            raise ValueError(
                f"{site.save.path} was merged before, and neither this save nor a newer save "
                "exists. Bring it back, or delete the output and its manifest to start again."
            )
    choices = dict[str, Choice]()
    for name, save in chosen.items():
        # If no file is at the path of the site, the site has moved to the path of the save.
        now = name if (folder / name).is_file() else _name(save.path, folder)
        choices[now] = Choice(save, known.sites.get(name))
    return choices, left_out


def _reason(known: Manifest, name: str, seen: Save) -> str:
    """Return the reason why a save of a site must not be merged, "" if it can be merged."""
    site = known.sites.get(name)
    if site and site.save.sha256 == seen.sha256:
        return ""
    replaced = any(seen.sha256 in each.earlier for each in known.sites.values())
    if replaced or (site and seen.modified < site.save.modified):
        return "older than what was merged, ignored"
    if seen.sha256 in known.outputs:
        return "an output of this merge, left out"
    return ""


def _check_counted_once(sites: Iterable[Site]) -> None:
    """Raise if rows would count twice: if two saves are, or contain, saves of one site."""
    seen = dict[str, tuple[Path, Path]]()
    for site in sites:
        path = site.save.path
        for key, mine in _saves_within(site).items():
            other, theirs = seen.setdefault(key, (path, mine))
            if other == path:
                continue
            if mine != path and theirs != other:
                raise ValueError(
                    f"{other} and {path} are outputs of this command that both contain {mine}, and "
                    "its rows would count twice. Pass one of the two. If a site has moved from one "
                    "to the other, delete the output and its manifest to start again."
                )
            whole, part = (other, path) if mine == path else (path, other)
            raise ValueError(
                f"{whole} is an earlier output of this command that contains {part}, and its "
                "rows would count twice. Pass one of the two."
            )


def _saves_within(site: Site) -> dict[str, Path]:
    """Map SHA-256 and path of every save in a save (itself included) to the path of its site."""
    path = site.save.path
    saves = dict.fromkeys((site.save.sha256, *site.earlier), path)
    if path.is_file():
        # The paths of sites do not exist if an output was copied with its manifest from elsewhere.
        saves[os.path.realpath(path)] = path
    for each in site.sites.values():
        # Models that have learnt nothing are all equal, and have no rows to count.
        for key, owner in _saves_within(each).items() if each.rows else ():
            saves.setdefault(key, owner)
    return saves


# -- merging ---------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Any, Save]:
    """Return the model in a file and the save, from one open file: a site may save meanwhile."""
    with path.open("rb") as file:
        seen = _content(path, file)
        file.seek(0)
        model = files._read(lambda: file, str(path))
    if type(model) in (dict, list, tuple):
        raise TypeError(
            f"{path} contains a {type(model).__name__}, expected one model or pipeline. Save each "
            "model in it to a separate file, and merge these files."
        )
    return model, seen


def _joined(merged: Any, model: Any, path: Path, first: Site | None) -> Any:
    """Return the merged model with the model of a file added; `first` is the first merged site."""
    try:
        if first is None:
            return merge(model)
        join(merged, model)
    except (TypeError, ValueError) as error:
        others = "" if first is None else f" with {first.save.path}"
        raise ValueError(f"{path} cannot be merged{others}: {error}") from error
    return merged


def _site(found: Save, rows: int, before: Site | None) -> Site:
    """Return the new entry of a site for the manifest."""
    inside = _manifest_at(_manifest_path(Path(os.path.realpath(found.path))))
    sites = inside.sites if found.sha256 in inside.outputs else {}
    if before is None:
        return Site(found, rows, (), sites)
    if before.save.sha256 == found.sha256:
        save = found._replace(modified=before.save.modified)
        return Site(save, before.rows, before.earlier, sites or before.sites)
    # A model without rows does not count as an earlier save: it may occur again, also elsewhere.
    replaced = (before.save.sha256,) if before.rows else ()
    return Site(found, rows, (*replaced, *before.earlier), sites)


def _compared(site: Site, before: Site | None) -> str:
    if before is None:
        return f"new site, {site.rows:,} rows"
    if before.save.sha256 == site.save.sha256:
        return f"same as before, {site.rows:,} rows"
    return f"newer, {site.rows:,} rows ({before.rows:,} before)"


# -- output and manifest ---------------------------------------------------------------------------


def _manifest_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.json")


def _read_manifest(output: Path) -> Manifest:
    """Return the manifest of an output; raise ValueError if `merge_files` did not write it."""
    known = _manifest_at(_manifest_path(output))
    if output.exists() and _identified(output).sha256 not in known.outputs:
        raise ValueError(
            f"{output} was not written by this command, or has changed since, and would be "
            "overwritten. Move it away, or pass another output as the first path."
        )
    return known


def _manifest_at(path: Path) -> Manifest:
    """Read a manifest; an empty one if the file does not exist."""
    if not path.exists():
        return Manifest((), {})
    try:
        content = json.loads(path.read_bytes())
        return Manifest(tuple(content["outputs"]), _sites_at(path.parent, content["sites"]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as a manifest: {error!r}. Move it away."
        ) from error


def _sites_at(folder: Path, entries: dict[str, Any]) -> dict[str, Site]:
    """Return the sites of a manifest in a folder, by the paths that they save to."""
    return {
        name: Site(
            Save(folder / each["path"], each["sha256"], each["modified"]),
            int(each["rows"]),
            tuple(each["earlier"]),
            _sites_at(folder, each.get("sites", {})),
        )
        for name, each in entries.items()
    }


def _is_merged(output: Path, known: Manifest, chosen: dict[str, Choice]) -> bool:
    """Return whether an output already holds the chosen saves, and its manifest their paths."""
    return (
        known.sites.keys() == chosen.keys()
        and all(
            known.sites[name].save.sha256 == save.sha256
            and os.path.realpath(known.sites[name].save.path) == os.path.realpath(save.path)
            for name, (save, _) in chosen.items()
        )
        and output.exists()
        and _identified(output).sha256 == known.outputs[0]
    )


def _write(output: Path, merged: Any, known: Manifest, sites: dict[str, Site]) -> None:
    """Write the output to a temporary file, then the manifest, and then replace the output."""
    with files.replacing(output) as file:
        files._write(merged, partial(nullcontext, file))
        file.seek(0)
        # Read through the same handle: some systems do not open a locked file again.
        digest = _digest(file)
        content = {
            "format": MANIFEST_VERSION,
            "outputs": list(dict.fromkeys([digest, *known.outputs])),
            "sites": _described(sites, output.parent),
        }
        with files.written_aside(_manifest_path(output)) as manifest:
            manifest.write(json.dumps(content, indent=1).encode())


def _described(sites: dict[str, Site], folder: Path) -> dict[str, Any]:
    """Return the entries of sites for a manifest in a folder."""
    entries = dict[str, Any]()
    for name, (save, rows, earlier, inside) in sites.items():
        known = save._asdict() | {"path": _name(save.path, folder), "rows": rows}
        entries[name] = known | {"earlier": earlier}
        if inside:
            entries[name]["sites"] = _described(inside, folder)
    return entries
