"""Check the built site: links and anchors lead somewhere, no page asks another host, no formula is lost.

python -m tools.check_docs [site]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
from docs_formulas import counts, formula_problems

ROOT = Path(__file__).resolve().parent.parent
LOADS = {  # tags whose attribute makes a browser fetch something by itself
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "use": ("href",),
    "image": ("href",),
    "input": ("src",),
    "track": ("src",),
}
FETCHING_RELS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
    "apple-touch-icon",
    "shortcut",
}
CSS_LOADS = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")
ADDRESS = re.compile(r"https?://[a-z0-9-]+(?:\.[a-z0-9-]+)+")
NAMES = {"www.w3.org", "snowballstem.org"}
"""What scripts name without asking for it: the namespace of drawings, the origin of the search's stemmer."""


@dataclass
class Page:
    """What a page refers to and what can be referred to on it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)


class Reader(HTMLParser):
    """Collects anchors, links and resources."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        given = {name: value or "" for name, value in attrs}
        for name in ("id", "name"):
            if given.get(name) and tag != "meta":
                self.page.anchors.add(given[name])
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        if tag == "form" and given.get("action"):
            self.page.loads.append(given["action"])
        if tag == "link" and set(given.get("rel", "").lower().split()) & FETCHING_RELS:
            self.page.loads.append(given.get("href", ""))
        for name in LOADS.get(tag, ()):
            if given.get(name):
                self.page.loads += [
                    part.split()[0] for part in given[name].split(",") if part.strip()
                ]
        self.page.loads += CSS_LOADS.findall(given.get("style", ""))
        self._style = tag == "style"

    def handle_data(self, data: str) -> None:
        """See HTMLParser."""
        if self._style:
            self.page.loads += CSS_LOADS.findall(data)
            self._style = False


def read(path: Path) -> Page:
    """One page."""
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def is_foreign(address: str) -> bool:
    """Whether an address names a host.

    >>> [is_foreign(a) for a in ("//cdn.example/x.js", "https://a.b/c", "assets/x.js", "data:image/png,x")]
    [True, True, False, False]
    """
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong, one sentence each."""
    pages = {path: read(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} holds no page."
    for path, page in pages.items():
        here = path.relative_to(site)
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if here.name == "404.html" and parts.path.startswith("/"):
                target = site / parts.path.lstrip("/")
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{here} links to {address}, which does not exist."
            elif parts.fragment and target.suffix == ".html":
                known = pages[target].anchors if target in pages else read(target).anchors
                if unquote(parts.fragment) not in known | {"__top"}:
                    yield f"{here} links to {address}: there is no such anchor."
        for address in page.loads:
            if is_foreign(address):
                yield f"{here} loads {address} from another host."
            elif not address.startswith(("data:", "#")):
                parts = urlsplit(address)
                base = site if parts.path.startswith("/") else path.parent
                if not (base / unquote(parts.path).lstrip("/")).exists():
                    yield f"{here} loads {address}, which does not exist."
    yield from foreign_in_assets(site)


def foreign_in_assets(site: Path) -> Iterator[str]:
    """Style sheets and scripts that would ask another host."""
    for path in sorted(site.rglob("*.css")):
        for address in CSS_LOADS.findall(path.read_text(encoding="utf-8")):
            if is_foreign(address):
                yield f"{path.relative_to(site)} loads {address} from another host."
    for path in sorted(site.rglob("*.js")):
        code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for found in set(ADDRESS.findall(code)):
            if found.rpartition("/")[2] not in NAMES and path.name != "searchindex.js":
                yield f"{path.relative_to(site)} names another host: {found}"


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    site = Path(arguments[0]).resolve() if arguments else ROOT / "site"
    wrong = [*problems(site), *formula_problems(site, ROOT / "docs")]
    for sentence in wrong:
        print(sentence)
    pages = sum(1 for _ in site.rglob("*.html"))
    written, drawn = map(sum, zip(*counts(site, ROOT / "docs").values(), strict=True))
    print(f"{pages} pages, {written} formulas in the sources, {drawn} drawn, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
