//! What a world consists of, drawn from its seed: weather, clocks, faults, and what clients do.

use std::time::Duration;

use crate::node::Weather;
use crate::random::Random;

/// Replicas of a world.
pub const REPLICAS: usize = 3;

/// How long leases last.
pub const LEASE: Duration = Duration::from_secs(3);

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A replica is gone at once, and another takes its place.
    Crash,
    /// A replica stops and continues.
    Pause,
    /// A replica does not reach the log.
    Cut,
    /// A replica takes no new runs, leaves in order, and another takes its place.
    Drain,
    /// The log comes back without its last moments.
    FailOver,
    /// The log loses a run.
    Vanish,
}

/// A fault, when, where and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incident {
    /// When it begins.
    pub at: Duration,
    /// What.
    pub fault: Fault,
    /// Which replica.
    pub replica: usize,
    /// How long.
    pub lasts: Duration,
}

/// What a world consists of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its seed.
    pub seed: u64,
    /// How calls go.
    pub weather: Weather,
    /// How far the clocks of replicas are off, in milliseconds.
    pub skews: Vec<i64>,
    /// How many of a thousand connections to agents are cut in their middle.
    pub cuts: u64,
    /// What goes wrong, in order.
    pub incidents: Vec<Incident>,
    /// Whether the log is the engine on Redis, on a simulated server.
    pub is_redis: bool,
    /// Whether replicas are gateways, whose agents call each other.
    pub is_team: bool,
    /// Runs of agents.
    pub runs: u64,
    /// Runs of publishers.
    pub published: u64,
    /// Tasks of A2A clients.
    pub tasks: u64,
}

impl Plan {
    /// Returns the plan of a seed. Every fifth world has no faults: all that is promised must then happen.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed, "plan");
        let is_calm = random.below(5) == 0;
        let mut weather = Weather { delay: random.pick([0, 5, 30]), ..Weather::default() };
        let mut incidents = Vec::new();
        let mut skews = vec![0; REPLICAS];
        let mut cuts = 0;
        if !is_calm {
            weather.slow = random.pick([0, 5, 30]);
            weather.lost = random.pick([0, 5, 40, 200]);
            // Replicas agree on the time to within a third of a lease.
            skews.fill_with(|| 450 - i64::try_from(random.below(900)).unwrap_or_default());
            incidents = incidents_of(&mut random);
            cuts = random.pick([0, 0, 100, 400]);
        }
        let (runs, published, tasks) = (2 + random.below(5), random.below(4), random.below(2));
        let (is_redis, is_team) = (seed % 4 == 1 || seed % 32 == 7, seed % 16 == 7);
        Self { seed, weather, skews, cuts, incidents, is_redis, is_team, runs, published, tasks }
    }

    /// Returns `true` if nothing goes wrong.
    pub fn is_calm(&self) -> bool {
        self.incidents.is_empty() && self.weather.lost == 0 && self.weather.slow == 0 && self.cuts == 0
    }
}

fn incidents_of(random: &mut Random) -> Vec<Incident> {
    let kinds = [Fault::Crash, Fault::Pause, Fault::Cut, Fault::Drain, Fault::FailOver, Fault::Vanish];
    // Few kinds together: a world in which everything breaks shows little.
    let kinds: Vec<Fault> = kinds.into_iter().filter(|_| random.below(3) == 0).collect();
    let count = random.below(7);
    let incident = |fault: &Fault, random: &mut Random| Incident {
        at: random.millis(100, 18_000),
        fault: *fault,
        replica: random.place(REPLICAS),
        lasts: random.millis(100, 8_000),
    };
    let mut incidents: Vec<Incident> = (0..count)
        .filter_map(|_| {
            let place = random.place(kinds.len());
            kinds.get(place).map(|fault| incident(fault, random))
        })
        .collect();
    incidents.sort_by_key(|incident| incident.at);
    incidents
}
