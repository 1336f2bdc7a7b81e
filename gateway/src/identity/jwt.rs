//! OIDC tokens: signed claims of an issuer that the configuration trusts.
//!
//! ```text
//! token ──► claim `iss` ──► issuer ──► key by `kid` ── unknown ──► keys are fetched (some times per minute) ──► again
//!                                         └ known ──► signature, `exp`, `nbf`, `aud` ──► claims ──► Identity
//! ```
//!
//! The name of a principal is the name of the issuer in the configuration, `|` and the subject: two issuers cannot
//! produce the same principal, and no issuer can produce a configured one. An identity is revoked when its issuer
//! withdraws the key that signed it.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use aqueduct::remote::ThreadMemory;
use aqueduct_core::service::ServiceError;
use aqueduct_core::{AgentGrant, CancelToken, Identity, Principal, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use super::jwks::{KeyStore, VerifyingKey};
use super::refusal;
use crate::config::Issuer as IssuerConfig;

/// Verified tokens that are cached: verifying a signature costs some hundred times as much as a look-up.
const VERIFIED: usize = 20_000;

/// The longest token that is parsed. Tokens with many groups have a few KiB; a request head has at most 16 KiB.
const TOKEN_BYTES: usize = 16 * 1024;

/// The claims of a token.
type Claims = Map<String, Value>;

/// An issuer of the configuration, with its keys and the tokens that were verified with them.
#[derive(Debug)]
pub(super) struct Issuer {
    name: String,
    config: IssuerConfig,
    keys: KeyStore,
    /// Identities by the SHA-256 of their token: the cache holds no token that could be stolen from memory.
    verified: ThreadMemory<[u8; 32], Arc<Identity>>,
    /// Cancelled when the configuration drops the issuer.
    dropped: CancelToken,
}

/// Why a token is rejected.
#[derive(Debug)]
pub(super) enum Rejected {
    /// The key that signed the token is not in the cached key set.
    UnknownKey,
    /// The token is invalid; the refusal for the caller.
    Refused(ServiceError),
}

impl Rejected {
    /// Returns the refusal for the caller.
    pub(super) fn into_refusal(self) -> ServiceError {
        match self {
            Self::UnknownKey => refusal("unknown token: its issuer publishes no key with that id"),
            Self::Refused(refusal) => refusal,
        }
    }
}

impl Issuer {
    /// Returns an issuer without keys: they are fetched with its first token.
    ///
    /// # Errors
    ///
    /// Returns an error if the TLS files for the connection to the issuer cannot be read.
    pub(super) fn new(name: &str, config: &IssuerConfig) -> anyhow::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            keys: KeyStore::new(config)?,
            config: config.clone(),
            verified: ThreadMemory::new(VERIFIED),
            dropped: CancelToken::new(),
        })
    }

    /// Returns `true` if the issuer has that name and configuration.
    pub(super) fn is(&self, name: &str, config: &IssuerConfig) -> bool {
        self.name == name && self.config == *config
    }

    /// Revokes every identity that the issuer has proven.
    pub(super) fn drop_all(&self) {
        self.dropped.cancel();
        self.keys.revoke_all();
    }

    /// Replaces the keys.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn publish(&self, keys: Vec<VerifyingKey>) {
        self.keys.replace(keys);
    }

    /// Returns `true` if the claim `iss` names this issuer.
    pub(super) fn made(&self, claims: &Claims) -> bool {
        claims.get("iss").and_then(Value::as_str) == Some(self.config.issuer.as_str())
    }

    /// Returns `true` if the keys are older than `refresh` of the configuration.
    pub(super) fn is_stale(&self) -> bool {
        self.keys.is_stale()
    }

    /// Fetches the keys, unless the limit of fetches is reached.
    pub(super) async fn refresh(&self) {
        self.keys.refresh().await;
    }

    /// Fetches the keys beside the caller if files of the issuer have other content than before: its keys, or the certificates
    /// with which they are fetched. `renewed` is an issuer of the same configuration that was built from them.
    fn renew(self: &Arc<Self>, renewed: &Self) {
        if self.keys.renew(&renewed.keys) {
            let issuer = Arc::clone(self);
            tokio::spawn(async move { issuer.keys.refresh_at_once().await });
        }
    }

    /// Verifies a token with the cached keys.
    ///
    /// A token that was verified before costs one hash and one look-up, plus the checks that can change: revocation and
    /// expiry. An identity whose key was withdrawn is verified again, and rejected unless another key signed the token.
    ///
    /// # Errors
    ///
    /// [`Rejected::UnknownKey`] if fetching the keys may help, [`Rejected::Refused`] otherwise.
    pub(super) fn verify(&self, token: &str) -> Result<Arc<Identity>, Rejected> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let known = self.verified.change(&hash, |identity| Arc::clone(identity));
        if let Some(identity) = known.filter(|identity| !identity.revoked.is_cancelled()) {
            return if identity.is_expired(aqueduct_runs::now()) {
                Err(Rejected::Refused(expired(identity.expires_at)))
            } else {
                Ok(identity)
            };
        }
        let identity = Arc::new(self.check(token)?);
        self.verified.insert(hash, Arc::clone(&identity));
        Ok(identity)
    }

    /// Verifies signature and claims.
    ///
    /// The algorithm must be one of the configured ones before a key is looked up: otherwise the token could choose a
    /// weaker algorithm than its issuer uses (RFC 8725, section 3.1).
    fn check(&self, token: &str) -> Result<Identity, Rejected> {
        let header = decode_header(token).map_err(|_| Rejected::Refused(refusal("unknown token")))?;
        let is_allowed = self.config.algorithms.contains(&header.alg);
        if !is_allowed {
            return Err(Rejected::Refused(refusal(
                "unknown token: its algorithm is not one of the issuer's",
            )));
        }
        let keys = self.keys.find(header.kid.as_deref(), header.alg);
        if keys.is_empty() {
            return Err(Rejected::UnknownKey);
        }
        // Several keys may fit: a token without `kid` is tried with every key of its algorithm.
        let mut last = Rejected::UnknownKey;
        for key in keys {
            match decode::<Claims>(token, &key.key, &self.validation(header.alg)) {
                Ok(decoded) => return self.identity(&decoded.claims, &key).map_err(Rejected::Refused),
                // Tries the next key with the same id, or the next key if the token names none.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {
                    last = Rejected::Refused(refusal("unknown token"));
                }
                Err(error) => return Err(Rejected::Refused(refused(token, &error))),
            }
        }
        Err(last)
    }

    /// Returns the checks of the claims: `iss` and `aud` as configured, `exp` and `nbf` with the configured leeway.
    /// `exp`, `iss` and `aud` must be present: without `aud`, a token for any other service of the issuer would be
    /// accepted.
    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.config.leeway.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_audience(&self.config.audiences);
        validation
    }

    /// Maps verified claims to an identity, by the claims that the configuration names.
    ///
    /// ```text
    /// [issuers.corp] tenant_claim = "org", roles_claim = "realm_access.roles", admin_role = "ops"
    /// {"sub":"ann","org":"acme","realm_access":{"roles":["ops"]},"exp":…}  ──►  tenant acme, name corp|ann, admin
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a refusal if a configured claim is missing: a token without its tenant must not count as one without a
    /// tenant. Also if `nbf` is not a number, which the library ignores: the token may not be valid yet.
    fn identity(&self, claims: &Claims, key: &VerifyingKey) -> Result<Identity, ServiceError> {
        let missing =
            |claim: &str| refusal(format!("the token has no claim `{claim}`: request one that has it"));
        let text = |claim: &str| find(claims, claim).and_then(Value::as_str).map(str::to_owned);
        let config = &self.config;
        if claims.get("nbf").is_some_and(|at| seconds(at).is_none()) {
            return Err(refusal(
                "the claim `nbf` of the token is not a number: request one with a time in seconds",
            ));
        }
        let subject = text(&config.subject_claim).ok_or_else(|| missing(&config.subject_claim))?;
        let tenant = match &config.tenant_claim {
            Some(claim) => text(claim).ok_or_else(|| missing(claim))?,
            None => config.tenant.clone(),
        };
        let principal = Principal::new(tenant, format!("{}|{subject}", self.name));
        let mut identity = Identity::new(principal.ok_or_else(|| {
            refusal("the subject of the token is too long: request one with a shorter subject")
        })?);
        if let Some(claim) = &config.agents_claim {
            identity.agents = AgentGrant::Only(list(find(claims, claim).ok_or_else(|| missing(claim))?));
        }
        if let (Some(claim), Some(role)) = (&config.roles_claim, &config.admin_role) {
            identity.is_admin = find(claims, claim).is_some_and(|roles| list(roles).contains(role));
        }
        let leeway = i64::try_from(config.leeway.as_secs()).unwrap_or(0);
        let expires = claims.get("exp").and_then(seconds).ok_or_else(|| missing("exp"))?;
        identity.expires_at = Some(Timestamp(expires.saturating_add(leeway).saturating_mul(1000)));
        identity.revoked = key.revoked.clone();
        Ok(identity)
    }
}

/// Returns the refusal of a token whose signature is valid but whose claims are not.
fn refused(token: &str, error: &jsonwebtoken::errors::Error) -> ServiceError {
    match error.kind() {
        ErrorKind::ExpiredSignature => {
            let claims = claims_of(token).unwrap_or_default();
            expired(claims.get("exp").and_then(seconds).map(|at| Timestamp(at.saturating_mul(1000))))
        }
        ErrorKind::ImmatureSignature => refusal("the token is not valid yet (claim `nbf`): retry later"),
        ErrorKind::InvalidAudience => {
            refusal("the token is not for this audience (claim `aud`): request one for this gateway")
        }
        ErrorKind::MissingRequiredClaim(claim) => {
            refusal(format!("the token has no claim `{claim}`: request one that has it"))
        }
        _ => refusal("unknown token"),
    }
}

/// Returns the claims of a token without verifying its signature, or `None` if it is not a JWT.
pub(super) fn claims_of(token: &str) -> Option<Claims> {
    if token.len() > TOKEN_BYTES || token.split('.').count() != 3 {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&payload).ok()
}

/// Returns the refusal of an expired token, with the time of its expiry.
fn expired(at: Option<Timestamp>) -> ServiceError {
    let at = at.map(rfc3339);
    refusal(at.map_or_else(
        || "the token has expired: send a new one".to_owned(),
        |at| format!("the token expired at {at}: send a new one"),
    ))
}

/// Returns a time as text for a message. A time beyond the calendar is written as its number.
fn rfc3339(at: Timestamp) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(at.0 / 1000).ok();
    let text = time.and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok());
    text.unwrap_or_else(|| at.0.to_string())
}

/// Returns a numeric date (RFC 7519, section 2) in whole seconds.
fn seconds(value: &Value) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "RFC 7519 allows fractions of seconds, which do not matter"
    )]
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

/// Returns a claim by its name, or by a path of names (`realm_access.roles`).
fn find<'c>(claims: &'c Claims, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, name| value.get(name))
}

/// Returns the elements of a claim that is a list, or a string of words separated by spaces (as `scope`).
fn list(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(words) => words.split_whitespace().map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    }
}

/// The issuers of a configuration. Behind a lock, because a reload moves unchanged issuers into the new configuration.
#[derive(Debug, Default)]
pub(super) struct Issuers(RwLock<Vec<Arc<Issuer>>>);

impl Issuers {
    pub(super) fn new(issuers: Vec<Arc<Issuer>>) -> Self {
        Self(RwLock::new(issuers))
    }

    /// Returns all issuers; there are few.
    pub(super) fn all(&self) -> Vec<Arc<Issuer>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the issuer that a token names, or `None` if the token is not a JWT or the issuer is not configured.
    ///
    /// The claim is not verified yet: it only selects the keys with which the token is verified.
    pub(super) fn of(&self, token: &str) -> Option<Arc<Issuer>> {
        let all = self.all();
        if all.is_empty() {
            return None;
        }
        let claims = claims_of(token)?;
        all.into_iter().find(|issuer| issuer.made(&claims))
    }

    /// Takes over the issuers of `before` whose configuration is unchanged, with their keys; drops the others. Their files are
    /// read again.
    pub(super) fn replace(&self, before: &Self) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for old in before.all() {
            match now.iter_mut().find(|issuer| old.is(&issuer.name, &issuer.config)) {
                Some(issuer) => {
                    old.renew(issuer);
                    *issuer = old;
                }
                None => old.drop_all(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        match value {
            Value::Object(claims) => claims,
            other => panic!("no claims: {other}"),
        }
    }

    #[test]
    fn a_claim_is_found_by_its_name_before_a_path() {
        let claims = claims(json!({ "a.b": 1, "a": { "b": 2, "c": { "d": 3 } } }));
        assert_eq!(find(&claims, "a.b"), Some(&json!(1)));
        assert_eq!(find(&claims, "a.c.d"), Some(&json!(3)));
        assert_eq!((find(&claims, "a.x"), find(&claims, "x"), find(&claims, "x.b")), (None, None, None));
    }

    #[test]
    fn a_list_is_an_array_or_words() {
        let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(list(&json!(["a", 1, "b"])), both);
        assert_eq!(list(&json!(" b  a ")), both);
        assert_eq!(list(&json!({ "a": "b" })), BTreeSet::new());
    }

    #[test]
    fn an_expiry_has_seconds_with_or_without_fractions() {
        assert_eq!(seconds(&json!(1_300_819_380)), Some(1_300_819_380));
        assert_eq!(seconds(&json!(1_300_819_380.75)), Some(1_300_819_380));
        assert_eq!(seconds(&json!("1300819380")), None);
        assert!(expired(Some(Timestamp(1_300_819_380_999))).to_string().contains("2011-03-22T18:43:00Z"));
        assert!(!expired(None).to_string().contains("at"));
    }

    #[test]
    fn claims_are_read_from_three_parts_of_at_most_16_kib() {
        let of = |claims: &Value| format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()));
        assert_eq!(claims_of(&of(&json!({ "sub": "ann" }))), Some(claims(json!({ "sub": "ann" }))));
        assert_eq!(claims_of(&of(&json!(["sub"]))), None, "claims are an object");
        let token = of(&json!({ "sub": "ann" }));
        assert_eq!(claims_of(&format!("{token}.x")), None);
        assert_eq!(claims_of(token.rsplit_once('.').unwrap().0), None);
        let long = |length: usize| token.clone() + &"s".repeat(length - token.len());
        assert!(claims_of(&long(TOKEN_BYTES)).is_some() && claims_of(&long(TOKEN_BYTES + 1)).is_none());
    }

    #[test]
    fn a_configured_algorithm_is_the_one_of_its_name() {
        use crate::config::Choice as _;
        use std::str::FromStr as _;
        assert_eq!(Algorithm::WORDS.len(), 7);
        for (name, configured) in Algorithm::WORDS {
            assert_eq!(*configured, Algorithm::from_str(name).unwrap());
        }
    }
}
