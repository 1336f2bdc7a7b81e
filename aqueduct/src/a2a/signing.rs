//! Keys of agent cards: [`CardSigner`] signs with a private key, [`CardKey`] verifies with a public one. The algorithm
//! is `EdDSA` (Ed25519) or `ES256` (P-256 with SHA-256), determined by the key: a signature with another algorithm than
//! that of the key is invalid.
//!
//! The signed bytes are computed by [`signature`].

use aqueduct_adapter_a2a::signature::{self, CardSignature};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    UnparsedPublicKey,
};
use serde_json::{Map, Value};

use crate::error::Error;

/// The prefix of the DER form of a public key (RFC 8410; RFC 5480), before its bytes.
const ED25519_KEY: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The start of a public P-256 key in DER (`SubjectPublicKeyInfo`, RFC 5480); the uncompressed point, 65 bytes, follows.
const P256_KEY: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

const EDDSA: &str = "EdDSA";
const ES256: &str = "ES256";

/// The private key, by the algorithm of its signatures (RFC 7518, RFC 8037).
enum Private {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

/// Signs cards with a private key.
pub struct CardSigner {
    key: Private,
    key_id: String,
}

aqueduct_core::debug_fields!(CardSigner { key_id });

impl CardSigner {
    /// Returns a signer with the private key of a PEM text (`-----BEGIN PRIVATE KEY-----`, PKCS#8).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Key`] if the text contains no private key of Ed25519 or P-256.
    pub fn from_pem(pem: &str, key_id: impl Into<String>) -> Result<Self, Error> {
        let der = der(pem, "PRIVATE KEY")?;
        let ed25519 = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Private::Ed25519);
        let key = ed25519.or_else(|_| {
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
            pair.map(Private::P256)
        });
        let key = key.map_err(|_| invalid("it is no private key of Ed25519 or P-256 in PKCS#8"))?;
        Ok(Self { key, key_id: key_id.into() })
    }

    /// Returns the protected header and the signature of a card.
    pub fn signature_of(&self, card: &Map<String, Value>) -> Option<(String, Vec<u8>)> {
        let algorithm = match &self.key {
            Private::Ed25519(_) => EDDSA,
            Private::P256(_) => ES256,
        };
        let protected = signature::protected(algorithm, &self.key_id);
        let input = signature::signing_input(&protected, &signature::payload(card));
        let signed = match &self.key {
            Private::Ed25519(pair) => pair.sign(&input).as_ref().to_vec(),
            // Fails only if the system has no randomness.
            Private::P256(pair) => pair.sign(&SystemRandom::new(), &input).ok()?.as_ref().to_vec(),
        };
        Some((protected, signed))
    }

    /// Replaces the signatures of a card by one with this key.
    pub fn sign(&self, card: &mut Map<String, Value>) {
        if let Some((protected, signed)) = self.signature_of(card) {
            signature::sign(card, &protected, &signed);
        }
    }
}

/// A public key whose signatures are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardKey {
    algorithm: &'static str,
    bytes: Vec<u8>,
}

impl CardKey {
    /// Returns the public key of a PEM text (`-----BEGIN PUBLIC KEY-----`).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Key`] if the text contains no public key of Ed25519 or P-256.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        let der = der(pem, "PUBLIC KEY")?;
        let key = |algorithm, prefix: &[u8], length: usize| {
            let bytes = der.strip_prefix(prefix).filter(|bytes| bytes.len() == length)?.to_vec();
            Some(Self { algorithm, bytes })
        };
        key(EDDSA, ED25519_KEY, 32)
            .or_else(|| key(ES256, P256_KEY, 65))
            .ok_or_else(|| invalid("it is no public key of Ed25519 or P-256"))
    }

    /// Returns `true` if this key made the signature, with its own algorithm.
    fn has_signed(&self, found: &CardSignature) -> bool {
        let is_valid = match self.algorithm {
            EDDSA => UnparsedPublicKey::new(&ED25519, &self.bytes).verify(&found.input, &found.signature),
            _ => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes)
                .verify(&found.input, &found.signature),
        };
        found.algorithm == self.algorithm && is_valid.is_ok()
    }
}

/// Returns `true` if one of the keys has signed the card.
pub fn is_signed_by(card: &Map<String, Value>, keys: &[CardKey]) -> bool {
    signature::signatures(card).iter().any(|found| keys.iter().any(|key| key.has_signed(found)))
}

/// Decodes the block with this label in a PEM text.
fn der(pem: &str, label: &str) -> Result<Vec<u8>, Error> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let body = pem.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).map(|(body, _)| body);
    let body = body.ok_or_else(|| invalid(&format!("it has no `{begin}`")))?;
    let packed: String = body.split_whitespace().collect();
    STANDARD.decode(packed).map_err(|_| invalid("it is not base64 between its lines"))
}

/// Returns the error of a key that cannot be used.
fn invalid(reason: &str) -> Error {
    Error::Key { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Made with `openssl genpkey` and `openssl pkey -pubout`.
    const KEYS: [(&str, &str); 2] = [
        (
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIMpYlBzw3NmvjfdRNULzx+WYqLvZ0HU8rZOGr+vFydAr\n-----END PRIVATE KEY-----\n",
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA84ZgX/xtkTUZ4uPP82c62g0RVG+JvWRXE3JaK3Xb9cg=\n-----END PUBLIC KEY-----\n",
        ),
        (P256_PRIVATE, P256_PUBLIC),
    ];
    const P256_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgIeXnknpzSD3myP19\nEd/2O357oXgV8UgrMoyPABj4Tx+hRANCAATFv2m2LoGNMqavUvs1jmMZXcGJ2n9W\n6xy2usFCFuELIf6MyZYDem6lWRgEpsrhwqIaIZ0SyIDdhgfQI8kciV2Z\n-----END PRIVATE KEY-----\n";
    const P256_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAExb9pti6BjTKmr1L7NY5jGV3Bidp/\nVusctrrBQhbhCyH+jMmWA3pupVkYBKbK4cKiGiGdEsiA3YYH0CPJHIldmQ==\n-----END PUBLIC KEY-----\n";

    #[test]
    fn a_card_is_signed_by_its_key_and_by_no_other() {
        for (at, (private, public)) in KEYS.iter().enumerate() {
            let signer = CardSigner::from_pem(private, "key-1").unwrap();
            let Value::Object(mut card) = json!({"name": "a", "skills": [{"id": "x"}]}) else { panic!() };
            let keys = [CardKey::from_pem(public).unwrap()];
            assert!(!is_signed_by(&card, &keys), "{at}");
            signer.sign(&mut card);
            assert!(is_signed_by(&card, &keys), "{at}");
            let others = [CardKey::from_pem(KEYS[1 - at].1).unwrap()];
            assert!(!is_signed_by(&card, &others), "{at}");
            card.insert("name".to_owned(), json!("b"));
            assert!(!is_signed_by(&card, &keys), "{at}");
        }
    }

    #[test]
    fn what_is_no_key_is_said() {
        for text in ["", "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----"] {
            assert!(CardSigner::from_pem(text, "x").is_err());
        }
        assert!(CardKey::from_pem(KEYS[0].0).is_err(), "a private key is no public one");
    }
}
