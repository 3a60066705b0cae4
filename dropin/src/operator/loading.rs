//! The cases with small libraries in place of CNTK's and of the modules, which the loader loads.

use super::Case;
use super::place::{Bench, line, names, run, snapshot};
use crate::script::WRAPPER;
use anyhow::{Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cases for each shell.
pub const ALL: &[(&str, Case)] = &[("loaded modules", loaded_modules), ("unloadable", unloadable)];

/// CNTK's library, which loads a module by its name, as CNTK does.
const LIBRARY: &str = r#"
#include <dlfcn.h>
extern "C" const char* load() {
  void* const module = dlopen("Cntk.Composite-2.7.so", RTLD_LAZY);
  if (module == nullptr) return dlerror();
  return reinterpret_cast<const char* (*)()>(dlsym(module, "name"))();
}
"#;

/// A module.
const MODULE: &str = r#"
extern "C" const char* load();
extern "C" const char* name() { return NAME; }
const char* (*needed)() = load;
"#;

/// A program that uses CNTK.
const PROGRAM: &str = r#"
#include <cstdio>
extern "C" const char* load();
int main() { std::puts(load()); }
"#;

/// Libraries, modules and a program in the folder of a bench.
struct Built<'a> {
    bench: &'a Bench,
    cntk: PathBuf,
    program: PathBuf,
}

impl Built<'_> {
    /// Compiles everything, the modules for 2.7 in the kit too.
    fn new(bench: &Bench) -> Result<Built<'_>> {
        bench.without_tool("ldd")?;
        let cntk = bench.folder.join("an environment/cntk/libs");
        std::fs::create_dir_all(&cntk)?;
        let built = Built { bench, cntk, program: bench.folder.join("program") };
        built.compile("library", LIBRARY, "libCntk.Math-2.7.so", &["-shared", "-ldl"])?;
        built.modules(&built.cntk, "CNTK's own", &[], |_| String::new())?;
        built.own_modules(&[])?;
        built.compile("program", PROGRAM, "../../../program", &["-lCntk.Math-2.7"])?;
        Ok(built)
    }

    /// Compiles the modules in the kit.
    fn own_modules(&self, options: &[&str]) -> Result<()> {
        let kit = self.bench.kit.join("2.7");
        self.modules(&kit, "cntk-reader", options, |name| line("0.1.0", name, "2.7"))
    }

    /// Compiles a module and copies it to each of the modules' names. A line at the end of a
    /// library does not matter to the loader.
    fn modules(
        &self,
        folder: &Path,
        name: &str,
        options: &[&str],
        end: impl Fn(&str) -> String,
    ) -> Result<()> {
        let define = format!("-DNAME=\"{name}\"");
        let common: &[&str] = &["-shared", "-lCntk.Math-2.7", &define];
        self.compile("module", MODULE, "module.so", &[common, options].concat())?;
        for file in names("2.7")? {
            std::fs::copy(self.cntk.join("module.so"), folder.join(&file))?;
            let mut out = std::fs::OpenOptions::new().append(true).open(folder.join(&file))?;
            out.write_all(end(&file).as_bytes())?;
        }
        Ok(std::fs::remove_file(self.cntk.join("module.so"))?)
    }

    /// Compiles a file to a path below the folder of CNTK's libraries.
    fn compile(&self, name: &str, text: &str, to: &str, options: &[&str]) -> Result<()> {
        let source = self.bench.folder.join(format!("{name}.cpp"));
        std::fs::write(&source, text)?;
        let mut command = Command::new(&self.bench.compiler);
        command
            .args(["-fPIC", "-x", "c++"])
            .arg(&source)
            .args(["-x", "none"])
            .arg("-o")
            .arg(self.cntk.join(to));
        command.args(["-Wl,-rpath,$ORIGIN:$ORIGIN/an environment/cntk/libs"]);
        run(command.arg("-L").arg(&self.cntk).args(options))?.expect(0, &[])
    }

    /// Expects that the program's CNTK reads with these modules.
    fn expect(&self, name: &str) -> Result<()> {
        run(&mut Command::new(&self.program))?.expect(0, &[name])
    }
}

fn loaded_modules(bench: &Bench) -> Result<()> {
    let built = Built::new(bench)?;
    let before = snapshot(&built.cntk)?;
    built.expect("CNTK's own")?;
    run(bench.command(WRAPPER).arg(&built.program))?.expect(0, &["cntk-reader"])?;
    bench.installer(&["check"], &built.cntk)?.expect(0, &["The modules load on this system."])?;
    bench.installer(&["install"], &built.cntk)?.expect(0, &["The modules load on this system."])?;
    built.expect("cntk-reader")?;
    bench.installer(&["restore"], &built.cntk)?.expect(0, &[])?;
    built.expect("CNTK's own")?;
    super::place::expect_files(&built.cntk, &before)
}

fn unloadable(bench: &Bench) -> Result<()> {
    let built = Built::new(bench)?;
    let before = snapshot(&built.cntk)?;
    let refused = |parts: &[&str]| {
        let output = bench.installer(&["install"], &built.cntk)?;
        output.expect(1, &[&["does not load on this system:", "Nothing was changed."], parts].concat())?;
        super::place::expect_files(&built.cntk, &before)
    };
    // A library that the modules need, and CNTK does not.
    built.compile("other", "extern \"C\" void other() {}", "libother.so", &["-shared"])?;
    built.own_modules(&["-Wl,--no-as-needed", "-lother"])?;
    std::fs::remove_file(built.cntk.join("libother.so"))?;
    refused(&["libother.so => not found"])?;
    // A symbol that this CNTK lacks.
    built.own_modules(&["-Dload=missing"])?;
    refused(&["undefined symbol: missing"])?;
    // A file that is no library.
    let module = bench.kit.join("2.7/Cntk.Deserializers.Image-2.7.so");
    built.own_modules(&[])?;
    std::fs::write(&module, line("0.1.0", "Cntk.Deserializers.Image-2.7.so", "2.7"))?;
    refused(&["Cntk.Deserializers.Image-2.7.so", "not a dynamic executable"])?;
    // CNTK itself lacks a library, which its programs find by LD_LIBRARY_PATH.
    built.own_modules(&[])?;
    let mpi = bench.folder.join("mpi");
    std::fs::create_dir(&mpi)?;
    built.compile("mpi", "extern \"C\" void mpi() {}", "libcntkmpi.so", &["-shared"])?;
    let needs = ["-shared", "-ldl", "-Wl,--no-as-needed", "-lcntkmpi"];
    built.compile("library", LIBRARY, "libCntk.Math-2.7.so", &needs)?;
    std::fs::rename(built.cntk.join("libcntkmpi.so"), mpi.join("libcntkmpi.so"))?;
    let lacking = ["CNTK itself does not load", "libcntkmpi.so => not found", "They can be installed."];
    bench.installer(&["check"], &built.cntk)?.expect(0, &lacking)?;
    let mut command = bench.command(crate::script::INSTALLER);
    command.arg("install").arg(&built.cntk).env("LD_LIBRARY_PATH", &mpi);
    run(&mut command)?.expect(0, &["The modules load on this system."])?;
    let shown = run(Command::new(&built.program).env("LD_LIBRARY_PATH", &mpi))?;
    ensure!(shown.text == "cntk-reader\n", "{}", shown.text);
    Ok(())
}
