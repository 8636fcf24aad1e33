//! The user's own certificate authorities, such as the one of a company's proxy that opens TLS connections.

use std::io;
use std::path::{Path, PathBuf};

use super::{Planner, resolve};
use crate::host_path::{Directory, FileKind};
use crate::plan::{DataFile, PlanError, PlanWarning};
use crate::request::{EnvVariable, Secrecy, VariableSource};
use crate::step::{Author, Step};

/// The host's variables that may name a file of certificates.
pub const CERTIFICATE_VARIABLES: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];

/// The directory inside with copies of these files.
const INSIDE: &str = "/etc/caretaker";
/// The longest file. The copy takes memory in each run.
const LONGEST: u64 = 1 << 20;
/// The labels that certificates have in files.
const LABELS: [&str; 3] = ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"];

/// Why the sandbox does not show a file of certificates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificatesError {
    #[error("it does not exist")]
    Missing,
    #[error("it is {0}, not a file")]
    Kind(FileKind),
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("it has no certificate in PEM form")]
    NoCertificate,
    #[error(
        "it also has a {0}; put only the certificates into a file, and let the variable name that"
    )]
    NotOnlyCertificates(String),
}

impl Planner<'_> {
    /// Copies the certificates to the sandbox, and points the variables to the copies.
    pub(super) fn certificates(&mut self) -> Result<(), PlanError> {
        for (name, path) in &self.request.certificates {
            let Some(origin) = self.rules.passes(name.as_ref()).cloned() else { continue };
            // The user's own value for this run names a path inside.
            let is_set = |variable: &EnvVariable| {
                variable.source == VariableSource::Run && variable.name == name.as_str()
            };
            if self.request.env.iter().any(is_set) {
                continue;
            }
            let contents = match certificates_at(path)? {
                Ok(contents) => contents,
                Err(why) => {
                    let (variable, path) = (name.clone(), path.clone());
                    self.warnings.push(PlanWarning::CertificatesNotShown { variable, path, why });
                    continue;
                }
            };
            let inside = PathBuf::from(format!("{INSIDE}/{name}.pem"));
            let (name, value) = (name.into(), inside.clone().into_os_string());
            self.push_file(DataFile { inside, contents }, 0o444, Author::Host, &origin);
            // A later variable wins over the profile's own.
            self.push(Step::SetVariable { name, value, secrecy: Secrecy::Public }, origin);
        }
        Ok(())
    }
}

fn certificates_at(path: &Path) -> Result<Result<Vec<u8>, CertificatesError>, PlanError> {
    let Some((physical, found)) = resolve(path)? else {
        return Ok(Err(CertificatesError::Missing));
    };
    if found.kind != FileKind::File {
        return Ok(Err(CertificatesError::Kind(found.kind)));
    }
    let read = || -> io::Result<Vec<u8>> {
        let (Some(parent), Some(name)) = (physical.parent(), physical.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Directory::open(parent)?.read_small(Path::new(name), LONGEST)
    };
    Ok(match read() {
        Ok(bytes) => certificates_in(&bytes),
        Err(error) => Err(CertificatesError::Unreadable(error.to_string())),
    })
}

/// Returns the certificates of a file, without the text around them. Refuses a file with anything else in PEM form, which
/// may be a private key.
fn certificates_in(bytes: &[u8]) -> Result<Vec<u8>, CertificatesError> {
    let text = String::from_utf8_lossy(bytes);
    let (mut certificates, mut open) = (String::new(), None);
    for line in text.lines().map(str::trim) {
        let begin = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        if let Some(label) = begin {
            if !LABELS.contains(&label) {
                return Err(CertificatesError::NotOnlyCertificates(label.to_owned()));
            }
            open = Some(String::new());
        }
        let Some(block) = &mut open else { continue };
        block.push_str(line);
        block.push('\n');
        if line.starts_with("-----END ") {
            certificates.push_str(block);
            open = None;
        }
    }
    match certificates.is_empty() {
        true => Err(CertificatesError::NoCertificate),
        false => Ok(certificates.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn block(label: &str, content: &str) -> String {
        format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n")
    }

    #[test]
    fn only_the_certificates_of_a_file_are_copied() {
        let (one, two) = (block("CERTIFICATE", "AAAA"), block("TRUSTED CERTIFICATE", "BBBB"));
        let text =
            format!("# the proxy of the company\ntoken=s3cret\n{one}\r\nbetween\r\n{two}end");
        assert_eq!(certificates_in(text.as_bytes()), Ok(format!("{one}{two}").into_bytes()));
        let dos = one.replace('\n', "\r\n");
        assert_eq!(certificates_in(dos.as_bytes()), Ok(one.into_bytes()));
    }

    #[test]
    fn a_file_with_a_private_key_is_refused_wherever_the_key_is() {
        let certificate = block("CERTIFICATE", "AAAA");
        for label in [
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
        ] {
            let key = block(label, "BBBB");
            for text in [
                format!("{certificate}{key}"),
                format!("{key}{certificate}"),
                format!("-----BEGIN CERTIFICATE-----\nAAAA\n{key}{certificate}"),
                key.clone(),
            ] {
                let expected = CertificatesError::NotOnlyCertificates(label.to_owned());
                assert_eq!(certificates_in(text.as_bytes()), Err(expected), "{text}");
            }
        }
    }

    #[test]
    fn a_file_without_a_whole_certificate_is_refused() {
        for text in
            ["", "AAAA", "-----BEGIN CERTIFICATE-----\nAAAA\n", "-----END CERTIFICATE-----\n"]
        {
            assert_eq!(certificates_in(text.as_bytes()), Err(CertificatesError::NoCertificate));
        }
    }

    proptest! {
        #[test]
        fn no_line_outside_a_certificate_is_copied(
            lines in prop::collection::vec(prop_oneof![
                Just("-----BEGIN CERTIFICATE-----".to_owned()),
                Just("-----END CERTIFICATE-----".to_owned()),
                "[A-Za-z0-9+/]{0,8}",
            ], 0..12),
        ) {
            let copied = certificates_in(lines.join("\n").as_bytes()).unwrap_or_default();
            let copied = String::from_utf8(copied).unwrap();
            let mut is_open = false;
            for line in copied.lines() {
                is_open |= line == "-----BEGIN CERTIFICATE-----";
                prop_assert!(is_open, "{copied}");
                is_open &= line != "-----END CERTIFICATE-----";
            }
            prop_assert!(!is_open, "{copied}");
        }
    }
}
