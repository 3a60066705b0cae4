//! A NuGet package: an assembly for .NET Standard 2.0 by Mono's compiler, and the native library
//! for each system.

use crate::{Made, Packages, archives, commit, scratch, windows};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::cmake::install;
use tooling::dist::{self, Dist};
use tooling::document::blocks;
use tooling::project::{Project, empty_folder};
use tooling::tools::{self, CECIL, NETSTANDARD, Tool};
use tooling::{cross, licences, python};

/// The assembly's sources, below packaging/nuget.
const SOURCES: [&str; 4] = ["Descriptions.cs", "Minibatch.cs", "Native.cs", "Reader.cs"];

/// The place of this machine's native library in the package.
const NATIVE: &str = "runtimes/linux-x64/native/libcntk_reader.so";

/// The place of the one for 64-bit ARM.
const NATIVE_ARM: &str = "runtimes/linux-arm64/native/libcntk_reader.so";

/// The place of the one for Windows.
const NATIVE_WINDOWS: &str = "runtimes/win-x64/native/cntk_reader.dll";

/// A native library, and its place in the package.
struct Native {
    place: &'static str,
    file: PathBuf,
    /// The program that strips it, unless it is stripped.
    strip: Option<String>,
}

/// The assembly's place in the package.
const ASSEMBLY: &str = "lib/netstandard2.0/CntkReader.dll";

/// The only runtime of .NET that package registries in reach have: .NET Core 3.1.
const DOTNET: &str = "dotnetcore2==3.1.23";

/// The only reference of the assembly.
const STANDARD: &str = "netstandard, Version=2.0.0.0, Culture=neutral, PublicKeyToken=cc7b13ffcd2ddd51";

/// Output of the example on success.
const EXAMPLE_OUTPUT: [&str; 3] = ["epoch 2: accuracy 0.9", "the same weights", "line 2, stream features"];

/// Builds the package, and runs programs with it under two runtimes.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    tools::need(project, &[Tool::MonoDevel, Tool::Zip, Tool::Binutils])?;
    let dist = project.part("library, release mode", || dist::build(project))?;
    let natives = natives(project, &dist)?;
    let file = packages.folder.join(format!("CntkReader.{}.nupkg", dist.version));
    let stage = scratch(project, "nuget-stage")?;
    let bytes = project.part("package, twice", || {
        let first = package(project, &dist, &natives, &stage, &file)?;
        let second = package(project, &dist, &natives, &stage, &file)?;
        ensure!(first == second, "Building the package twice gives different bytes.");
        Ok(second)
    })?;
    ensure!(!bytes.is_empty(), "{} is empty", file.display());

    let home = scratch(project, "nuget")?;
    let by_nuget = project.part("installing", || unpack(project, &file, &dist, &home))?;
    let mut trials = vec![
        "two builds of the package are the same bytes".to_owned(),
        format!("the assembly's only reference is {STANDARD}"),
        by_nuget,
    ];
    let programs = compile(project, &home.join("cntkreader").join(&dist.version))?;
    project.part("under Mono", || mono(project, &home, &dist, &programs))?;
    trials.push(
        "Mono: the README's program and the digits example (trains, resumes, fails as told)".to_owned(),
    );
    match python::environment_with(project, "dotnet", &[DOTNET])? {
        Ok(python) => {
            project.part("under .NET Core 3.1", || core(project, &python, &home, &dist, &programs))?;
            trials.push(".NET Core 3.1: the same, found in the packages folder by its own rules".to_owned());
        }
        Err(reason) => trials.push(format!("not tried under .NET Core: {reason}")),
    }
    Ok(Made { files: vec![file], trials })
}

/// Builds the native library for other systems than this one.
fn natives(project: &Project, dist: &Dist) -> Result<Vec<Native>> {
    let arm = cross::aarch64(project)?;
    let on_arm = project.part("library for aarch64, release mode", || dist::build(&arm))?;
    let (_, on_windows) = windows::dist(project)?;
    let windows = on_windows.folder.join("bin/cntk_reader.dll");
    Ok(vec![
        Native { place: NATIVE, file: dist.library(), strip: Some(project.binutil("strip")) },
        Native { place: NATIVE_ARM, file: on_arm.library(), strip: Some(arm.binutil("strip")) },
        Native { place: NATIVE_WINDOWS, file: windows, strip: None },
    ])
}

/// Builds the package from its parts, and returns its bytes.
fn package(project: &Project, dist: &Dist, natives: &[Native], stage: &Path, file: &Path) -> Result<Vec<u8>> {
    empty_folder(stage)?;
    assembly(project, dist, stage)?;
    for native in natives {
        let to = stage.join(native.place);
        install(&native.file, &to)?;
        // Line numbers for backtraces are most of its size.
        if let Some(strip) = &native.strip {
            project.run(strip).arg("--strip-debug").arg(to).go()?;
        }
    }
    let text = licences::text(
        project,
        "x86_64-unknown-linux-gnu",
        &["cntk-reader-clib"],
        "The native library contains",
    )?;
    std::fs::write(stage.join("THIRD-PARTY.txt"), text)?;
    install(&project.path("LICENSE"), &stage.join("LICENSE"))?;
    let folder = project.path("packaging/nuget");
    install(&folder.join("README.md"), &stage.join("README.md"))?;
    let commit = commit(project)?;
    let description = std::fs::read_to_string(folder.join("CntkReader.nuspec.in"))?;
    let description = fill(&description, dist)?.replace("@COMMIT@", &commit.id);
    ensure!(!description.contains('@'), "CntkReader.nuspec.in has a placeholder that is not known");
    std::fs::write(stage.join("CntkReader.nuspec"), description)?;
    // Older clients find the description by these two, as in any file of Open Packaging
    // Conventions.
    std::fs::create_dir(stage.join("_rels"))?;
    std::fs::write(stage.join("_rels/.rels"), RELATIONS)?;
    std::fs::write(stage.join("[Content_Types].xml"), CONTENT_TYPES)?;

    let listed = project.run("find").arg(".").args(["-type", "f", "-printf", "%P\\n"]).folder(stage);
    let listed = listed.output()?;
    let mut names: Vec<&str> = listed.lines().collect();
    // Brackets come before letters, so the content types are first, as they should be.
    names.sort_by_key(|name| (!name.starts_with('['), *name));
    archives::zip(project, stage, &names, file)?;
    std::fs::read(file).with_context(|| format!("reading {}", file.display()))
}

/// Compiles the assembly and its documentation.
fn assembly(project: &Project, dist: &Dist, stage: &Path) -> Result<()> {
    let folder = project.path("packaging/nuget");
    let native = std::fs::read_to_string(folder.join("Native.cs"))?;
    ensure!(
        native.contains(&format!("public const uint Abi = {};", dist.abi)),
        "Native.cs is not for ABI {}",
        dist.abi
    );
    let target = stage.join(ASSEMBLY);
    std::fs::create_dir_all(target.parent().context("a file has a folder")?)?;
    let work = scratch(project, "nuget-assembly")?;
    let info = std::fs::read_to_string(folder.join("AssemblyInfo.cs.in"))?;
    std::fs::write(work.join("AssemblyInfo.cs"), fill(&info, dist)?)?;
    let (built, retarget) = (work.join("CntkReader.dll"), work.join("Retarget.exe"));
    let compile = project.run("mcs").args(["-warnaserror", "-optimize+", "-target:library"]);
    let compile = compile.arg(option("-doc", &target.with_extension("xml"))).arg(option("-out", &built));
    compile.args(SOURCES).arg(work.join("AssemblyInfo.cs")).folder(&folder).go()?;
    let compile = project.run("mcs").arg("-warnaserror").arg(format!("-r:{CECIL}"));
    compile.arg(option("-out", &retarget)).arg(folder.join("Retarget.cs")).go()?;
    let run = project.run("mono").arg(&retarget).arg(&built).arg(&target).arg(NETSTANDARD);
    let references = run.output()?;
    ensure!(references.trim() == STANDARD, "The assembly refers to:\n{references}");
    let documented = std::fs::read_to_string(target.with_extension("xml"))?;
    ensure!(documented.contains("T:CntkReader.Reader"), "The documentation lacks the Reader.");
    Ok(())
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}:{}", path.display())
}

/// Fills in the placeholders of a template.
fn fill(template: &str, dist: &Dist) -> Result<String> {
    Ok(template.replace("@VERSION@", &dist.version).replace("@REPOSITORY@", crate::REPOSITORY))
}

/// Installs the package with NuGet where Debian has it, and unpacks it otherwise, into the folder
/// that .NET has for it among its packages. Returns how.
fn unpack(project: &Project, file: &Path, dist: &Dist, home: &Path) -> Result<String> {
    let unpacked = home.join("cntkreader").join(&dist.version);
    std::fs::create_dir_all(&unpacked)?;
    project.run("unzip").args(["-q", "-o"]).arg(file).arg("-d").arg(&unpacked).go()?;
    for needed in [ASSEMBLY, NATIVE, NATIVE_ARM, NATIVE_WINDOWS, "LICENSE", "THIRD-PARTY.txt", "README.md"] {
        ensure!(unpacked.join(needed).is_file(), "{} has no {needed}", file.display());
    }
    let Some(nuget) = tools::on_path("nuget") else {
        return Ok("unpacked by unzip; not installed by NuGet, which is missing".to_owned());
    };
    let source = file.parent().context("a file has a folder")?;
    let run =
        project.run(&nuget.to_string_lossy()).args(["install", "CntkReader", "-Version", &dist.version]);
    let run = run.arg("-Source").arg(source).arg("-OutputDirectory").arg(home.join("by-nuget"));
    // Its cache would hand out an older package of this version.
    run.args(["-NoCache", "-NonInteractive"]).env("HOME", home).go()?;
    let installed = home.join("by-nuget").join(format!("CntkReader.{}", dist.version));
    for needed in [ASSEMBLY, NATIVE, NATIVE_ARM, NATIVE_WINDOWS] {
        let same = std::fs::read(installed.join(needed))? == std::fs::read(unpacked.join(needed))?;
        ensure!(same, "NuGet installs another {needed}");
    }
    Ok("NuGet 2.8 installs it from a folder; the files are those that unzip unpacks".to_owned())
}

/// Compiles the README's program and the digits example against the installed assembly.
fn compile(project: &Project, package: &Path) -> Result<[PathBuf; 2]> {
    let work = scratch(project, "nuget-programs")?;
    let readme = std::fs::read_to_string(package.join("README.md"))?;
    let program = blocks(&readme).into_iter().find(|block| block.language == "csharp");
    std::fs::write(work.join("Readme.cs"), program.context("The README has no program.")?.text)?;
    install(&project.path("examples/csharp/TrainDigits.cs"), &work.join("TrainDigits.cs"))?;
    let compiled = |name: &str| -> Result<PathBuf> {
        let file = work.join(format!("{name}.exe"));
        let compile = project.run("mcs").arg("-warnaserror").arg(option("-out", &file));
        let compile = compile.arg(format!("-r:{NETSTANDARD}")).arg(option("-r", &package.join(ASSEMBLY)));
        compile.arg(work.join(format!("{name}.cs"))).go()?;
        Ok(file)
    };
    Ok([compiled("Readme")?, compiled("TrainDigits")?])
}

/// Runs the programs under Mono, with the library beside them.
fn mono(project: &Project, home: &Path, dist: &Dist, programs: &[PathBuf; 2]) -> Result<()> {
    let package = home.join("cntkreader").join(&dist.version);
    let folder = home.join("mono");
    for file in [&package.join(ASSEMBLY), &package.join(NATIVE), &programs[0], &programs[1]] {
        install(file, &folder.join(file.file_name().context("a file has a name")?))?;
    }
    check(project, &package, |program| Ok(project.run("mono").arg(folder.join(format!("{program}.exe")))))
}

/// Runs the programs under .NET Core, which finds the package as it does for `dotnet run`: by a
/// list of the program's dependencies, below the folder of all packages.
fn core(project: &Project, python: &Path, home: &Path, dist: &Dist, programs: &[PathBuf; 2]) -> Result<()> {
    let package = home.join("cntkreader").join(&dist.version);
    let ask = "import dotnetcore2, os; print(os.path.dirname(dotnetcore2.__file__))";
    let dotnet = project.run(&python.to_string_lossy()).args(["-c", ask]).output()?;
    let dotnet = Path::new(dotnet.trim()).join("bin/dotnet");
    // Wheels do not keep permissions to execute.
    project.run("chmod").arg("+x").arg(&dotnet).go()?;
    let folder = home.join("core");
    for program in programs {
        let name = program.file_stem().context("a program has a name")?.to_string_lossy();
        install(program, &folder.join(format!("{name}.dll")))?;
        std::fs::write(folder.join(format!("{name}.runtimeconfig.json")), RUNTIME)?;
        let list = DEPENDENCIES.replace("@PROGRAM@", &name).replace("@VERSION@", &dist.version);
        std::fs::write(folder.join(format!("{name}.deps.json")), list)?;
    }
    check(project, &package, |program| {
        let run = project.run(&dotnet.to_string_lossy()).args(["exec", "--additionalprobingpath"]);
        Ok(run.arg(home).arg(folder.join(format!("{program}.dll"))))
    })
}

/// Runs both programs, and compares what they print.
fn check(project: &Project, package: &Path, run: impl Fn(&str) -> Result<tooling::run::Run>) -> Result<()> {
    let readme = std::fs::read_to_string(package.join("README.md"))?;
    let expected = blocks(&readme).into_iter().find(|block| block.language == "text");
    let expected = expected.context("The README has no output of its program.")?.text;
    let printed = run("Readme")?.output()?;
    ensure!(printed == expected, "The README's program printed\n{printed}\ninstead of\n{expected}");
    let printed = run("TrainDigits")?.arg(project.path("examples/data")).output()?;
    for line in EXAMPLE_OUTPUT {
        ensure!(printed.contains(line), "`{line}` is not in what the example printed:\n{printed}");
    }
    Ok(())
}

const RELATIONS: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest"
    Target="/CntkReader.nuspec" Id="R1" />
</Relationships>
"#;

const CONTENT_TYPES: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />
  <Default Extension="nuspec" ContentType="application/octet" />
  <Default Extension="dll" ContentType="application/octet" />
  <Default Extension="so" ContentType="application/octet" />
  <Default Extension="dylib" ContentType="application/octet" />
  <Default Extension="xml" ContentType="application/octet" />
  <Default Extension="txt" ContentType="application/octet" />
  <Default Extension="md" ContentType="application/octet" />
  <Override PartName="/LICENSE" ContentType="application/octet" />
</Types>
"#;

/// The runtime that a program needs. Without globalization, it needs no ICU.
const RUNTIME: &str = r#"{
  "runtimeOptions": {
    "framework": { "name": "Microsoft.NETCore.App", "version": "3.1.0" },
    "configProperties": { "System.Globalization.Invariant": true }
  }
}
"#;

/// The list of a program's dependencies that .NET's build writes.
const DEPENDENCIES: &str = r#"{
  "runtimeTarget": { "name": ".NETCoreApp,Version=v3.1" },
  "targets": { ".NETCoreApp,Version=v3.1": {
    "@PROGRAM@/1.0.0": {
      "dependencies": { "CntkReader": "@VERSION@" }, "runtime": { "@PROGRAM@.dll": {} }
    },
    "CntkReader/@VERSION@": {
      "runtime": { "lib/netstandard2.0/CntkReader.dll": { "assemblyVersion": "@VERSION@.0" } },
      "runtimeTargets": {
        "runtimes/linux-x64/native/libcntk_reader.so": { "rid": "linux-x64", "assetType": "native" }
      }
    }
  } },
  "libraries": {
    "@PROGRAM@/1.0.0": { "type": "project", "serviceable": false, "sha512": "" },
    "CntkReader/@VERSION@": {
      "type": "package", "serviceable": true, "sha512": "", "path": "cntkreader/@VERSION@"
    }
  }
}
"#;
