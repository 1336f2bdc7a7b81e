//! Agents of the common frameworks behind the gateway, with a scripted model, and the real AG-UI clients before it; the clients of
//! frameworks before agents of the gateway.

mod a2a;
mod agui;
mod clients;
mod duplex;
mod stage;
