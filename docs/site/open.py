"""Opens every page of the documentation site in headless Chromium, and searches.

`python open.py SITE [--reports FOLDER] [--screenshots FOLDER]`. A page must have a heading, load everything that it
asks for from the site itself, and run without errors. The pages of FOLDER are reports, written by `cntk-reader report`:
they must load nothing at all, and fit a desktop and a telephone. The last line of the output is the number of pages,
searches and reports.
"""

import argparse
import asyncio
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.async_api import async_playwright

#: Without these, Chromium asks its vendor's servers for updates.
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
#: Number of tabs.
TABS = 2
#: Size of a tab in which nobody looks at the page: drawing it takes longer than anything else.
SMALL = {"width": 320, "height": 200}
#: Words to search for, and the folder of a page that must be found.
SEARCHES = {
    "padded_indices": "reference/python.html",
    "EpochCursor": "reference/rust/cntk_reader/",
    "cntk_reader_minibatch_next": "reference/cpp/",
    "StartNextEpoch": "reference/cpp/",
    "truncation": "docs/guide/",
}
#: Pages of which pictures are taken.
SHOWN = [
    "index.html",
    "docs/guide/python.html",
    "docs/guide/sequences.html",
    "docs/performance.html",
    "docs/images.html",
    "reference/python.html",
    "reference/torch.html",
    "reference/c.html",
    "reference/rust/cntk_reader/index.html",
    "reference/rust/cntk_reader/struct.Reader.html",
    "reference/cpp/index.html",
    "reference/cpp/cntk__reader_8h.html",
    "reference/cpp/classcntk_1_1reader_1_1Reader.html",
    "include/cntk_reader.h.html",
]


#: Widths of windows in which a report is looked at.
WIDTHS = (1280, 400)
#: The sections of a report.
SECTIONS = [
    "summary",
    "streams",
    "lengths-of-sequences",
    "values-and-classes",
    "shuffling-and-padding",
    "findings",
    "samples",
]
#: Returns what is wrong with the layout of a report.
LAYOUT = """sections => {
    const wrong = [], root = document.documentElement;
    const all = name => [...document.querySelectorAll(name)];
    if (root.scrollWidth > root.clientWidth) wrong.push(`it is ${root.scrollWidth} pixels wide`);
    if (all("h1").length != 1) wrong.push("no title");
    for (const id of sections)
        if (!document.querySelector(`section#${id} > h2`)) wrong.push(`no section ${id}`);
    const visible = name => all(name).some(({clientWidth: width, clientHeight: height}) => width * height > 0);
    if (!visible("svg.chart")) wrong.push("no histogram");
    if (!all(".bars .bar").some(bar => bar.offsetWidth > 20)) wrong.push("no bars of classes");
    if (all("svg.chart, .bars").some(chart => chart.getBoundingClientRect().right > innerWidth))
        wrong.push("a chart leaves the window");
    for (const image of all("img"))
        if (!image.complete || !image.naturalWidth) wrong.push(`the picture ${image.alt} is broken`);
    // A column that is too narrow breaks its words.
    for (const cell of all("th")) {
        const text = document.createRange();
        text.selectNodeContents(cell);
        const lines = text.getClientRects().length;
        if (lines > 3) wrong.push(`the heading ${cell.textContent} has ${lines} lines`);
    }
    return wrong;
}"""

HEADING = "[...document.querySelectorAll('h1, .title')].some(heading => heading.textContent.trim())"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log, many over one connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Prints nothing."""


class Server(ThreadingHTTPServer):
    """A server from which the browser may turn away at any time."""

    def handle_error(self, request, client_address):
        """Prints nothing."""


async def check(browser, base, names, problems):
    """Opens pages, until no names are left."""
    tab = await browser.new_page(viewport=SMALL)
    name = ""

    def problem(text):
        problems.append(f"{name}: {text}")

    tab.on("pageerror", lambda error: problem(f"JavaScript: {error}"))
    # A request is aborted when the tab goes on to the next page.
    tab.on(
        "requestfailed",
        lambda request: request.failure == "net::ERR_ABORTED" or problem(f"{request.url}: {request.failure}"),
    )
    tab.on("response", lambda got: got.status < 400 or problem(f"{got.url}: status {got.status}"))

    def heard(line):
        # The browser asks for an icon of the whole site, which Doxygen's pages do not name.
        if line.type == "error" and not line.location["url"].endswith("/favicon.ico"):
            problem(f"console: {line.text} ({line.location['url']})")

    tab.on("console", heard)
    while names:
        name = names.pop()
        await tab.goto(base + name, wait_until="load")
        if not await tab.evaluate(HEADING):
            problem("no heading")
    await tab.close()


async def search(browser, base, word, wanted):
    """Searches as a reader would: opens the search on the front page and types. Returns whether it finds a page."""
    tab = await browser.new_page()
    await tab.goto(base + "index.html")
    await tab.locator("pagefind-modal-trigger button").first.click()
    await tab.locator("pagefind-modal input").first.fill(word)
    try:
        await tab.locator(f'pagefind-modal a[href*="{wanted}"]').first.wait_for(timeout=20_000)
        return True
    except Exception:
        return False
    finally:
        await tab.close()


async def check_report(browser, path, pictures, problems):
    """Opens a report as a file, as somebody does who got it by mail."""
    for width in WIDTHS:
        tab = await browser.new_page(viewport={"width": width, "height": 900})

        def problem(text, width=width):
            problems.append(f"{path.name}, {width} pixels wide: {text}")

        def asked(request, problem=problem):
            if request.url != path.as_uri() and not request.url.startswith("data:"):
                problem(f"it requests {request.url}")

        tab.on("pageerror", lambda error, problem=problem: problem(f"JavaScript: {error}"))
        tab.on("request", asked)
        tab.on("requestfailed", lambda request, problem=problem: problem(f"{request.url}: {request.failure}"))
        tab.on("console", lambda line, problem=problem: problem(f"console: {line.text}"))
        await tab.goto(path.as_uri(), wait_until="load")
        for wrong in await tab.evaluate(LAYOUT, SECTIONS):
            problem(wrong)
        if pictures:
            await tab.screenshot(path=pictures / f"{path.stem}-{width}.png", full_page=True)
        await tab.close()


async def take_pictures(browser, base, folder):
    """Saves pictures of some pages, in light and dark colours, of a search, and of a telephone."""
    for name in SHOWN:
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 420)):
            if (scheme, width) != ("light", 1280) and name not in SHOWN[:2] + SHOWN[8:9]:
                continue
            tab = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            await tab.goto(base + name)
            await tab.screenshot(path=folder / f"{name.replace('/', '-')}-{scheme}-{width}.png")
            await tab.close()
    for start in ("index.html", "reference/rust/cntk_reader/index.html"):
        tab = await browser.new_page(viewport={"width": 1280, "height": 900})
        await tab.goto(base + start)
        await tab.locator("pagefind-modal-trigger button").first.click()
        await tab.locator("pagefind-modal input").first.fill("minibatch")
        await tab.locator("pagefind-modal a[href]").first.wait_for(timeout=20_000)
        await tab.wait_for_timeout(1000)
        await tab.screenshot(path=folder / f"search-{start.replace('/', '-')}.png")
        await tab.close()


async def main(site, reports, pictures):
    """Serves the site, opens its pages and searches."""
    server = Server(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    # Pages that lead elsewhere have no heading.
    pages = [page for page in sorted(site.rglob("*.html")) if 'http-equiv="refresh"' not in page.read_text()]
    names = [page.relative_to(site).as_posix() for page in pages]
    problems = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        if pictures:
            pictures.mkdir(parents=True, exist_ok=True)
            await take_pictures(browser, base, pictures)
        for report in reports:
            await check_report(browser, report, pictures, problems)
        left = list(names)
        await asyncio.gather(*(check(browser, base, left, problems) for _ in range(TABS)))
        for word, wanted in SEARCHES.items():
            if not await search(browser, base, word, wanted):
                problems.append(f"the search for {word} finds nothing in {wanted}")
        await browser.close()
    if problems:
        sys.exit("\n".join(problems[:100] + [f"{len(problems)} problems"]))
    print(f"{len(names)} pages, {len(SEARCHES)} searches, {len(reports)} reports")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Opens every page of the documentation site, and reports of data.")
    parser.add_argument("site", type=Path)
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--screenshots", type=Path)
    options = parser.parse_args()
    found = sorted(options.reports.resolve().glob("*.html")) if options.reports else []
    asyncio.run(main(options.site.resolve(), found, options.screenshots))
