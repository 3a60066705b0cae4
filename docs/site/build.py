"""Builds the documentation site: MkDocs, rustdoc and Doxygen under one roof, with one search.

`python build.py RUSTDOC SITE`, with rustdoc's output folder, and the folder for the site. Run by
`cargo xtask docs`, in an environment with the packages that xtask/src/docs_site.rs lists.
"""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: The parts of the site: the folder, the element with a page's text, and the title without what all
#: pages have.
PARTS = {
    "Rust": ("reference/rust", '<section id="main-content" class="content"', r"(.*) - Rust"),
    "C and C++": ("reference/cpp", '<div class="contents"', r"cntk-reader: C and C\+\+: (.*)"),
    "Guide": ("", '<article class="md-content__inner md-typeset"', r"(.*) - cntk-reader"),
}
#: The tags after which pages of other generators get the bar.
PLACES = {"Rust": r"<main[^>]*>", "C and C++": r'<div id="top">'}
#: Pages that would stand before those that explain.
UNSEARCHED = ("benches/", "reference/rust/src/")
#: Parts of pages that nobody searches for: signs beside headings, and what rustdoc says of all
#: types alike.
OMITTED = (
    ".headerlink, .anchor, .doc-anchor, a.src, button, #synthetic-implementations-list, #blanket-implementations-list"
)

SCRIPT = re.compile(r'<script src="([^"]*/trait\.impl/[^"]*)"[^>]*></script>')

BAR = """
<div class="site-bar">
  <a href="{root}index.html">cntk-reader</a>
  <a href="{root}docs/guide/index.html">Guide</a>
  <a href="{root}reference/python.html">Python</a>
  <a href="{root}reference/c.html">C and C++</a>
  <a href="{root}reference/rust.html">Rust</a>
  <pagefind-modal-trigger></pagefind-modal-trigger>
  <pagefind-modal></pagefind-modal>
</div>
"""
HEAD = """
<link rel="stylesheet" href="{root}pagefind/pagefind-component-ui.css">
<link rel="stylesheet" href="{root}site-bar.css">
<script src="{root}pagefind/pagefind-component-ui.js" defer></script>
"""


def main(rustdoc, site):
    """Builds the site."""
    references = site.with_name("references")
    for folder in (references, site):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(rustdoc, references / "rust", ignore=shutil.ignore_patterns(".lock"))
    # Pages of rustdoc lead to its list of crates.
    (references / "rust/index.html").write_text(
        '<!doctype html><title>Rust</title><meta http-equiv="refresh" content="0; url=../rust.html">\n'
    )
    doxygen(references)
    run("mkdocs", "build", "--quiet", "--strict", "-f", HERE / "mkdocs.yml", "-d", site)
    for page in site.rglob("*.html"):
        prepare(page, site)
    run("python", "-m", "pagefind", "--site", site, "--exclude-selectors", OMITTED)
    # Links between pages of rustdoc, and between those of Doxygen, are their own.
    references = ["--exclude-path=reference/rust/", "--exclude-path=reference/cpp/"]
    run("lychee", "--offline", "--include-fragments=full", "--no-progress", f"--root-dir={site}", *references, site)


def run(program, *arguments, **options):
    """Runs a program of this environment. Prints its output and ends if it fails."""
    program = Path(sys.executable).with_name(program)
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([program, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{done.stderr}\n{program.name} {arguments[0]} failed ({done.returncode}).")


def doxygen(references):
    """Makes the reference of the headers."""
    settings = (HERE / "Doxyfile").read_text() + f'OUTPUT_DIRECTORY = "{references}"\nHTML_OUTPUT = cpp\n'
    done = subprocess.run(["doxygen", "-"], cwd=ROOT, input=settings, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{done.stderr}\nDoxygen failed.")


def prepare(page, site):
    """Marks a page's text for the search; gives pages of other generators the bar that leads back."""
    path, text = page.relative_to(site).as_posix(), page.read_text()
    part = next(name for name, (folder, _, _) in PARTS.items() if path.startswith(folder))
    _, element, common = PARTS[part]
    title = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
    if title is None or element not in text:
        return  # A page that only leads elsewhere.
    name = re.fullmatch(common, html.unescape(title[1]))
    name = html.escape(name[1] if name else html.unescape(title[1]))
    weight = 1 if part in PLACES else 4 if path.startswith("docs/guide/") else 2
    if part == "Guide" and path.startswith("reference/"):
        part = "Python"
    shown = name if part == "Guide" else f"{part}: {name}"
    marks = f' data-pagefind-body data-pagefind-weight="{weight}" data-pagefind-meta="title:{shown}"'
    if not path.startswith(UNSEARCHED):
        text = text.replace(element, element + marks, 1)
    if part == "C and C++" and 'class="title"' not in text:
        # Doxygen's alphabetical lists have no heading.
        text = text.replace(element, f'<div class="header"><div class="title">{name}</div></div>{element}', 1)
    if part == "Rust":
        # rustdoc asks for the implementors of traits from crates without pages.
        text = SCRIPT.sub(lambda tag: tag[0] if (page.parent / tag[1]).exists() else "", text)
    if part in PLACES:
        root = "../" * path.count("/")
        text = text.replace("</head>", HEAD.format(root=root) + "</head>", 1)
        text = re.sub(PLACES[part], lambda tag: tag[0] + BAR.format(root=root), text, count=1)
    page.write_text(text)


if __name__ == "__main__":
    main(*(Path(argument).resolve() for argument in sys.argv[1:]))
