//! The cases without a loader.

use super::Case;
use super::place::{
    Bench, NEW_STRINGS, expect_files, expect_installed, line, make_modules, names, run, snapshot, write,
};
use crate::script::{INSTALLER, WRAPPER};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Cases for each shell.
pub const EACH: &[(&str, Case)] = &[
    ("install and restore", install_and_restore),
    ("terminated", terminated),
    ("ways to a folder", ways_to_a_folder),
    ("wrapper", wrapper),
];

/// Cases for one shell.
pub const ONE: &[(&str, Case)] = &[
    ("other version", other_version),
    ("full disk", full_disk),
    ("no links", no_links),
    ("read-only", read_only),
    ("changed CNTK", changed_cntk),
    ("CNTK again", cntk_again),
    ("lost originals", lost_originals),
    ("moved by hand", moved_by_hand),
    ("releases", releases),
    ("untried", untried),
    ("fewer modules", fewer_modules),
    ("damaged kit", damaged_kit),
    ("two at a time", two_at_a_time),
    ("killed installation", killed_installation),
    ("killed restoration", killed_restoration),
];

/// Programs that change files, the steps of the installer.
const STEPS: [&str; 5] = ["ln", "mv", "cp", "rm", "chmod"];

fn install_and_restore(bench: &Bench) -> Result<()> {
    for release in ["2.7", "2.0.beta15"] {
        let cntk = bench.cntk(&format!("CNTK {release}"), release)?;
        let before = snapshot(&cntk)?;
        bench.installer(&["check"], &cntk)?.expect(0, &[release, "They can be installed."])?;
        bench.installer(&["status"], &cntk)?.expect(3, &["CNTK reads with its own modules."])?;
        expect_files(&cntk, &before)?;
        bench.installer(&["install"], &cntk)?.expect(0, &["now reads with cntk-reader 0.1.0."])?;
        expect_installed(&cntk, &bench.kit, release, &before)?;
        bench.installer(&["install"], &cntk)?.expect(0, &["reads with these modules already."])?;
        expect_installed(&cntk, &bench.kit, release, &before)?;
        bench.installer(&["check"], &cntk)?.expect(0, &["cntk-reader 0.1.0;", "They are installed."])?;
        bench.installer(&["status"], &cntk)?.expect(0, &["CNTK reads with cntk-reader."])?;
        bench.installer(&["restore"], &cntk)?.expect(0, &["its own modules again (5 restored)."])?;
        expect_files(&cntk, &before)?;
        bench.installer(&["restore"], &cntk)?.expect(0, &["Nothing to do"])?;
        expect_files(&cntk, &before)?;
    }
    Ok(())
}

fn other_version(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    bench.installer(&["install"], &cntk)?.expect(0, &[])?;
    make_modules(&bench.kit, "2.7", "0.2.0-rc1")?;
    bench.installer(&["status"], &cntk)?.expect(0, &["cntk-reader 0.1.0;"])?;
    bench.installer(&["install"], &cntk)?.expect(0, &["now reads with cntk-reader 0.2.0-rc1."])?;
    expect_installed(&cntk, &bench.kit, "2.7", &before)?;
    bench.installer(&["restore"], &cntk)?.expect(0, &[])?;
    expect_files(&cntk, &before)
}

/// Has the `number`th step of the installer end with a signal to the installer.
fn signal_at(bench: &Bench, signal: &str, number: usize) -> Result<()> {
    let steps = bench.folder.join("steps");
    std::fs::write(&steps, "")?;
    let body = format!(
        "PATH=${{PATH#*:}}\n\"${{0##*/}}\" \"$@\"\nstatus=$?\necho >> \"$HERE/steps\"\n\
         [ $(wc -l < \"$HERE/steps\") != {number} ] || kill -{signal} $PPID\nexit $status"
    );
    STEPS.iter().try_for_each(|name| bench.tool(name, &body))
}

fn terminated(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    // Steps 2 to 11 copy the modules; then come a link and a move for each module.
    for (signal, number) in [("TERM", 5), ("INT", 12), ("HUP", 15), ("TERM", 18)] {
        signal_at(bench, signal, number)?;
        let ended = bench.installer(&["install"], &cntk)?;
        ended.expect(1, &["Interrupted. CNTK's own modules are in place."])?;
        expect_files(&cntk, &before)?;
    }
    Ok(())
}

fn killed_installation(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    for number in 1.. {
        signal_at(bench, "KILL", number)?;
        let ended = bench.installer(&["install"], &cntk)?;
        STEPS.iter().try_for_each(|name| bench.without_tool(name))?;
        let context = || format!("killed after step {number}");
        nothing_lost(&cntk, &before).with_context(context)?;
        // The steps of a module are a link and a move: each is followed by both.
        if number % 4 < 2 {
            bench.installer(&["install"], &cntk)?.expect(0, &[]).with_context(context)?;
            expect_installed(&cntk, &bench.kit, "2.7", &before).with_context(context)?;
        }
        bench.installer(&["restore"], &cntk)?.expect(0, &[]).with_context(context)?;
        expect_files(&cntk, &before).with_context(context)?;
        if ended.status == 0 {
            ensure!(number > 20, "The installation has {number} steps only.");
            return Ok(());
        }
    }
    Ok(())
}

fn killed_restoration(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    for number in 1.. {
        bench.installer(&["install"], &cntk)?.expect(0, &[])?;
        signal_at(bench, "KILL", number)?;
        let ended = bench.installer(&["restore"], &cntk)?;
        STEPS.iter().try_for_each(|name| bench.without_tool(name))?;
        let context = || format!("killed after step {number}");
        nothing_lost(&cntk, &before).with_context(context)?;
        bench.installer(&["restore"], &cntk)?.expect(0, &[]).with_context(context)?;
        expect_files(&cntk, &before).with_context(context)?;
        if ended.status == 0 {
            ensure!(number > 5, "The restoration has {number} steps only.");
            return Ok(());
        }
    }
    Ok(())
}

/// Checks that each module has a whole file under its name, and each original is there.
fn nothing_lost(cntk: &Path, before: &std::collections::BTreeMap<String, super::place::Kept>) -> Result<()> {
    let found = snapshot(cntk)?;
    for name in names("2.7")? {
        let original = &before[&name];
        let module = found.get(&name).with_context(|| format!("{name} is missing"))?;
        let kept = found.get(&format!("{name}.original"));
        ensure!(module == original || kept == Some(original), "The original of {name} is lost: {found:#?}");
        let text = std::fs::read(cntk.join(&name))?;
        let text = String::from_utf8_lossy(&text);
        let whole = module == original || text.contains(&line("0.1.0", &name, "2.7"));
        ensure!(whole, "{name} is not whole: {text}");
    }
    Ok(())
}

fn full_disk(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    // The third copy ends early.
    bench.tool(
        "cp",
        "PATH=${PATH#*:}\ncp \"$@\"\necho >> \"$HERE/copies\"\nif [ $(wc -l < \"$HERE/copies\") = 3 ]; then\n\
         for last; do :; done\n: > \"$last\"\necho 'No space left on device' >&2\nexit 1\nfi",
    )?;
    bench
        .installer(&["install"], &cntk)?
        .expect(1, &["could not be written. CNTK's own modules are in place."])?;
    expect_files(&cntk, &before)?;
    // A move that fails after others have succeeded.
    std::fs::write(bench.folder.join("copies"), "")?;
    bench.without_tool("cp")?;
    bench.tool(
        "mv",
        "PATH=${PATH#*:}\necho >> \"$HERE/copies\"\n[ $(wc -l < \"$HERE/copies\") != 3 ] || exit 1\nmv \"$@\"",
    )?;
    bench
        .installer(&["install"], &cntk)?
        .expect(1, &["could not be replaced. CNTK's own modules are in place."])?;
    expect_files(&cntk, &before)
}

fn no_links(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    bench.tool("ln", "echo 'Operation not permitted' >&2\nexit 1")?;
    bench.installer(&["install"], &cntk)?.expect(0, &[])?;
    expect_installed(&cntk, &bench.kit, "2.7", &before)?;
    bench.installer(&["restore"], &cntk)?.expect(0, &[])?;
    expect_files(&cntk, &before)
}

fn read_only(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    std::fs::set_permissions(&cntk, PermissionsExt::from_mode(0o555))?;
    for command in ["check", "install", "restore"] {
        let output = bench.installer_as_user(&[command], &cntk)?;
        output.expect(1, &["cannot be written to by", "Nothing was changed."])?;
    }
    bench.installer_as_user(&["status"], &cntk)?.expect(3, &[])?;
    std::fs::set_permissions(&cntk, PermissionsExt::from_mode(0o755))?;
    expect_files(&cntk, &before)
}

fn changed_cntk(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    bench.installer(&["install"], &cntk)?.expect(0, &[])?;
    let changed = &names("2.7")?[1];
    // As a package manager does: the new file replaces the module.
    std::fs::remove_file(cntk.join(changed))?;
    write(&cntk.join(changed), 0o644, "a newer build of CNTK's module")?;
    let now = snapshot(&cntk)?;
    let what = format!("{changed} is CNTK's own and differs from {changed}.original");
    for command in ["check", "install"] {
        bench.installer(&[command], &cntk)?.expect(1, &[&what, "Nothing was changed."])?;
        expect_files(&cntk, &now)?;
    }
    bench.installer(&["status"], &cntk)?.expect(1, &["CNTK's own, but not the one kept"])?;
    // The others are restored, and both files stay.
    bench.installer(&["restore"], &cntk)?.expect(1, &[changed, "Both stay"])?;
    let after = snapshot(&cntk)?;
    ensure!(after.len() == 7, "5 modules, the library and one original: {after:#?}");
    ensure!(
        after[changed] == now[changed] && after.contains_key(&format!("{changed}.original")),
        "{after:#?}"
    );
    std::fs::remove_file(cntk.join(format!("{changed}.original")))?;
    let before = snapshot(&cntk)?;
    bench.installer(&["install"], &cntk)?.expect(0, &[])?;
    expect_installed(&cntk, &bench.kit, "2.7", &before)?;
    // Another release in the folder: its originals are named, and nothing else happens to them.
    let newer = bench.cntk("cntk", "2.6")?;
    std::fs::remove_file(newer.join("libCntk.Math-2.7.so"))?;
    bench
        .installer(&["status"], &newer)?
        .expect(3, &["Cntk.Composite-2.7.so.original is left from another release"])
}

fn cntk_again(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    for command in ["restore", "install"] {
        bench.installer(&["install"], &cntk)?.expect(0, &[])?;
        for name in names("2.7")? {
            // The same package, installed over the modules.
            std::fs::remove_file(cntk.join(&name))?;
        }
        bench.cntk("again", "2.7")?;
        for name in names("2.7")? {
            std::fs::rename(bench.folder.join("again").join(&name), cntk.join(&name))?;
        }
        std::fs::remove_dir_all(bench.folder.join("again"))?;
        bench.installer(&["status"], &cntk)?.expect(1, &["is the same and not needed"])?;
        bench.installer(&[command], &cntk)?.expect(0, &[])?;
        if command == "install" {
            expect_installed(&cntk, &bench.kit, "2.7", &before)?;
            bench.installer(&["restore"], &cntk)?.expect(0, &[])?;
        }
        expect_files(&cntk, &before)?;
    }
    Ok(())
}

fn lost_originals(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let name = &names("2.7")?[0];
    let original = cntk.join(format!("{name}.original"));
    std::fs::copy(bench.kit.join("2.7").join(name), cntk.join(name))?;
    bench.installer(&["status"], &cntk)?.expect(1, &["CNTK's own is lost"])?;
    bench.installer(&["restore"], &cntk)?.expect(1, &["Install CNTK 2.7 again."])?;
    bench.installer(&["install"], &cntk)?.expect(0, &["warning:", "To go back, install CNTK again."])?;
    ensure!(!original.exists(), "cntk-reader's module was kept as an original.");
    std::fs::copy(cntk.join(name), &original)?;
    bench
        .installer(&["install"], &cntk)?
        .expect(1, &["original is cntk-reader's module", "Nothing was changed."])
}

fn moved_by_hand(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    for command in ["restore", "install"] {
        let name = &names("2.7")?[2];
        std::fs::rename(cntk.join(name), cntk.join(format!("{name}.original")))?;
        bench.installer(&["status"], &cntk)?.expect(1, &["missing, but"])?;
        bench.installer(&[command], &cntk)?.expect(0, &[])?;
        bench.installer(&["restore"], &cntk)?.expect(0, &[])?;
        expect_files(&cntk, &before)?;
    }
    Ok(())
}

fn releases(bench: &Bench) -> Result<()> {
    let release = |cntk: &Path| bench.installer(&["release"], cntk);
    let known = bench.cntk("cntk", "2.3.1")?;
    release(&known)?.expect(0, &["2.3.1\n"])?;
    write(&known.join("libCntk.Math-2.3.1.so"), 0o644, NEW_STRINGS)?;
    release(&known)?.expect(0, &["2.3.1-gcc5\n"])?;
    bench.installer(&["install"], &known)?.expect(0, &[])?;
    let beta = bench.cntk("beta", "2.0.beta15")?;
    release(&beta)?.expect(0, &["2.0.beta15\n"])?;
    write(&beta.join("libcntkmath.so"), 0o644, "an older one")?;
    bench.installer(&["install"], &beta)?.expect(1, &["before 2.0 beta 12", "Nothing was changed."])?;
    let none = bench.cntk("none", "2.4")?;
    let only = "there are no modules for 2.4 here, only for: 2.3.1-gcc5 2.3.1 2.5 2.6 2.7 2.0.beta15.";
    bench.installer(&["install"], &none)?.expect(1, &[only, "Nothing was changed."])?;
    let two = bench.cntk("two", "2.7")?;
    bench.cntk("two", "2.6")?;
    let several = "several CNTKs, libCntk.Math-2.6.so and libCntk.Math-2.7.so";
    bench.installer(&["install"], &two)?.expect(1, &[several, "Nothing was changed."])?;
    let incomplete = bench.cntk("incomplete", "2.7")?;
    std::fs::remove_file(incomplete.join("Cntk.Composite-2.7.so"))?;
    bench
        .installer(&["install"], &incomplete)?
        .expect(1, &["no Cntk.Composite-2.7.so: this CNTK is incomplete"])
}

fn untried(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.5")?;
    let before = snapshot(&cntk)?;
    bench.installer(&["check"], &cntk)?.expect(0, &["install needs --untried"])?;
    bench.installer(&["install"], &cntk)?.expect(1, &["have never run in it", "Nothing was changed."])?;
    expect_files(&cntk, &before)?;
    bench.installer(&["install", "--untried"], &cntk)?.expect(0, &[])?;
    expect_installed(&cntk, &bench.kit, "2.5", &before)?;
    bench.installer(&["status", "--untried"], &cntk)?.expect(2, &["--untried belongs to install."])
}

fn ways_to_a_folder(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("an environment/lib/python3.6/site-packages/cntk/libs", "2.7")?;
    symlink("lib", bench.folder.join("an environment/lib64"))?;
    let found = format!("CNTK 2.7 in {}\n", cntk.canonicalize()?.display());
    let environment = bench.folder.join("an environment");
    let package = environment.join("lib/python3.6/site-packages/cntk");
    symlink(&package, bench.folder.join("link"))?;
    // The command runs in the folder of the bench.
    for way in [&environment, &package, &cntk, Path::new("link"), Path::new("./an environment/")] {
        bench.installer(&["status"], way)?.expect(3, &[&found])?;
    }
    for (way, status, part) in [
        ("no such folder", 1, "There is no folder 'no such folder'."),
        ("the kit", 1, "python -c 'import cntk"),
        ("--cntk", 2, "There is no option '--cntk'."),
        ("", 2, "The folder of the CNTK is missing"),
    ] {
        bench.installer(&["install"], Path::new(way))?.expect(status, &[part])?;
    }
    bench.installer(&["instal"], &cntk)?.expect(2, &["There is no command 'instal'.", "usage:"])?;
    bench.installer(&["install", "a"], &cntk)?.expect(2, &["One folder is expected"])?;
    bench.installer(&["--help"], &cntk)?.expect(0, &["usage:"])?;
    // Called by a link to the script, and without modules beside it.
    symlink(bench.kit.join(INSTALLER), bench.folder.join("installer"))?;
    let run_at = |path: &Path| run(bench.command("../installer").arg("check").arg(path));
    run_at(&cntk)?.expect(0, &["They can be installed."])?;
    std::fs::remove_file(bench.folder.join("installer"))?;
    std::fs::copy(bench.kit.join(INSTALLER), bench.folder.join("installer"))?;
    run_at(&cntk)?.expect(1, &["There are no modules beside this script", "copy that folder as a whole"])
}

fn fewer_modules(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let missing = &names("2.7")?[4];
    std::fs::remove_file(cntk.join(missing))?;
    let before = snapshot(&cntk)?;
    bench.installer(&["install"], &cntk)?.expect(0, &[&format!("This CNTK has no {missing}; left out.")])?;
    expect_installed(&cntk, &bench.kit, "2.7", &before)?;
    bench.installer(&["status"], &cntk)?.expect(0, &["missing: this CNTK was built without it"])?;
    bench.installer(&["restore"], &cntk)?.expect(0, &["(4 restored)"])?;
    expect_files(&cntk, &before)
}

fn damaged_kit(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    let file = bench.kit.join("2.7/Cntk.Deserializers.HTK-2.7.so");
    for text in ["", &line("0.1.0", "Cntk.Deserializers.HTK-2.6.so", "2.6")] {
        write(&file, 0o644, text)?;
        let output = bench.installer(&["install"], &cntk)?;
        output.expect(1, &["is not cntk-reader's module for CNTK 2.7", "Nothing was changed."])?;
        expect_files(&cntk, &before)?;
    }
    Ok(())
}

fn two_at_a_time(bench: &Bench) -> Result<()> {
    let cntk = bench.cntk("cntk", "2.7")?;
    let before = snapshot(&cntk)?;
    let folder = std::fs::File::open(&cntk)?;
    folder.lock()?;
    for command in ["install", "restore"] {
        bench.installer(&[command], &cntk)?.expect(1, &["Another cntk-reader-dropin is at work"])?;
    }
    expect_files(&cntk, &before)?;
    folder.unlock()?;
    bench.installer(&["install"], &cntk)?.expect(0, &[])?;
    // Without `flock` there is no lock.
    bench.tool("flock", "exit 127")?;
    bench.installer(&["restore"], &cntk)?.expect(0, &[])
}

fn wrapper(bench: &Bench) -> Result<()> {
    let show = |before: Option<&str>, options: &[&str]| {
        let mut command = bench.command(WRAPPER);
        command.args(options).args([
            "sh",
            "-c",
            "echo \"<$LD_LIBRARY_PATH> <$1> <$2>\"; exit 7",
            "sh",
            "a b",
            "",
        ]);
        if let Some(before) = before {
            command.env("LD_LIBRARY_PATH", before);
        }
        run(&mut command)
    };
    let kit = bench.kit.canonicalize()?;
    let folders = |releases: &[&str]| {
        let folders = releases.iter().map(|release| kit.join(release).display().to_string());
        folders.collect::<Vec<_>>().join(":")
    };
    let all = folders(&["2.3.1", "2.5", "2.6", "2.7"]);
    show(None, &[])?.expect(7, &[&format!("<{all}> <a b> <>")])?;
    show(Some("/its/own:"), &[])?.expect(7, &[&format!("<{all}:/its/own:> <a b> <>")])?;
    for options in [&["--cntk", "2.0.beta15"][..], &["--cntk=2.0.beta15"]] {
        show(None, options)?.expect(7, &[&format!("<{}> <a b>", folders(&["2.0.beta15"]))])?;
    }
    show(None, &["--cntk", "2.9"])?.expect(125, &["no modules for CNTK 2.9 here, only for: 2.3.1"])?;
    show(None, &["--ctnk"])?.expect(125, &["There is no option '--ctnk'."])?;
    show(None, &["--help"])?.expect(0, &["usage:", "Not reached are programs that"])?;
    run(bench.command(WRAPPER).arg("--cntk"))?.expect(125, &["--cntk needs a release"])?;
    run(&mut bench.command(WRAPPER))?.expect(125, &["A program is expected"])?;
    run(bench.command(WRAPPER).arg("no-such-program"))?.expect(127, &["no-such-program"])?;
    std::fs::create_dir(bench.folder.join("a:b"))?;
    std::fs::copy(bench.kit.join(WRAPPER), bench.folder.join("a:b").join(WRAPPER))?;
    run(bench.command(&format!("../a:b/{WRAPPER}")).arg("true"))?.expect(125, &["it contains ':' or ';'"])
}
