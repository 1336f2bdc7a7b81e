//! What a stalled reader costs, in this process and in the kernel. Also used by the tests of the other transports.

use std::collections::HashMap;

/// Bytes of this process that are in memory.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Bytes that the kernel holds for sending, from a port of this machine to each other port.
pub(crate) fn send_queues(from: u16) -> HashMap<u16, u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next().unwrap(), 16).unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| port(row[1]) == from)
        .map(|row| (port(row[2]), u64::from_str_radix(row[4].split(':').next().unwrap(), 16).unwrap()))
        .collect()
}
