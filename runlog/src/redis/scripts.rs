//! The scripts that change a run, each atomic on the server. They use commands of Redis 6.2 only.

use ::redis::Script;

#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) open: Script,
    pub(super) take_over: Script,
    pub(super) renew: Script,
    pub(super) append: Script,
    pub(super) read: Script,
    pub(super) control: Script,
    pub(super) controls: Script,
    pub(super) trim: Script,
    pub(super) watched: Script,
    pub(super) annotate: Script,
    pub(super) claim: Script,
    pub(super) beat: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            open: Script::new(include_str!("scripts/open.lua")),
            take_over: Script::new(include_str!("scripts/take_over.lua")),
            renew: Script::new(include_str!("scripts/renew.lua")),
            append: Script::new(include_str!("scripts/append.lua")),
            read: Script::new(include_str!("scripts/read.lua")),
            control: Script::new(include_str!("scripts/control.lua")),
            controls: Script::new(include_str!("scripts/controls.lua")),
            trim: Script::new(include_str!("scripts/trim.lua")),
            watched: Script::new(include_str!("scripts/watched.lua")),
            annotate: Script::new(include_str!("scripts/annotate.lua")),
            claim: Script::new(include_str!("scripts/claim.lua")),
            beat: Script::new(include_str!("scripts/beat.lua")),
        }
    }
}
