//! What a measurement must say about where and when it was made.

use crate::project::Project;

/// The processor's model.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or("unknown processor", |line| line.trim_start_matches([' ', '\t', ':'])).to_owned()
}

/// CPUs that a process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The numbers of those CPUs, which may be any.
pub fn cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map_or_else(|| (0..cores()).collect(), |list| ranges(list.trim()))
}

/// The numbers of a list like `0-2,5`.
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

/// Memory in gibibytes.
pub fn memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(0, |kib| (kib + (1 << 19)) >> 20)
}

/// Programs that ran or waited for a CPU, on average of the last minute: 0 on a machine that does nothing else.
pub fn load() -> f64 {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages.split(' ').next().and_then(|average| average.parse().ok()).unwrap_or(0.0)
}

/// The system's date: `2024-05-31`.
pub fn date(project: &Project) -> anyhow::Result<String> {
    Ok(project.run("date").arg("+%Y-%m-%d").output()?.trim().to_owned())
}

/// The commit that is checked out, marked if files under version control differ from it.
pub fn commit(project: &Project) -> anyhow::Result<String> {
    let commit = project.run("git").args(["rev-parse", "--short=12", "HEAD"]).output()?;
    let changes = project.run("git").args(["status", "--porcelain", "--untracked-files=no"]).output()?;
    Ok(format!("{}{}", commit.trim(), if changes.trim().is_empty() { "" } else { " with changes" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(ranges("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(ranges("7"), [7]);
        assert_eq!(ranges(""), [] as [usize; 0]);
    }
}
