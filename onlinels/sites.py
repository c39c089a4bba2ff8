"""Many sites: the newest save of each, merged into one file, with a manifest of what is in it."""

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
"""Takes a line on a file, how many files are merged, and how many there are to merge."""

FORMAT = 2
"""What a manifest looks like; another number, if it ever looks otherwise."""


class Save(NamedTuple):
    """A file that a site has written."""

    path: Path
    sha256: str
    modified: str


class Site(NamedTuple):
    """What was merged of a site: the save, its rows, and the SHA-256 of those before it.

    A save that is itself an output of `merge_files` has sites of its own.
    """

    save: Save
    rows: int
    earlier: tuple[str, ...]
    sites: dict[str, Site]


class Manifest(NamedTuple):
    """What an output is made of, and the SHA-256 of all that were written there, the last first."""

    outputs: tuple[str, ...]
    # By the path that a site saves to, seen from the output's folder if it is in there.
    sites: dict[str, Site]


class Choice(NamedTuple):
    """The save of a site that is to be merged, and what was merged of the site before."""

    save: Save
    before: Site | None


def merge_files(output: PathLike, paths: Iterable[PathLike], tell: Tell | None = None) -> None:
    """Merge the newest save of every site into one file; the command ``python -m onlinels merge``.

    One path is one site: a site saves to the same path every time, and "monday/north.npz" and
    "tuesday/north.npz" are two sites, whose rows add up. The sites are those of the files that are
    passed and those that were merged into the output before. The output is made anew from the
    newest save of each, never from the output before, so that a save that comes twice or late
    counts once. A manifest beside it, `output` + ".json", holds the path, SHA-256, time and rows of
    each. Outputs merge as saves do: sites into regions, of one site or of many, and these into a
    nation.

    Parameters
    ----------
    output : str or PathLike
        Where the merged model is saved. What is there already must have been written by this
        function.
    paths : iterable of str or PathLike
        Files of `save` that hold one model or pipeline each. The output itself is left out.
    tell : callable, optional
        Called with a line on every file, the number of files merged and of all to be merged. Other
        merges into the folder wait meanwhile, one that it calls itself for ever.

    Raises
    ------
    TypeError, ValueError
        If a file cannot be read, holds several models, or does not fit the others; if the save of
        a site that was merged before is gone; if something else has written the output; if rows
        would count twice, as those of an output beside a site that is in it, or of two outputs that
        share a site. The message names the files, and nothing is written.
    OSError
        If a file cannot be read or written.

    Notes
    -----
    The newer of two saves is the one that was modified later: copy files with their times
    (``cp -p``, ``rsync -t``, ``scp -p``). Content that was merged and replaced before is known by
    its SHA-256, whatever its time. Two files of the same content count once. A save that has moved
    is known by its content too, and its site has the new path from then on.

    What an output holds is known from the manifest beside it, at any depth: copy the two together.

    One model at a time is in memory beside the sum, and what `merge` takes. A file is read three
    times, twice of them for its SHA-256; sites may save meanwhile. Sites are merged in the order of
    their paths, so that the same saves give the same bytes. Output and manifest are each written
    whole or not at all, the manifest first. If the process dies between the two, the old output
    stays, and the next call writes the new one. Calls whose outputs are in one folder wait for one
    another, in threads and in processes (not on Windows, which cannot lock folders): no call loses
    a site that another has merged meanwhile.

    Examples
    --------
    >>> import contextlib, tempfile
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> model.learn_one({"wind": 3.0}, "calm")
    >>> with contextlib.chdir(tempfile.mkdtemp()):
    ...     model.save("north.npz"); merge_files("all.npz", ["north.npz"], lambda *say: print(say))
    ('north.npz: new site, 1 rows', 1, 1)
    ('all.npz: 1 rows of 1 sites', 1, 1)
    """
    place = Path(os.path.realpath(output))
    if not place.parent.is_dir():
        raise ValueError(f"output is {place}, expected an existing folder. Make the folder first.")
    with files.folder_held(place.parent):
        _merge_files(output, place, paths, tell or (lambda line, done, total: None))


def _merge_files(output: PathLike, place: Path, paths: Iterable[PathLike], say: Tell) -> None:
    """Merge files while no other call writes into the folder of the output."""
    known = _read_manifest(place)
    chosen, left_out = _chosen(known, place.parent, _saves(place, known, paths))
    _check_counted_once([_site(each.save, 0, each.before) for each in chosen.values()])
    for line in left_out:
        say(line, 0, len(chosen))
    if _is_merged(place, known, chosen):
        for name, (save, _) in sorted(chosen.items()):
            rows = known.sites[name].rows
            say(f"{save.path}: same as before, {rows:,} rows", len(chosen), len(chosen))
        say(f"{output}: nothing new, left as it is", len(chosen), len(chosen))
        return
    merged, sites = None, dict[str, Site]()
    for name, (wanted, before) in sorted(chosen.items()):
        model, found = _read(wanted.path)
        merged = _joined(merged, model, found.path, next(iter(sites.values()), None))
        sites[name] = _site(found, last_step(model).count, before)
        del model  # Not beside the next one.
        say(f"{found.path}: {_compared(sites[name], before)}", len(sites), len(chosen))
    # Sites, and outputs among them, may have been saved anew meanwhile.
    _check_counted_once(sites.values())
    _write(place, merged, known, sites)
    rows = sum(each.rows for each in sites.values())
    say(f"{output}: {rows:,} rows of {len(sites)} sites", len(chosen), len(chosen))


# -- which saves -----------------------------------------------------------------------------------


def _saves(output: Path, known: Manifest, paths: Iterable[PathLike]) -> Iterator[tuple[str, Save]]:
    """Yield the files that were passed, and those that were merged before; each once, by site."""
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
    # Times of what was merged are known: a copy may have a later one than a newer save.
    times = {site.save.sha256: site.save.modified for site in known.sites.values()}
    for real, path in each.items():
        seen = _seen(path)
        name = names.get(real) or _name(path, output.parent)
        yield name, seen._replace(modified=times.get(seen.sha256, seen.modified))


def _name(path: Path, folder: Path) -> str:
    """Return what identifies a site: the path that it saves to."""
    # As it is given: a link stays the same path when it leads elsewhere.
    given = Path(os.path.abspath(path))
    for each in (given, Path(os.path.realpath(path.parent), path.name)):
        if each.is_relative_to(folder):
            # So that the folder may be moved with all that is in it.
            return each.relative_to(folder).as_posix()
    return given.as_posix()


def _seen(path: Path) -> Save:
    """Return what tells the content of a file."""
    with path.open("rb") as file:
        return _content(path, file)


def _content(path: Path, file: Any) -> Save:
    """Return what tells the content of a file that is open."""
    modified = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime_ns / 1e9, UTC)
    return Save(path, _digest(file), modified.isoformat(timespec="microseconds"))


def _digest(file: Any) -> str:
    """Return the SHA-256 of an open file from where it stands."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def _chosen(
    known: Manifest, folder: Path, saves: Iterable[tuple[str, Save]]
) -> tuple[dict[str, Choice], list[str]]:
    """Return the newest save of every site, and a line on every other file."""
    chosen, left_out = dict[str, Save](), list[str]()
    owners = {site.save.sha256: name for name, site in known.sites.items()}
    # First what lies where a known site saves, then what may be a copy of it.
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
        # A save that is not where its site saved has moved, with the site.
        now = name if (folder / name).is_file() else _name(save.path, folder)
        choices[now] = Choice(save, known.sites.get(name))
    return choices, left_out


def _reason(known: Manifest, name: str, seen: Save) -> str:
    """Return why a save of a site is not to be merged, "" if it may be."""
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
    """Raise if rows would count twice: if two saves are, or hold, saves of one site."""
    seen = dict[str, tuple[Path, Path]]()
    for site in sites:
        path, held = site.save.path, _held(site)
        for mark, mine in held.items():
            other, theirs = seen.setdefault(mark, (path, mine))
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


def _held(site: Site) -> dict[str, Path]:
    """Return the SHA-256 and the paths of all saves in a save, itself included, with their site."""
    path = site.save.path
    held = dict.fromkeys((site.save.sha256, *site.earlier), path)
    if path.is_file():
        # Where an output has come with its manifest from elsewhere, its sites' paths lead nowhere.
        held[os.path.realpath(path)] = path
    for each in site.sites.values():
        # Models that have learnt nothing are alike, and count nothing.
        for mark, of in _held(each).items() if each.rows else ():
            held.setdefault(mark, of)
    return held


# -- merging ---------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Any, Save]:
    """Return the model in a file, and what tells its content: a site may save meanwhile."""
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
    """Return what is merged so far, from the first site on, with the model of a file."""
    try:
        if first is None:
            return merge(model)
        join(merged, model)
    except (TypeError, ValueError) as error:
        others = "" if first is None else f" with {first.save.path}"
        raise ValueError(f"{path} cannot be merged{others}: {error}") from error
    return merged


def _site(found: Save, rows: int, before: Site | None) -> Site:
    """Return what is to be known of a site from now on."""
    inside = _manifest_at(_manifest_path(Path(os.path.realpath(found.path))))
    sites = inside.sites if found.sha256 in inside.outputs else {}
    if before is None:
        return Site(found, rows, (), sites)
    if before.save.sha256 == found.sha256:
        save = found._replace(modified=before.save.modified)
        return Site(save, before.rows, before.earlier, sites or before.sites)
    # A model that has learnt nothing is no earlier save: it may come again, and at other sites.
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
    """Return what is known of an output; raise ValueError if it is not one of `merge_files`."""
    known = _manifest_at(_manifest_path(output))
    if output.exists() and _seen(output).sha256 not in known.outputs:
        raise ValueError(
            f"{output} was not written by this command, or has changed since, and would be "
            "overwritten. Move it away, or pass another output as the first path."
        )
    return known


def _manifest_at(path: Path) -> Manifest:
    """Return what a manifest says; nothing if there is none."""
    if not path.exists():
        return Manifest((), {})
    try:
        said = json.loads(path.read_bytes())
        return Manifest(tuple(said["outputs"]), _sites_at(path.parent, said["sites"]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as a manifest: {error!r}. Move it away."
        ) from error


def _sites_at(folder: Path, said: dict[str, Any]) -> dict[str, Site]:
    """Return sites of a manifest in a folder, by the paths that they save to."""
    return {
        name: Site(
            Save(folder / each["path"], each["sha256"], each["modified"]),
            int(each["rows"]),
            tuple(each["earlier"]),
            _sites_at(folder, each.get("sites", {})),
        )
        for name, each in said.items()
    }


def _is_merged(output: Path, known: Manifest, chosen: dict[str, Choice]) -> bool:
    """Tell whether an output is already that of the saves chosen, and its manifest finds them."""
    return (
        known.sites.keys() == chosen.keys()
        and all(
            known.sites[name].save.sha256 == save.sha256
            and os.path.realpath(known.sites[name].save.path) == os.path.realpath(save.path)
            for name, (save, _) in chosen.items()
        )
        and output.exists()
        and _seen(output).sha256 == known.outputs[0]
    )


def _write(output: Path, merged: Any, known: Manifest, sites: dict[str, Site]) -> None:
    """Write the output aside, then the manifest, and put the output in its place."""
    with files._replacing(output) as file:
        files._write(merged, partial(nullcontext, file))
        file.seek(0)
        # Read as it was written: some systems let nobody else open a file that is locked.
        digest = _digest(file)
        said = {
            "format": FORMAT,
            "outputs": list(dict.fromkeys([digest, *known.outputs])),
            "sites": _described(sites, output.parent),
        }
        with files.written_aside(_manifest_path(output)) as manifest:
            manifest.write(json.dumps(said, indent=1).encode())


def _described(sites: dict[str, Site], folder: Path) -> dict[str, Any]:
    """Return what a manifest in a folder says of sites."""
    said = dict[str, Any]()
    for name, (save, rows, earlier, inside) in sites.items():
        known = save._asdict() | {"path": _name(save.path, folder), "rows": rows}
        said[name] = known | {"earlier": earlier}
        if inside:
            said[name]["sites"] = _described(inside, folder)
    return said
