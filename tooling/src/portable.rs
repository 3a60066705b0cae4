//! Links shared libraries for systems older than the build system.
//!
//! A shared library requires the symbol versions that it was linked against. If it is built on a
//! new system, it does not load on an old one, although nearly all symbols exist there in an older
//! version. Therefore libraries are linked against stubs: libraries with the names of the system's
//! that provide each symbol only in the newest version that the oldest supported system has. The
//! existing versions are read from the system's own libraries. Programs are linked in the same way.

use crate::cross;
use crate::project::Project;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The oldest systems that a library supports: they have glibc 2.17, and this compiler's libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// GCC 4.8, as on Ubuntu 14.04 and CentOS 7.
    Gcc48,
    /// GCC 5, as on Ubuntu 16.04.
    Gcc5,
}

impl Age {
    /// The newest symbol versions that libraries may require.
    fn newest(self) -> [(&'static str, &'static [u32]); 4] {
        let (library, abi): (&[u32], &[u32]) = match self {
            Age::Gcc48 => (&[3, 4, 19], &[1, 3, 7]),
            Age::Gcc5 => (&[3, 4, 21], &[1, 3, 9]),
        };
        [("GLIBC", &[2, 17]), ("GLIBCXX", library), ("CXXABI", abi), ("GCC", &[4, 2, 0])]
    }
}

/// The system's libraries that provide the symbols.
const SYSTEM: [&str; 6] =
    ["libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libc.so.6"];

/// Threading functions that old systems have in libc.so.6; the others are in libpthread.so.0.
const THREADS_IN_LIBC: [&str; 16] = [
    "pthread_attr_destroy",
    "pthread_attr_init",
    "pthread_cond_broadcast",
    "pthread_cond_destroy",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_equal",
    "pthread_exit",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_self",
    "pthread_setcancelstate",
];

/// The linker option that strips line information.
const NO_LINES: &str = "-Wl,--strip-debug";

/// A shared library to link.
pub struct Library<'a> {
    /// The path of the output.
    pub file: &'a Path,
    /// Object files, static libraries and linker options, in order.
    pub inputs: Vec<String>,
    /// The exported symbols.
    pub exports: &'a [String],
    /// A required library besides the system's, and the prefixes of its symbols.
    pub host: Option<(&'a str, &'a [&'a str])>,
    /// The oldest supported systems.
    pub age: Age,
    /// Whether it keeps line information for debuggers and profilers, which is most of a library's
    /// size.
    pub has_lines: bool,
}

impl Library<'_> {
    /// Links the library. `scratch` is a folder for stubs.
    pub fn link(&self, project: &Project, compiler: &str, scratch: &Path) -> Result<()> {
        std::fs::create_dir_all(scratch)?;
        let map = scratch.join("exports.map");
        std::fs::write(&map, format!("{{ global: {}; local: *; }};\n", self.exports.join("; ")))?;
        let common = |output: &Path| {
            let run = project.run(compiler).args(["-shared", "-nodefaultlibs", "-Wl,--gc-sections"]);
            let run = run.arg(format!("-Wl,--version-script={}", map.display())).arg("-o").arg(output);
            run.args(&self.inputs)
        };
        // Symbols that stay undefined if nothing else is linked must come from the system or the
        // host.
        let bare = scratch.join("bare.so");
        let ends = ["-lgcc", "-l:libc_nonshared.a"];
        let any = ["-Wl,--unresolved-symbols=ignore-all", NO_LINES];
        common(&bare).args(any).args(ends).go()?;
        let undefined = project.run("nm").args(["-D", "-u", "--format=posix"]).arg(&bare).output()?;
        std::fs::remove_file(&bare)?;
        let undefined: BTreeSet<&str> =
            undefined.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let stubs = self.stubs(project, compiler, &undefined, scratch)?;
        let run = common(self.file).args(ends).args(["-Wl,--as-needed", "-Wl,-z,defs", "-Wl,-z,relro"]);
        run.args((!self.has_lines).then_some(NO_LINES)).args(&stubs).go().map(drop)
    }

    fn stubs(
        &self,
        project: &Project,
        compiler: &str,
        undefined: &BTreeSet<&str>,
        scratch: &Path,
    ) -> Result<Vec<PathBuf>> {
        let mut stubs = Vec::new();
        if let Some((name, beginnings)) = self.host {
            let own = |symbol: &&&str| beginnings.iter().any(|beginning| symbol.starts_with(beginning));
            let symbols = undefined.iter().filter(own).map(|symbol| (*symbol, None));
            stubs.push(stub(project, compiler, name, symbols, scratch)?);
        }
        let versions = versions(project, compiler)?;
        let mut by_library = BTreeMap::<&str, Vec<(&str, Option<&str>)>>::new();
        for &symbol in undefined {
            if let Some((library, version)) = versions.get(symbol).and_then(|known| newest(known, self.age)) {
                by_library.entry(home(symbol, library)).or_default().push((symbol, Some(version)));
            }
        }
        for library in SYSTEM {
            if let Some(symbols) = by_library.remove(library) {
                stubs.push(stub(project, compiler, library, symbols.into_iter(), scratch)?);
            }
        }
        Ok(stubs)
    }
}

/// Makes stubs of all symbols of the system's libraries, under the names that linkers look for
/// (`libc.so`), to link programs.
pub fn all_stubs(project: &Project, compiler: &str, scratch: &Path) -> Result<PathBuf> {
    let versions = versions(project, compiler)?;
    let mut by_library = BTreeMap::<&str, Vec<(&str, Option<&str>)>>::new();
    for (symbol, known) in &versions {
        if let Some((library, version)) = newest(known, Age::Gcc5) {
            by_library.entry(home(symbol, library)).or_default().push((symbol, Some(version)));
        }
    }
    for (library, symbols) in by_library {
        let made = stub(project, compiler, library, symbols.into_iter(), scratch)?;
        let (name, _) = library.split_once(".so").context("a shared library is named .so")?;
        std::fs::copy(&made, made.with_file_name(format!("{name}.so")))?;
    }
    Ok(scratch.join("stubs"))
}

/// Returns the newest version of a symbol that old systems have, with its library.
fn newest(known: &[(String, String)], age: Age) -> Option<(&str, &str)> {
    let numbered =
        known.iter().filter_map(|(library, version)| Some((number(version, age)?, library, version)));
    numbered.max().map(|(_, library, version)| (library.as_str(), version.as_str()))
}

/// Returns the library that has a symbol on old systems. On new systems, libc.so.6 has threads and
/// dynamic loading.
fn home<'a>(symbol: &str, library: &'a str) -> &'a str {
    match symbol {
        _ if library != "libc.so.6" => library,
        "dladdr" | "dlclose" | "dlerror" | "dlopen" | "dlsym" => "libdl.so.2",
        "_pthread_cleanup_pop" | "_pthread_cleanup_push" => "libpthread.so.0",
        _ if symbol.starts_with("pthread_") && !THREADS_IN_LIBC.contains(&symbol) => "libpthread.so.0",
        _ => library,
    }
}

/// Parses the numbers of a version, if old systems have it.
fn number(version: &str, age: Age) -> Option<Vec<u32>> {
    let (kind, numbers) = version.split_once('_')?;
    let numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u32>>>()?;
    let (_, newest) = age.newest().into_iter().find(|(known, _)| *known == kind)?;
    (numbers.as_slice() <= newest).then_some(numbers)
}

/// Returns all versions of all symbols of the system's libraries, each with its library.
fn versions(project: &Project, compiler: &str) -> Result<BTreeMap<String, Vec<(String, String)>>> {
    let mut versions = BTreeMap::<String, Vec<(String, String)>>::new();
    // Symbols of the dynamic linker are bound through the C library, which always loads it.
    let files = SYSTEM.map(|library| (library, library)).into_iter();
    let loader = if project.cross.is_some() { cross::LOADER } else { "ld-linux-x86-64.so.2" };
    for (file, library) in files.chain([(loader, "libc.so.6")]) {
        let path = project.run(compiler).arg(format!("-print-file-name={file}")).output()?;
        let path = path.trim();
        ensure!(Path::new(path).is_absolute(), "{compiler} does not know {file}");
        let symbols = project.run("readelf").args(["--dyn-syms", "--wide"]).arg(path).output()?;
        for line in symbols.lines() {
            let mut words = line.split_whitespace().skip(6);
            let (section, symbol) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if section == "UND" {
                continue;
            }
            if let Some((symbol, version)) = symbol.split_once('@') {
                let version = version.trim_start_matches('@').to_owned();
                versions.entry(symbol.to_owned()).or_default().push((library.to_owned(), version));
            }
        }
    }
    Ok(versions)
}

/// Makes a library with these symbols, but without code.
fn stub<'a>(
    project: &Project,
    compiler: &str,
    name: &str,
    symbols: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    scratch: &Path,
) -> Result<PathBuf> {
    let mut code = ".text\n".to_owned();
    let mut nodes = BTreeSet::new();
    for (i, (symbol, version)) in symbols.enumerate() {
        match version {
            None => writeln!(code, ".globl {symbol}\n.type {symbol},@function\n{symbol}: ret")?,
            Some(version) => {
                nodes.insert(version);
                writeln!(code, ".globl s{i}\n.type s{i},@function\ns{i}: ret")?;
                writeln!(code, ".symver s{i}, {symbol}@@@{version}")?;
            }
        }
    }
    code += ".section .note.GNU-stack,\"\",@progbits\n";
    let folder = scratch.join("stubs");
    std::fs::create_dir_all(&folder)?;
    let (source, map, file) =
        (folder.join(format!("{name}.s")), folder.join(format!("{name}.map")), folder.join(name));
    std::fs::write(&source, code)?;
    std::fs::write(&map, nodes.iter().map(|node| format!("{node} {{ }};\n")).collect::<String>())?;
    let mut run = project.run(compiler).args(["-shared", "-nostdlib"]);
    run = run.arg(format!("-Wl,-soname,{name}"));
    if !nodes.is_empty() {
        run = run.arg(format!("-Wl,--version-script={}", map.display()));
    }
    run.arg("-o").arg(&file).arg(&source).go()?;
    Ok(file)
}

/// Checks that a library loads on old systems: that it requires only versions that they have, and
/// no libraries except the C++ compiler's, the C library's and `host`.
pub fn check(project: &Project, file: &Path, host: Option<&str>, age: Age) -> Result<()> {
    let name = file.display();
    let dynamic = project.run("readelf").args(["--dynamic", "--wide"]).arg(file).output()?;
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let needed: Vec<&str> =
        needed.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0)).collect();
    for library in &needed {
        ensure!(
            SYSTEM.contains(library) || host == Some(library),
            "{name} needs {library}, which is not allowed."
        );
    }
    if let Some(host) = host {
        ensure!(needed.contains(&host), "{name} does not need {host}, so the loader would not bind it.");
    }
    let versions = project.run("readelf").args(["--version-info", "--wide"]).arg(file).output()?;
    let asked = versions.lines().filter_map(|line| line.split_once("Name: ")?.1.split_whitespace().next());
    let (mut count, mut new) = (0, Vec::new());
    for version in asked {
        count += 1;
        if number(version, age).is_none() {
            new.push(version);
        }
    }
    ensure!(count > 0, "{name} asks for no versions at all: readelf's output is not understood.");
    if new.is_empty() {
        return Ok(());
    }
    bail!("{name} asks for versions that old systems lack: {}", new.join(", "))
}

/// Returns a path as text.
pub fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let number = |version| number(version, Age::Gcc5);
        assert!(number("GLIBC_2.17").is_some());
        assert!(number("GLIBC_2.2.5").is_some());
        assert!(number("GLIBC_2.18").is_none());
        assert!(number("GLIBCXX_3.4.21").is_some());
        assert!(number("GLIBCXX_3.4.9") < number("GLIBCXX_3.4.11"));
        assert!(number("CXXABI_1.3.11").is_none());
        assert!(number("GLIBC_PRIVATE").is_none());
        assert!(number("GLIBC_ABI_DT_RELR").is_none());
    }
}
