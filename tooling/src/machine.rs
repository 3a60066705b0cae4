//! Machine, date and commit of a measurement.

use crate::project::Project;

/// Returns the processor's name, its family and model number, and the largest instruction set that
/// the library uses on it: in a virtual machine the name may be only a brand.
pub fn processor() -> String {
    processor_of(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// Parses the processor from the text of `/proc/cpuinfo`.
fn processor_of(info: &str) -> String {
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.trim_start_matches([' ', '\t', ':']))
    };
    let flags = value("flags").unwrap_or_default();
    let has = |flag: &str| flags.split(' ').any(|other| other == flag);
    let instructions = if has("avx512_vbmi2") && has("avx512_vnni") {
        " with AVX-512"
    } else if has("avx2") {
        " with AVX2"
    } else {
        ""
    };
    let numbers = match value("cpu family\t").zip(value("model\t")) {
        Some((family, model)) => format!(" (family {family}, model {model})"),
        None => String::new(),
    };
    format!("{}{numbers}{instructions}", value("model name").unwrap_or("unknown processor"))
}

/// Returns the number of CPUs that a process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Returns the numbers of the CPUs that a process may use. They need not start at 0 or be
/// contiguous.
pub fn cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map_or_else(|| (0..cores()).collect(), |list| ranges(list.trim()))
}

/// Expands a list like `0-2,5`.
fn ranges(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first
            .parse()
            .ok()
            .zip(last.parse().ok())
            .map_or(0..0, |(first, last): (usize, usize)| first..last + 1)
    };
    list.split(',').flat_map(range).collect()
}

/// Returns the memory in gibibytes.
pub fn memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(0, |kib| (kib + (1 << 19)) >> 20)
}

/// Returns the average number of processes that ran or waited for a CPU in the last minute: 0 on an
/// idle machine.
pub fn load() -> f64 {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages.split(' ').next().and_then(|average| average.parse().ok()).unwrap_or(0.0)
}

/// Returns the system's date: `2024-05-31`.
pub fn date(project: &Project) -> anyhow::Result<String> {
    Ok(project.run("date").arg("+%Y-%m-%d").output()?.trim().to_owned())
}

/// The state of the working tree.
pub struct Tree {
    /// The commit, abbreviated.
    pub commit: String,
    /// Files that differ from it or are new, as `git status` lines. The records of measurements and
    /// the page with their figures do not count: they change between the runs of a series.
    pub changes: Vec<String>,
}

impl Tree {
    /// Asks git.
    pub fn of(project: &Project) -> anyhow::Result<Tree> {
        let commit = project.run("git").args(["rev-parse", "--short=12", "HEAD"]).output()?;
        let status = project.run("git").args(["status", "--porcelain", "--", "."]);
        let status = status.args([":!docs/performance.md", ":!benches/record"]).output()?;
        let changes = status.lines().map(str::to_owned).collect();
        Ok(Tree { commit: commit.trim().to_owned(), changes })
    }

    /// Whether the working tree is exactly the commit.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }
}

impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tree = if self.is_clean() { "clean tree" } else { "with changes that are not committed" };
        write!(f, "{}, {tree}", self.commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_named_from_cpuinfo() {
        let info = "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 sse\n";
        assert_eq!(processor_of(info), "AMD EPYC (family 26, model 2) with AVX2");
        assert_eq!(processor_of("BogoMIPS\t: 50\n"), "unknown processor");
    }

    #[test]
    fn cpu_lists_are_expanded() {
        assert_eq!(ranges("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(ranges("7"), [7]);
        assert_eq!(ranges(""), [] as [usize; 0]);
    }
}
