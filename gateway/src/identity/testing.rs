//! Checks for tests of other crates (feature `testing`): arbitrary bytes as a key set and as a token.
#![expect(clippy::expect_used, reason = "a panic is how a check says no")]

use std::path::Path;
use std::sync::LazyLock;

use super::jwks;
use super::jwt::{Issuer, claims_of};
use crate::config;

/// An issuer whose private key no input contains.
static ISSUER: LazyLock<Issuer> = LazyLock::new(|| {
    let text = "[issuers.check]\nissuer = \"https://issuer.example\"\naudiences = [\"aqueduct\"]\n\
        [agents.a]\nagui.url = \"https://agent.example\"\n";
    let config = config::load(Path::new("aqueduct.toml"), text, []).expect("a configuration");
    let issuer = config.issuers.get("check").expect("an issuer");
    let issuer = Issuer::new("check", issuer).expect("a client");
    issuer.publish(jwks::parse(KEYS.as_bytes()).expect("a key set"));
    issuer
});

/// The public key of the example in RFC 7515, A.3.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

/// Parses bytes as a key set, and as a token that must be rejected.
///
/// # Panics
///
/// Panics if the token proves an identity.
pub fn check_proof(data: &[u8]) {
    drop(jwks::parse(data));
    let Ok(token) = std::str::from_utf8(data) else { return };
    if let Some(claims) = claims_of(token) {
        ISSUER.made(&claims);
    }
    assert!(ISSUER.verify(token).is_err(), "a token that the issuer did not sign proves an identity");
}
