"""MkDocs hook: the site has the Markdown files of the whole repository, at their own paths.

Links to other files of the repository lead to pages that show them. The references of Rust and of
C and C++, which `build.py` has made, are files of the site too, so that links to them are checked.
"""

import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
#: Where the text of the Python package, which other sites show too, leads to files of the
#: repository.
REPOSITORY = "https://github.com/cntk-reader/cntk-reader/blob/main/"
#: Markdown that belongs to no reader of the site.
OMITTED = ("cli/", "crates/", "docs/site/", "fuzz/corpus/", "tests/")
PICTURES = (".png", ".svg")
LANGUAGES = {".h": "c", ".hpp": "cpp", ".cs": "csharp", ".rs": "rust", ".sh": "sh", ".toml": "toml"}

LINK = re.compile(r"\]\(([^)\s]+)\)")


def on_files(files, config):
    """Adds the repository's Markdown, and the files to which it links."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    pages = [path for path in listed.stdout.split() if not path.startswith(OMITTED) and (ROOT / path).exists()]
    for path in pages:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    linked = {target for path in pages for target, _ in targets(path, (ROOT / path).read_text())}
    for path in sorted(linked.difference(pages)):
        if path.endswith(PICTURES):
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        elif (ROOT / path).is_dir():
            files.append(File.generated(config, f"{path}/index.md", content=folder(ROOT / path)))
        else:
            files.append(File.generated(config, f"{path}.md", content=listing(path)))
    references = Path(config.site_dir).with_name("references")
    for file in references.rglob("*"):
        if file.is_file():
            path = f"reference/{file.relative_to(references).as_posix()}"
            files.append(File.generated(config, path, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lets the page's links lead to pages of the site."""
    path = page.file.src_uri
    # MkDocs takes "rust,no_run" for no language.
    markdown = re.sub(r"^```(\w+),.*$", r"```\1", markdown, flags=re.MULTILINE)
    for target, link in targets(path, markdown):
        file, _, heading = link.removeprefix(REPOSITORY).partition("#")
        if (ROOT / target).is_dir():
            target += "/index.md"
        elif not target.endswith((".md", *PICTURES)):
            target += ".md"
        there = posixpath.relpath(target, posixpath.dirname(path) or ".")
        markdown = markdown.replace(f"]({link})", f"]({there}{'#' * bool(heading)}{heading})")
    return markdown


def targets(path, markdown):
    """Yields the files of the repository to which a page links, and the links."""
    for link in set(LINK.findall(markdown)):
        file = link.partition("#")[0]
        if file.startswith(REPOSITORY):
            target = file.removeprefix(REPOSITORY)
        elif not file or "://" in file:
            continue
        else:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if (ROOT / target).exists():
            yield target, link


def listing(path):
    """Returns a page that shows a file."""
    language = LANGUAGES.get(Path(path).suffix, Path(path).suffix.removeprefix(".")) or "text"
    return f"# {path}\n\n`````{language}\n{(ROOT / path).read_text()}\n`````\n"


def folder(path):
    """Returns a page that lists a folder's Markdown files, or all of its files."""
    files = sorted(file.name for file in path.glob("*.md")) or sorted(file.name for file in path.iterdir())
    return f"# {path.relative_to(ROOT)}\n\n" + "".join(f"- [{name}]({name})\n" for name in files)
