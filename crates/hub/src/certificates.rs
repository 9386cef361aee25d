//! The certificates that encrypted connections trust.

use std::{fs, path::Path};

use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

use crate::{
    error::{Error, Result},
    settings::Settings,
};

/// The largest file of certificates, in bytes.
const LARGEST: u64 = 16 << 20;

/// The certificates of the settings, or else Mozilla's list. As in OpenSSL, the former replace the
/// latter.
///
/// # Errors
/// If a file cannot be read, or there is no certificate in any of them.
pub(crate) fn roots(settings: &Settings) -> Result<RootCerts> {
    let (file, folders) = (&settings.certificate_file, &settings.certificate_folders);
    if file.is_none() && folders.is_empty() {
        return Ok(RootCerts::WebPki);
    }
    let mut all = Vec::new();
    if let Some(path) = file {
        let text = fs::metadata(path).and_then(|found| match found.len() {
            0..=LARGEST => fs::read(path),
            _ => Err(std::io::Error::other("the file is too large")),
        });
        let found = certificates(&text.map_err(Error::io(path))?);
        if found.is_empty() {
            return Err(fault("SSL_CERT_FILE", path, "a file of certificates in the form PEM"));
        }
        all.extend(found);
    }
    for folder in folders {
        // as in OpenSSL, some of the folders may be missing
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // folders of certificates have links, indices and lists of revoked ones too
            let is_small = fs::metadata(entry.path())
                .is_ok_and(|found| found.is_file() && found.len() <= LARGEST);
            if is_small && let Ok(text) = fs::read(entry.path()) {
                all.extend(certificates(&text));
            }
        }
    }
    match (all.is_empty(), folders.first()) {
        (true, Some(folder)) => {
            Err(fault("SSL_CERT_DIR", folder, "a folder with certificates in the form PEM"))
        }
        _ => Ok(RootCerts::new_with_certs(&all)),
    }
}

fn certificates(text: &[u8]) -> Vec<Certificate<'static>> {
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    parse_pem(text).filter_map(certificate).collect()
}

fn fault(variable: &str, path: &Path, expected: &'static str) -> Error {
    Error::Setting { variable: variable.to_owned(), value: path.display().to_string(), expected }
}
