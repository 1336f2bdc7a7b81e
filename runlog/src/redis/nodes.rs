//! The servers that hold the log: one, or the nodes of a cluster.
//!
//! ```text
//! key ──► slot ──► node ──► connection, one per node, shared by all callers
//!           ▲ learned from redirections of the servers
//! ```
//!
//! A server outside a cluster never redirects, so no slot is computed for it. If the node of a slot
//! is unknown or unreachable, an *entry* is used: an address of the configuration, or any known
//! node. It redirects to the present node of the slot.
//!
//! Of servers that Sentinel watches the leader is the only entry, until it is lost.
//!
//! This module does not retry: [`link`](super::link) does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::{MultiplexedConnection, PubSub};
use ::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, ServerErrorKind,
    Value,
};

use super::dial::{self, RedisDial};
use super::sentinel::Sentinels;

/// The time limit of one attempt to connect.
pub(super) const CONNECT: Duration = Duration::from_secs(2);
/// The time limit of an answer. It detects a server that is suspended but not disconnected.
const ANSWER: Duration = Duration::from_secs(5);
/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// A server, by `host:port`.
pub(super) type Node = Arc<str>;

/// A redirection, sent by a server that does not have the key of a command.
#[derive(Debug)]
pub(super) enum Redirect {
    /// The slot has moved permanently.
    Moved(Node),
    /// The slot is moving: only this command belongs to the other node.
    Ask(Node),
}

#[derive(Debug)]
pub(super) struct Nodes {
    /// The connection parameters of all servers, except for the address.
    template: ConnectionInfo,
    /// The sentinels that name the leader, if they are configured.
    sentinels: Option<Sentinels>,
    /// Opens the connections, in place of TCP and TLS.
    dial: Option<Arc<dyn RedisDial>>,
    map: Mutex<Map>,
}

#[derive(Debug)]
struct Map {
    /// The nodes to use if the node of a slot is unknown.
    entries: Vec<Node>,
    /// The index of the entry in use.
    entry: usize,
    /// The known nodes of slots; empty until a server has redirected.
    slots: HashMap<u16, Node>,
    /// The connections, numbered so that only the broken one is removed.
    connections: HashMap<Node, (u64, MultiplexedConnection)>,
    made: u64,
    /// The number of lost connections.
    broken: u64,
    /// Set once a server has shown that it is a node of a cluster.
    is_cluster: bool,
}

impl Nodes {
    /// Returns the servers at these addresses, or the servers that sentinels at these addresses watch. The settings of
    /// the first address apply to all. Returns `None` if there is no address.
    pub(super) fn new(
        clients: &[Client],
        sentinels: Option<Sentinels>,
        dial: Option<Arc<dyn RedisDial>>,
    ) -> Option<Self> {
        let template = clients.first()?.get_connection_info().clone();
        let entries = clients.iter().map(|client| client.get_connection_info().addr().to_string().into());
        let map = Map {
            entries: entries.filter(|_| sentinels.is_none()).collect(),
            entry: 0,
            slots: HashMap::new(),
            connections: HashMap::new(),
            made: 0,
            broken: 0,
            is_cluster: false,
        };
        Some(Self { template, sentinels, dial, map: Mutex::new(map) })
    }

    /// Asks the sentinels for the leader, if it is unknown. Has no effect without sentinels.
    pub(super) async fn locate(&self) -> Result<(), RedisError> {
        let Some(sentinels) = self.sentinels.as_ref().filter(|_| self.map().entries.is_empty()) else {
            return Ok(());
        };
        let leader: Node = sentinels.leader().await?.into();
        self.map().entries = vec![leader];
        Ok(())
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` once a server has shown that it is a node of a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.map().is_cluster
    }

    /// Handles an error that only nodes of a cluster return: a redirection, or the refusal of keys of several slots.
    pub(super) fn handle_cluster(&self, error: &RedisError) {
        let is_refusal = matches!(error.kind(), ErrorKind::Server(ServerErrorKind::CrossSlot));
        if is_refusal || error.redirect_node().is_some() {
            self.map().is_cluster = true;
        }
    }

    /// Returns the node of a key, as far as known.
    pub(super) fn of(&self, key: Option<&[u8]>) -> Node {
        let map = self.map();
        let known = key.filter(|_| !map.slots.is_empty()).and_then(|key| map.slots.get(&slot_of(key)));
        known.cloned().unwrap_or_else(|| map.entry())
    }

    /// Opens a connection for notifications to the entry. Returns the entry with the outcome.
    pub(super) async fn listen(&self) -> (Node, Result<PubSub, RedisError>) {
        let node = self.map().entry();
        let opened = match (&self.dial, self.client(&node)) {
            (Some(dial), _) => dial::notifications(&**dial, &node, &self.template).await,
            (None, Ok(client)) => client.get_async_pubsub().await,
            (None, Err(error)) => Err(error),
        };
        (node, opened)
    }

    fn client(&self, node: &Node) -> Result<Client, RedisError> {
        let own = self.template.addr();
        let address = match (own, split(node)) {
            (ConnectionAddr::TcpTls { insecure, tls_params, .. }, Some((host, port))) => {
                ConnectionAddr::TcpTls {
                    host: host.to_owned(),
                    port,
                    insecure: *insecure,
                    tls_params: tls_params.clone(),
                }
            }
            (ConnectionAddr::Tcp(..), Some((host, port))) => ConnectionAddr::Tcp(host.to_owned(), port),
            _ => own.clone(),
        };
        Client::open(self.template.clone().set_addr(address))
    }

    /// Returns the shared connection to a node, and its number. Connects if there is none.
    pub(super) async fn connection(&self, node: &Node) -> Result<(u64, MultiplexedConnection), RedisError> {
        if let Some(known) = self.map().connections.get(node) {
            return Ok(known.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER));
        let made = match &self.dial {
            Some(dial) => dial::commands(&**dial, node, &self.template, config).await?,
            None => self.client(node)?.get_multiplexed_async_connection_with_config(&config).await?,
        };
        let mut map = self.map();
        map.made += 1;
        let known = (map.made, made);
        map.connections.insert(Arc::clone(node), known.clone());
        Ok(known)
    }

    /// Returns the number of lost connections.
    pub(super) fn broken(&self) -> u64 {
        self.map().broken
    }

    /// Removes a broken connection.
    pub(super) fn handle_broken(&self, node: &Node, number: u64) {
        let mut map = self.map();
        if map.connections.get(node).is_some_and(|(current, _)| *current == number) {
            map.connections.remove(node);
            map.broken += 1;
            self.forget_leader(&mut map, node);
        }
    }

    /// Drops the leader, if it was this node: another server may lead by now.
    fn forget_leader(&self, map: &mut Map, node: &Node) {
        if self.sentinels.is_some() {
            map.entries.retain(|known| known != node);
        }
    }

    /// Handles an unreachable server: forgets its slots and switches to another entry.
    pub(super) fn handle_unreachable(&self, node: &Node) {
        let mut map = self.map();
        map.slots.retain(|_, known| known != node);
        self.forget_leader(&mut map, node);
        if map.entry() == *node {
            map.entry += 1;
        }
    }

    /// Returns the redirection in an error, if it is one. A permanent one is recorded.
    pub(super) fn handle_redirect(&self, from: &Node, error: &RedisError) -> Option<Redirect> {
        let (address, slot) = error.redirect_node()?;
        self.handle_cluster(error);
        // A server that does not know its own host name omits it.
        let node: Node = match split(address) {
            Some(("" | "?", port)) => format!("{}:{port}", split(from)?.0).into(),
            _ => address.into(),
        };
        if matches!(error.kind(), ErrorKind::Server(ServerErrorKind::Ask)) {
            return Some(Redirect::Ask(node));
        }
        self.map().note(slot..=slot, &node);
        Some(Redirect::Moved(node))
    }

    /// Handles the answer to `CLUSTER SLOTS`: ranges of slots, each with its node and that node's replicas.
    pub(super) fn handle_slots(&self, asked: &Node, answer: &Value) {
        let Value::Array(parts) = answer else { return };
        let mut map = self.map();
        for part in parts {
            if let Some((from, to, node)) = read_part(part, asked) {
                map.note(from..=to, &node);
            }
        }
    }
}

impl Map {
    fn entry(&self) -> Node {
        let index = self.entry.checked_rem(self.entries.len()).unwrap_or_default();
        self.entries.get(index).cloned().unwrap_or_default()
    }

    /// Records the node of a range of slots, and keeps it as a further entry.
    fn note(&mut self, slots: std::ops::RangeInclusive<u16>, node: &Node) {
        if !self.entries.contains(node) {
            self.entries.push(Arc::clone(node));
        }
        self.is_cluster = true;
        for slot in slots {
            self.slots.insert(slot, Arc::clone(node));
        }
    }
}

fn read_part(part: &Value, asked: &Node) -> Option<(u16, u16, Node)> {
    let Value::Array(fields) = part else { return None };
    let [from, to, Value::Array(owner), ..] = fields.as_slice() else { return None };
    let number = |value: &Value| ::redis::from_redis_value_ref::<u16>(value).ok();
    let [name, door, ..] = owner.as_slice() else { return None };
    let name: Option<String> = ::redis::from_redis_value_ref(name).ok();
    let known = name.filter(|name| !name.is_empty() && name != "?");
    let host = known.map_or_else(|| split(asked).map(|(host, _)| host.to_owned()), Some)?;
    Some((number(from)?, number(to)?.min(SLOTS - 1), format!("{host}:{}", number(door)?).into()))
}

fn split(node: &str) -> Option<(&str, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

/// Returns the slot of a key: that of its hash tag, if it has one.
fn slot_of(key: &[u8]) -> u16 {
    let open = key.iter().position(|byte| *byte == b'{');
    let inside = open.and_then(|open| key.get(open + 1..));
    let tag = inside.and_then(|rest| rest.get(..rest.iter().position(|byte| *byte == b'}')?));
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, as defined by the cluster specification.
fn crc16(bytes: &[u8]) -> u16 {
    let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(urls: &[&str]) -> Nodes {
        let clients: Vec<Client> = urls.iter().map(|url| Client::open(*url).unwrap()).collect();
        Nodes::new(&clients, None, None).unwrap()
    }

    fn says(word: ServerErrorKind, detail: &str) -> RedisError {
        RedisError::from((ErrorKind::Server(word), "redirected", detail.to_owned()))
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "an empty tag is none");
        assert_eq!(slot_of(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn a_single_server_is_asked_everything() {
        let nodes = nodes(&["redis://10.0.0.1:6379"]);
        assert!(!nodes.is_cluster());
        assert_eq!(&*nodes.of(Some(b"foo")), "10.0.0.1:6379");
        nodes.handle_unreachable(&"10.0.0.1:6379".into());
        assert_eq!(&*nodes.of(None), "10.0.0.1:6379", "there is no other");
    }

    #[test]
    fn redirections_are_learned_and_forgotten_with_their_node() {
        let nodes = nodes(&["redis://10.0.0.1:6379"]);
        let seed: Node = "10.0.0.1:6379".into();
        let moved = nodes.handle_redirect(&seed, &says(ServerErrorKind::Moved, "12182 10.0.0.2:6380"));
        assert!(matches!(moved, Some(Redirect::Moved(node)) if &*node == "10.0.0.2:6380"));
        assert_eq!(&*nodes.of(Some(b"foo")), "10.0.0.2:6380");
        assert_eq!(&*nodes.of(Some(b"bar")), "10.0.0.1:6379", "nothing is known of this one");
        nodes.handle_unreachable(&"10.0.0.2:6380".into());
        assert_eq!(&*nodes.of(Some(b"foo")), "10.0.0.1:6379");
        nodes.handle_unreachable(&seed);
        assert_eq!(&*nodes.of(Some(b"foo")), "10.0.0.2:6380", "a node that was heard of is an entry too");
    }

    #[test]
    fn a_slot_on_the_move_is_not_noted() {
        let nodes = nodes(&["redis://10.0.0.1:6379"]);
        let asked =
            nodes.handle_redirect(&"10.0.0.1:6379".into(), &says(ServerErrorKind::Ask, "12182 :6380"));
        assert!(matches!(asked, Some(Redirect::Ask(node)) if &*node == "10.0.0.1:6380"));
        assert_eq!(&*nodes.of(Some(b"foo")), "10.0.0.1:6379");
        assert!(nodes.is_cluster(), "no other server redirects");
    }

    #[test]
    fn all_slots_are_learned_at_once() {
        let nodes = nodes(&["redis://10.0.0.1:6379"]);
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let part = |from, to, host: &str, port| {
            let owner = Value::Array(vec![text(host), Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(from), Value::Int(to), owner])
        };
        let answer =
            Value::Array(vec![part(0, 8_000, "", 6379), part(8_001, 16_383, "10.0.0.3", 6381), Value::Nil]);
        nodes.handle_slots(&"10.0.0.1:6379".into(), &answer);
        assert_eq!(&*nodes.of(Some(b"foo")), "10.0.0.3:6381");
        assert_eq!(&*nodes.of(Some(b"bar")), "10.0.0.1:6379");
        assert!(nodes.is_cluster());
    }
}
