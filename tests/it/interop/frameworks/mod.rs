//! Agents of the common frameworks behind the gateway, with a scripted model, and the real AG-UI clients before it.

mod a2a;
mod agui;
mod clients;
mod stage;
