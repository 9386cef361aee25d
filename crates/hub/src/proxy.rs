//! Proxies, by the variables that curl and Python's tools read.

use std::fmt;

use ureq::{Proxy, http::Uri};

use crate::error::{Error, Result};

/// The proxies of a machine.
#[derive(Clone, Default)]
pub(crate) struct Proxies {
    https: Option<Proxy>,
    http: Option<Proxy>,
    /// Hosts that are asked without a proxy.
    except: Vec<String>,
}

impl Proxies {
    /// `HTTPS_PROXY` and `HTTP_PROXY` by the scheme of an address, or else `ALL_PROXY`; `NO_PROXY`
    /// has the exceptions. The lower-case names go first, as in curl.
    pub(crate) fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let either = |name: &str| {
            let lower = name.to_lowercase();
            let found = variable(&lower).map(|value| (lower, value));
            found.or_else(|| Some((name.to_owned(), variable(name)?)))
        };
        let proxy = |name: &str| -> Result<Option<Proxy>> {
            let Some((name, value)) = either(name).or_else(|| either("ALL_PROXY")) else {
                return Ok(None);
            };
            let fault = |_| Error::Setting {
                variable: name,
                // it may have a password
                value: "…".to_owned(),
                expected: "the address of a proxy such as http://HOST:PORT",
            };
            Proxy::new(&value).map(Some).map_err(fault)
        };
        let except = either("NO_PROXY").map(|(_, list)| {
            let words = list.split(',').map(|word| word.trim().to_ascii_lowercase());
            words.filter(|word| !word.is_empty()).collect()
        });
        let (https, http) = (proxy("HTTPS_PROXY")?, proxy("HTTP_PROXY")?);
        Ok(Self { https, http, except: except.unwrap_or_default() })
    }

    /// The proxy for addresses with https, or for those with http.
    pub(crate) fn of_scheme(&self, is_encrypted: bool) -> Option<Proxy> {
        if is_encrypted { self.https.clone() } else { self.http.clone() }
    }

    /// Whether a host is asked without a proxy: this machine, a name in the list, or a name below
    /// one.
    pub(crate) fn excepts(&self, uri: &Uri) -> bool {
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let host = host.trim_matches(['[', ']']);
        let is_local = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        is_local || self.except.iter().any(|word| is_below(host, word))
    }
}

/// Whether a host is a name of `NO_PROXY` or below it: `*`, `example.com`, `.example.com`,
/// `*.example.com`.
fn is_below(host: &str, word: &str) -> bool {
    let name = word.strip_prefix('*').unwrap_or(word);
    let name = name.strip_prefix('.').unwrap_or(name);
    let above = host.strip_suffix(name);
    word == "*" || above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl fmt::Debug for Proxies {
    /// Without the addresses, which may have passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (https, http) = (self.https.is_some(), self.http.is_some());
        f.debug_struct("Proxies")
            .field("https", &https)
            .field("http", &http)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Proxies> {
        Proxies::of(&|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    /// `ENVIRONMENT` in the manual of curl.
    #[test]
    fn variables_by_the_scheme() {
        let hosts = |variables: &[(&str, &str)]| {
            let found = of(variables).unwrap();
            [true, false].map(|is| found.of_scheme(is).map(|proxy| proxy.host().to_owned()))
        };
        let host = |name: &str| Some(name.to_owned());
        assert_eq!(hosts(&[]), [None, None]);
        assert_eq!(hosts(&[("HTTPS_PROXY", "http://s:1")]), [host("s"), None]);
        assert_eq!(hosts(&[("http_proxy", "p:80"), ("HTTP_PROXY", "q:80")]), [None, host("p")]);
        let all = [("ALL_PROXY", "http://a:1"), ("https_proxy", "http://s:1")];
        assert_eq!(hosts(&all), [host("s"), host("a")]);
        let error = of(&[("HTTPS_PROXY", "ftp://user:word@x")]).unwrap_err().to_string();
        assert!(error.contains("HTTPS_PROXY") && !error.contains("word"), "{error}");
        let found = of(&[("HTTPS_PROXY", "http://user:word@x")]).unwrap();
        assert!(!format!("{found:?}").contains("word"));
    }

    /// As curl reads `NO_PROXY`: names with those below them.
    #[test]
    fn exceptions() {
        let found = of(&[("NO_PROXY", "a.example, .b.example,*.c.example,192.0.2.7")]).unwrap();
        let excepts = |url: &str| found.excepts(&url.parse().unwrap());
        for url in [
            "https://a.example/",
            "https://x.A.example:8443/",
            "https://b.example/",
            "https://x.b.example/",
            "https://x.c.example/",
            "http://192.0.2.7/",
            "http://localhost:1/",
            "http://[::1]:1/",
            "http://127.9.9.9/",
        ] {
            assert!(excepts(url), "{url}");
        }
        for url in ["https://aa.example/", "https://example/", "https://a.example.org/"] {
            assert!(!excepts(url), "{url}");
        }
        let all = of(&[("no_proxy", "*")]).unwrap();
        assert!(all.excepts(&"https://hub.example/".parse().unwrap()));
    }
}
