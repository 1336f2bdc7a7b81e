//! temp
/// temp
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ChunkError;
