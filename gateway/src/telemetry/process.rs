//! Metrics of the process from `/proc`, under the names that all Prometheus clients use. Empty where there is
//! no `/proc`.
//!
//! Each value is read on its own: a file that is missing or has another format leaves out its metrics and no
//! others.

/// Clock ticks per second of `/proc/self/stat`: 100 on every Linux that Rust runs on (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Name without `_total`, description, `true` for a counter, value.
pub(super) type ProcessSample = (&'static str, &'static str, bool, f64);

/// Returns the available metrics of the process. Reads about five small files; called once per scrape.
pub(super) fn samples() -> Vec<ProcessSample> {
    let mut samples = Vec::new();
    if let Some((cpu, started, threads)) = stat() {
        samples.push(("process_cpu_seconds", "CPU time of the process.", true, cpu));
        samples.push(("process_threads", "Threads of the process.", false, threads));
        if let Some(booted) = booted_at() {
            let help = "Start of the process, in seconds since 1970.";
            samples.push(("process_start_time_seconds", help, false, booted + started));
        }
    }
    if let Some(bytes) = resident() {
        samples.push(("process_resident_memory_bytes", "Memory of the process.", false, bytes));
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // The descriptor of this read itself is subtracted.
        let count = u32::try_from(files.count().saturating_sub(1)).unwrap_or(u32::MAX);
        samples.push(("process_open_fds", "Open files and sockets.", false, f64::from(count)));
    }
    if let Some(limit) = open_files_limit() {
        samples.push(("process_max_fds", "Files and sockets that may be open.", false, limit));
    }
    samples
}

/// Returns CPU seconds (user and system), the start after boot in seconds, and the number of threads.
///
/// Field numbers are those of `proc(5)`, counted from 1; the third field is the first one after the name.
fn stat() -> Option<(f64, f64, f64)> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name of the program in parentheses, which may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some(((field(14)? + field(15)?) / TICKS, field(22)? / TICKS, field(20)?))
}

/// Returns the resident memory of the process in bytes. `/proc/self/statm` counts pages, whose size differs between
/// systems; `/proc/self/status` has KiB.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kibibytes| kibibytes * 1024.0)
}

/// Returns the boot time in seconds since 1970.
fn booted_at() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Returns the soft limit of open files, or `None` if it is `unlimited`.
fn open_files_limit() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_memory_files_and_times() {
        let value = |name: &str| samples().into_iter().find(|sample| sample.0 == name).map(|sample| sample.3);
        assert!(value("process_resident_memory_bytes").unwrap() > 100_000.0);
        assert!(value("process_open_fds").unwrap() >= 3.0);
        assert!(value("process_start_time_seconds").unwrap() > 1.7e9);
        assert!(value("process_cpu_seconds").unwrap() >= 0.0);
    }
}
