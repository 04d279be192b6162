"""Joins the app's modules to one script: every module a function, imports its first line.

Only the forms the app uses are understood; anything else is an error here and not a broken page:

    import { a, b } from "./name.js";
    export const a, export function a, export class a
"""

from __future__ import annotations

import re
from collections.abc import Mapping

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(
    r"^export (?=(?:async )?(?:const|let|function|class) ([A-Za-z_]\w*))", re.MULTILINE
)
LEFT_OVER = re.compile(r"^\s*(?:import\b|export\b)|\bimport\s*\(", re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*")


class BrokenApp(RuntimeError):
    """The app's own source cannot be joined; a mistake of this package, not of its user."""


def bundle(modules: Mapping[str, str], entry: str) -> str:
    """One script that runs `entry` after everything it imports.

    modules  source by name, without ".js"

    >>> print(bundle({"a": 'export const x = 1;\\n', "main": 'import { x } from "./a.js";\\nx;\\n'}, "main"))
    (() => {
    "use strict";
    const $a = (() => {
    const x = 1;
    return { x };
    })();
    const $main = (() => {
    const { x } = $a;
    x;
    return {};
    })();
    })();
    """
    parts = [_wrapped(name, modules) for name in _in_order(modules, entry)]
    script = '(() => {\n"use strict";\n' + "".join(parts) + "})();"
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise BrokenApp("The script holds text that would end or hide it in a page.")
    return script


def _in_order(modules: Mapping[str, str], entry: str) -> list[str]:
    """Modules after what they import, or an error that names the circle."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise BrokenApp(f"Modules import each other in a circle: {' > '.join((*path, name))}.")
        if name not in modules:
            raise BrokenApp(f"{path[-1] if path else 'The page'} imports {name}.js: no such file.")
        if name in done:
            return
        for _, source in IMPORT.findall(modules[name]):
            visit(source, (*path, name))
        done.append(name)

    visit(entry, ())
    return done


def _wrapped(name: str, modules: Mapping[str, str]) -> str:
    def unpack(match: re.Match[str]) -> str:
        names = [part.strip() for part in match[1].split(",") if part.strip()]
        for wanted in names:
            if not NAME.fullmatch(wanted):
                raise BrokenApp(f"{name}.js imports {wanted!r}: only plain names are understood.")
            if wanted not in EXPORT.findall(modules[match[2]]):
                raise BrokenApp(f"{name}.js imports {wanted}, which {match[2]}.js does not export.")
        return f"const {{ {', '.join(names)} }} = ${match[2]};\n"

    exports = EXPORT.findall(modules[name])
    body = EXPORT.sub("", IMPORT.sub(unpack, modules[name]))
    if left := LEFT_OVER.search(body):
        line = body.count("\n", 0, left.end()) + 1
        raise BrokenApp(f"{name}.js has an import or export of a form not understood, line {line}.")
    given = f"{{ {', '.join(exports)} }}" if exports else "{}"
    return f"const ${name} = (() => {{\n{body}return {given};\n}})();\n"
