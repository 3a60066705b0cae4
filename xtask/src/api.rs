//! Compares the public API of the package `cntk-reader` with a committed list.
//!
//! Most public types are re-exported from internal crates, and rustdoc's JSON of a crate contains
//! only the names of its re-exports. The list therefore combines the JSON of all crates that the
//! package re-exports from, and shows each item under the path that users write. An internal path
//! in the list belongs to an item that users can obtain, but not name.

use anyhow::{Context, Result, bail, ensure};
use public_api::PublicItem;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tooling::project::Project;
use tooling::{Tally, dist};

/// The list. Its first line names the rustdoc JSON format that it was written from.
const LIST: &str = "xtask/api/cntk_reader.txt";

/// The package that users depend on.
const FRONT: &str = "cntk_reader";

/// A map from paths to paths.
type Paths = BTreeMap<String, String>;

/// Lines of the list, each with the path of the exported item that it belongs to.
type Lines = Vec<(String, String)>;

/// Rewrites the list.
pub fn command(project: &Project) -> Result<()> {
    // The settings of the step, so that both share compiled code.
    let quick = Project { quick: true, ..project.clone() };
    let list = project.part("public API from rustdoc", || list(&quick, json_of(&quick, FRONT)?))?;
    let path = project.path(LIST);
    std::fs::create_dir_all(path.parent().context("the list is in a folder")?)?;
    std::fs::write(path, list)?;
    say!("{LIST} written");
    Ok(())
}

/// Fails if the public API differs from the committed list. Skipped if rustdoc has another format
/// than the list, because it may spell the same items differently.
pub fn step(project: &Project) -> Result<Tally> {
    let committed = std::fs::read_to_string(project.path(LIST)).with_context(|| format!("reading {LIST}"))?;
    let front = json_of(project, FRONT)?;
    let (format, written) = (head(&front), committed.lines().next().unwrap_or_default());
    if format != written {
        return Tally::skipped(format!("{LIST} was written from {written}, and this Rust has {format}"));
    }
    let list = list(project, front)?;
    if list == committed {
        return Tally::passed(1);
    }
    let only = |sign: &str, these: &str, others: &str| -> String {
        let others: BTreeSet<&str> = others.lines().collect();
        let lines = these.lines().filter(|line| !others.contains(line));
        lines.map(|line| format!("  {sign} {line}\n")).collect()
    };
    let (gone, new) = (only("-", &committed, &list), only("+", &list, &committed));
    bail!(
        "The public API differs from {LIST} (-: only in the list, +: only in the code):\n{gone}{new}If this is intended, \
         update the list with cargo xtask api. A removed or changed item breaks users: it needs a line in CHANGELOG.md."
    )
}

/// The first line of a list.
fn head(json: &Value) -> String {
    format!("format {} of rustdoc's JSON", json["format_version"])
}

/// Returns the list: each item that users can name, followed by its parts and implementations.
fn list(project: &Project, json: Value) -> Result<String> {
    let head = head(&json);
    let front = Listing::of(project, FRONT, json)?;
    let (exports, mut lines) = exports(&front)?;
    let crates: BTreeSet<&str> = exports.keys().filter_map(|path| path.split("::").next()).collect();
    let mut listings = vec![(FRONT, front)];
    for name in crates.into_iter().filter(|name| *name != FRONT) {
        listings.push((name, Listing::of(project, name, json_of(project, name)?)?));
    }
    let parts =
        || listings.iter().flat_map(|(name, all)| all.items.iter().map(move |item| (name, all, item)));
    // public-api prints a path through public modules, even if the item is defined elsewhere.
    let mut names = exports.clone();
    names.extend(parts().filter_map(|(name, all, item)| {
        let export = exports.get(&all.definition(&item.id().0.into())?)?;
        Some((own_path(item, name)?, export.clone()))
    }));
    for (_, all, item) in parts().filter(|(_, all, item)| !all.is_method_of_trait(item)) {
        let line = renamed(&item.to_string(), &names);
        if let Some(owner) = all.owner(item, &exports).filter(|_| !is_internal_impl(&line)) {
            lines.push((owner.to_owned(), line));
        }
    }
    for path in exports.values() {
        ensure!(lines.iter().any(|(owner, _)| owner == path), "{path} is in the JSON of no crate");
    }
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut known = BTreeSet::new();
    lines.retain(|(_, line)| known.insert(line.clone()));
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    Ok(format!("{head}\n{}\n", lines.join("\n")))
}

/// Returns the users' paths of the exported items, by the paths of their definitions, and the lines
/// for modules and for further paths of exported items.
fn exports(front: &Listing) -> Result<(Paths, Lines)> {
    let (mut exports, mut lines) = (Paths::new(), Lines::new());
    let is_in_module =
        |item: &&PublicItem| item.parent_id().is_none_or(|id| front.part(id.0, "module").is_some());
    let named = front.items.iter().filter(is_in_module);
    let mut named: Vec<_> = named.filter_map(|item| Some((own_path(item, FRONT)?, item))).collect();
    named.sort_by_key(|(path, _)| path.matches("::").count());
    for (path, item) in named {
        let id = item.id().0;
        if front.part(id, "module").is_some() {
            lines.push((path, item.to_string()));
            continue;
        }
        let target = front.part(id, "use").map_or_else(|| id.into(), |target| target["id"].clone());
        let definition = front.definition(&target).with_context(|| format!("{item} leads nowhere"))?;
        match exports.get(&definition) {
            Some(shorter) => lines.push((path.clone(), format!("pub use {path} = {shorter}"))),
            None => drop(exports.insert(definition, path)),
        }
    }
    Ok((exports, lines))
}

/// Returns the path of the item that a line declares, if the item belongs to the crate.
fn own_path(item: &PublicItem, name: &str) -> Option<String> {
    let text = item.to_string();
    let start = text.find(&format!("{name}::"))?;
    let end = text[start..].find(|c: char| !is_of_path(c)).map_or(text.len(), |end| start + end);
    Some(text[start..end].trim_end_matches(':').to_owned())
}

fn is_of_path(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// Whether a line is an implementation that users cannot use: it involves an internal type or
/// trait, or the compiler adds it to derived ones.
fn is_internal_impl(line: &str) -> bool {
    let is_impl = line.starts_with("impl ") || line.starts_with("impl<");
    is_impl && (line.contains("cntk_reader_") || line.contains("::StructuralPartialEq for "))
}

/// Replaces the paths in a line by the users' paths.
fn renamed(line: &str, names: &Paths) -> String {
    let pieces = line.split_inclusive(|c| !is_of_path(c));
    pieces
        .map(|piece| {
            let ends = piece.rmatch_indices("::").map(|(end, _)| end);
            let whole = piece.trim_end_matches(|c| !is_of_path(c) || c == ':').len();
            let found =
                std::iter::once(whole).chain(ends).find_map(|end| Some((names.get(&piece[..end])?, end)));
            found.map_or_else(|| piece.to_owned(), |(name, end)| format!("{name}{}", &piece[end..]))
        })
        .collect()
}

/// Returns the path of rustdoc's JSON for a crate.
fn json_file(project: &Project, name: &str) -> PathBuf {
    project.target.join("doc").join(name).with_extension("json")
}

/// Returns the JSON of a crate, without hidden items. rustdoc has to include hidden items, because
/// otherwise it omits those that are re-exported from a hidden module.
fn json_of(project: &Project, name: &str) -> Result<Value> {
    let run = dist::release(project, "rustdoc").env("RUSTDOC", unstable_rustdoc(project)?);
    let run = run.args(["--lib", "--package", &name.replace('_', "-"), "--", "-Zunstable-options"]);
    let run = run.args(["--output-format", "json", "--document-hidden-items", "--allow", "rustdoc::all"]);
    run.go()?;
    let mut json: Value = serde_json::from_slice(&std::fs::read(json_file(project, name))?)?;
    let index = json["index"].as_object_mut().context("the JSON has no items")?;
    index.retain(|_, item| !item["attrs"].to_string().contains("doc(hidden)"));
    Ok(json)
}

/// Returns a program that runs rustdoc with unstable options, which its JSON is. Cargo itself must
/// not see the variable: build scripts depend on it, and everything would be compiled again.
fn unstable_rustdoc(project: &Project) -> Result<PathBuf> {
    let program = project.target.join("xtask/rustdoc");
    std::fs::create_dir_all(program.parent().context("the program is in a folder")?)?;
    std::fs::write(&program, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n")?;
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}

/// The public items of a crate.
struct Listing {
    json: Value,
    items: Vec<PublicItem>,
    /// The parent of each contained item, by id.
    parents: BTreeMap<u32, u32>,
}

impl Listing {
    fn of(project: &Project, name: &str, json: Value) -> Result<Listing> {
        let path = json_file(project, name).with_extension("public.json");
        std::fs::write(&path, serde_json::to_vec(&json)?)?;
        let builder = public_api::Builder::from_rustdoc_json(path).sorted(true);
        let api = builder.omit_blanket_impls(true).omit_auto_trait_impls(true).build()?;
        let items: Vec<PublicItem> = api.into_items().collect();
        let parents = items.iter().filter_map(|item| Some((item.id().0, item.parent_id()?.0))).collect();
        Ok(Listing { json, items, parents })
    }

    /// Returns the description of an item, if it is of this kind.
    fn part(&self, id: u32, kind: &str) -> Option<&Value> {
        self.json["index"][id.to_string()]["inner"].get(kind)
    }

    /// Whether an item is a method in a trait implementation; the trait already declares it.
    fn is_method_of_trait(&self, item: &PublicItem) -> bool {
        let parent = item.parent_id().and_then(|id| self.part(id.0, "impl"));
        self.part(item.id().0, "function").is_some() && parent.is_some_and(|one| !one["trait"].is_null())
    }

    /// Returns the path of an item's definition, which may contain private modules.
    fn definition(&self, id: &Value) -> Option<String> {
        let path = self.json["paths"][id.to_string()]["path"].as_array()?;
        Some(path.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("::"))
    }

    /// Returns the users' path of an exported item, or of the exported item that contains this one.
    fn owner<'e>(&self, item: &PublicItem, exports: &'e Paths) -> Option<&'e str> {
        let parent = item.parent_id().map(|id| id.0);
        let parents = std::iter::successors(parent, |id| self.parents.get(id).copied());
        let chain = std::iter::once(item.id().0).chain(parents);
        let inside = chain.take_while(|id| self.part(*id, "module").is_none());
        let names = inside.filter_map(|id| exports.get(&self.definition(&id.into())?));
        names.last().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_users_paths() {
        let names = [("a::b::E", "r::E"), ("a::b::E::F", "r::G"), ("a::f", "r::f")];
        let names = names.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        let renamed = |line: &str| renamed(line, &names);
        assert_eq!(renamed("pub fn a::f(&a::b::E) -> x::R<a::b::E>"), "pub fn r::f(&r::E) -> x::R<r::E>");
        assert_eq!(renamed("pub a::b::E::field: a::b::E::F"), "pub r::E::field: r::G");
        assert_eq!(renamed("pub trait a::b::E: a::b::Ex + ba::f"), "pub trait r::E: a::b::Ex + ba::f");
    }

    #[test]
    fn internal_implementations_are_recognized() {
        assert!(is_internal_impl("impl From<cntk_reader::Error> for cntk_reader_core::Finding"));
        assert!(!is_internal_impl("impl cntk_reader::Builder"));
        assert!(!is_internal_impl(
            "pub fn cntk_reader::Epoch::timeline(&self) -> cntk_reader_engine::Config"
        ));
    }
}
