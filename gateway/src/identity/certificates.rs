//! Client certificates: which principal a verified certificate proves, by the names in it.
//!
//! TLS has verified the chain against `server.tls.client_ca` before; this module only maps names to principals. A
//! certificate that names no principal, or that has expired, proves nothing.

use std::sync::Arc;

use aqueduct_core::service::ServiceError;
use aqueduct_core::{Identity, Timestamp};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::refusal;
use super::table::ProofTable;

/// Names of certificates (`CN=…`, `dns:…`, `email:…` or `uri:…`), and the identities that they prove.
pub(super) type CertificateTable = ProofTable<String>;

impl CertificateTable {
    /// Returns the identity that a certificate (DER) proves; `None` if it names no principal.
    ///
    /// The identity expires with the certificate. If several names match, the first configured one decides.
    ///
    /// # Errors
    ///
    /// Returns a refusal if the certificate cannot be parsed.
    pub(super) fn find(&self, der: &[u8]) -> Result<Option<Arc<Identity>>, ServiceError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let unreadable =
            |_| refusal("the client certificate cannot be parsed: send a valid X.509 certificate");
        let (_, certificate) = X509Certificate::from_der(der).map_err(unreadable)?;
        let names = names(&certificate);
        let found = self.0.iter().find(|(name, _)| names.contains(name));
        Ok(found.map(|(_, identity)| {
            let end = certificate.validity().not_after.timestamp().saturating_mul(1000);
            let mut identity = Identity::clone(identity);
            identity.expires_at = Some(Timestamp(end));
            Arc::new(identity)
        }))
    }
}

/// Returns the names in a certificate in the form that the configuration uses.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let subject = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = subject.map(|name| format!("CN={name}")).collect();
    let Ok(Some(alternative)) = certificate.subject_alternative_name() else { return names };
    for name in &alternative.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.push(format!("dns:{name}")),
            GeneralName::RFC822Name(name) => names.push(format!("email:{name}")),
            GeneralName::URI(name) => names.push(format!("uri:{name}")),
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use aqueduct_core::Principal;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common_name: &str, uri: &str) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_the_common_name_and_alternative_names_of_three_kinds() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.subject_alt_names = vec![
            SanType::DnsName("ann.example".try_into().unwrap()),
            SanType::Rfc822Name("ann@example.org".try_into().unwrap()),
            SanType::URI("spiffe://acme/ann".try_into().unwrap()),
            SanType::IpAddress([127, 0, 0, 1].into()),
        ];
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, certificate) = X509Certificate::from_der(certificate.der()).unwrap();
        let expected = ["CN=ann", "dns:ann.example", "email:ann@example.org", "uri:spiffe://acme/ann"];
        assert_eq!(names(&certificate), expected);
    }

    #[test]
    fn a_certificate_proves_the_principal_that_one_of_its_names_is_mapped_to() {
        let identity = |name: &str| Identity::new(Principal::new("", name.to_owned()).unwrap());
        let mut table = CertificateTable::default();
        table.add("CN=ann".to_owned(), &identity("ann"));
        table.add("uri:spiffe://acme/bob".to_owned(), &identity("bob"));
        let find = |der: &[u8]| table.find(der).unwrap().map(|found| found.principal.to_string());
        assert_eq!(find(&certificate("ann", "spiffe://acme/x")).as_deref(), Some("ann"));
        assert_eq!(find(&certificate("x", "spiffe://acme/bob")).as_deref(), Some("bob"));
        assert_eq!(find(&certificate("x", "spiffe://acme/x")), None);
        assert!(table.find(b"nonsense").is_err());
        let found = table.find(&certificate("ann", "spiffe://acme/x")).unwrap().unwrap();
        assert!(found.expires_at.is_some(), "a proof ends with its certificate");
    }
}
