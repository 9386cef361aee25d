//! Where models come from and where they are kept.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    error::{Error, Result},
    name::FileName,
    proxy::Proxies,
};

/// The hub of a machine whose environment names no other one.
const ENDPOINT: &str = "https://huggingface.co";
/// The largest file with a token, in bytes.
const TOKEN_BYTES: u64 = 4096;

/// A token of the hub. Its text never appears in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of visible ASCII characters.
    ///
    /// # Errors
    /// If the text has others, or none.
    pub fn new(text: &str) -> Result<Self> {
        match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::Setting {
                variable: "the token of the hub".to_owned(),
                value: "…".to_owned(),
                expected: "one word of visible characters",
            }),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where models come from and where they are kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The hub: a scheme, a host and perhaps a path, without a slash at the end.
    pub endpoint: String,
    /// Sent to the endpoint's host and to no other one.
    pub token: Option<Token>,
    /// Whether no host is asked at all.
    pub offline: bool,
    /// The hub's cache, shared with Python's `huggingface_hub`.
    pub cache: PathBuf,
    /// Files of other servers.
    pub downloads: PathBuf,
    /// Folders of LM Studio.
    pub lm_studio: Vec<PathBuf>,
    /// Folders of Ollama.
    pub ollama: Vec<PathBuf>,
    /// Connections of a download at the same time; at least one.
    pub connections: usize,
    /// The time after which a read that brings nothing is given up.
    pub stall: Duration,
    /// Attempts of a request that brings nothing.
    pub attempts: u32,
    /// The pause before the second attempt; each later one is twice as long, up to a minute.
    pub back_off: Duration,
    /// A file of certificates that are trusted instead of Mozilla's list.
    pub certificate_file: Option<PathBuf>,
    /// Folders of such files.
    pub certificate_folders: Vec<PathBuf>,
    /// The vision tower that comes with a GGUF model of a repository.
    pub towers: Towers,
    pub(crate) proxies: Proxies,
}

/// The vision tower (mmproj) that comes with a GGUF model of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Towers {
    /// The one in the model's folder or above it: in F16, else in Q8_0, BF16 or F32.
    #[default]
    Auto,
    /// None.
    Off,
    /// The file of this name.
    Named(FileName),
}

impl Settings {
    /// The settings of the environment, by the variables of `huggingface_hub`, of llama.cpp
    /// (`MODEL_ENDPOINT`), of Ollama (`OLLAMA_MODELS`), of OpenSSL (`SSL_CERT_FILE`,
    /// `SSL_CERT_DIR`) and of curl (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// If a variable or a token's file cannot be used, or the user has no home folder.
    pub fn from_environment() -> Result<Self> {
        Self::of(&|name| env::var(name).ok().filter(|value| !value.is_empty()), env::home_dir())
    }

    /// The settings that `variable` gives, for a user with this home folder.
    ///
    /// # Errors
    /// As [`from_environment`](Self::from_environment).
    pub fn of(variable: &dyn Fn(&str) -> Option<String>, home: Option<PathBuf>) -> Result<Self> {
        let home = home.filter(|home| !home.as_os_str().is_empty());
        let home = home.ok_or_else(|| Error::Setting {
            variable: "HOME".to_owned(),
            value: String::new(),
            expected: "the user's folder",
        })?;
        let path = |name: &str| {
            variable(name).map(|text| expanded(name, &text, &home, variable)).transpose()
        };
        let caches = path("XDG_CACHE_HOME")?.unwrap_or_else(|| home.join(".cache"));
        let hf_home = path("HF_HOME")?.unwrap_or_else(|| caches.join("huggingface"));
        let cache = match path("HF_HUB_CACHE")? {
            None => path("HUGGINGFACE_HUB_CACHE")?,
            found => found,
        };
        let token_file = path("HF_TOKEN_PATH")?.unwrap_or_else(|| hf_home.join("token"));
        let token = match variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN")) {
            Some(text) => Some(Token::new(text.trim())?),
            None => token_in(&token_file)?,
        };
        let endpoint = variable("MODEL_ENDPOINT").or_else(|| variable("HF_ENDPOINT"));
        let ollama = match path("OLLAMA_MODELS")? {
            Some(folder) => vec![folder],
            None => vec![home.join(".ollama/models"), "/usr/share/ollama/.ollama/models".into()],
        };
        Ok(Self {
            endpoint: endpoint_of(endpoint.as_deref().unwrap_or(ENDPOINT))?,
            token,
            offline: variable("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
            cache: cache.unwrap_or_else(|| hf_home.join("hub")),
            downloads: caches.join("pelton").join("downloads"),
            lm_studio: [".lmstudio/models", ".cache/lm-studio/models"]
                .map(|folder| home.join(folder))
                .to_vec(),
            ollama,
            connections: 4,
            stall: Duration::from_secs(30),
            attempts: 6,
            back_off: Duration::from_millis(500),
            certificate_file: path("SSL_CERT_FILE")?,
            certificate_folders: variable("SSL_CERT_DIR")
                .map(|list| {
                    env::split_paths(&list).filter(|one| !one.as_os_str().is_empty()).collect()
                })
                .unwrap_or_default(),
            towers: Towers::default(),
            proxies: Proxies::of(variable)?,
        })
    }
}

/// An endpoint without the slashes at its end.
fn endpoint_of(text: &str) -> Result<String> {
    let trimmed = text.trim_end_matches('/');
    let host = ["https://", "http://"].iter().find_map(|scheme| trimmed.strip_prefix(scheme));
    match host.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#', ' '])) {
        true => Ok(trimmed.to_owned()),
        false => Err(Error::Setting {
            variable: "HF_ENDPOINT or MODEL_ENDPOINT".to_owned(),
            value: text.to_owned(),
            expected: "an address such as https://huggingface.co",
        }),
    }
}

/// The token in a file, if there is one.
fn token_in(path: &Path) -> Result<Option<Token>> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    if !metadata.is_file() || metadata.len() > TOKEN_BYTES {
        return Err(Error::Setting {
            variable: path.display().to_string(),
            value: "…".to_owned(),
            expected: "a file with a token",
        });
    }
    let text = fs::read_to_string(path).map_err(Error::io(path))?;
    match text.trim() {
        "" => Ok(None),
        text => Token::new(text).map(Some),
    }
}

/// A path with `~` for the home folder and `$NAME` or `${NAME}` for variables. Unknown variables
/// stay as they are. So do `os.path.expanduser` and `os.path.expandvars` of Python, by which
/// `huggingface_hub` reads paths.
fn expanded(
    name: &str,
    text: &str,
    home: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf> {
    let (start, rest) = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (home.to_str(), rest),
        Some(_) => {
            return Err(Error::Setting {
                variable: name.to_owned(),
                value: text.to_owned(),
                expected: "a path that begins with ~/ for your own folder or with /",
            });
        }
        None => (Some(""), text),
    };
    // a home folder that is no UTF-8 has no variables behind it
    let Some(start) = start else { return Ok(home.join(rest.trim_start_matches('/'))) };
    let (mut out, mut rest) = (start.to_owned(), rest);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let is_named = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (word, behind) = match after.strip_prefix('{').and_then(|text| text.split_once('}')) {
            Some((word, behind)) => (word, behind),
            None => after.split_at(after.find(|c| !is_named(c)).unwrap_or(after.len())),
        };
        match variable(word).filter(|_| !word.is_empty()) {
            Some(value) => out.push_str(&value),
            None => out.extend(["$", &after[..after.len() - behind.len()]]),
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out.into())
}

/// The words that `huggingface_hub` takes for yes.
fn is_true(value: &str) -> bool {
    ["1", "on", "yes", "true"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Settings> {
        let get = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::of(&get, Some("/home/u".into()))
    }

    /// The order of `huggingface_hub`'s documentation of environment variables.
    #[test]
    fn the_cache_is_that_of_python() {
        for (variables, cache) in [
            (&[][..], "/home/u/.cache/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/h")], "/h/hub"),
            (&[("HF_HOME", "/h"), ("HUGGINGFACE_HUB_CACHE", "/o")], "/o"),
            (&[("HUGGINGFACE_HUB_CACHE", "/o"), ("HF_HUB_CACHE", "~/c")], "/home/u/c"),
            (&[("HF_HOME", "~")], "/home/u/hub"),
            (&[("HF_HOME", "$HOME/hf"), ("HOME", "/h")], "/h/hf/hub"),
            (&[("HF_HUB_CACHE", "${A}x$B_1/$C-$/${D"), ("A", "/a"), ("B_1", "b")], "/axb/$C-$/${D"),
            (&[("XDG_CACHE_HOME", "$X"), ("X", "/$Y"), ("Y", "y")], "/$Y/huggingface/hub"),
        ] {
            assert_eq!(of(variables).unwrap().cache, Path::new(cache), "{variables:?}");
        }
        let error = of(&[("HF_HOME", "~other/hf")]).unwrap_err().to_string();
        assert!(error.starts_with("HF_HOME is \"~other/hf\""), "{error}");
    }

    #[test]
    fn endpoints_and_switches() {
        assert_eq!(of(&[]).unwrap().endpoint, "https://huggingface.co");
        let mirror = &[("HF_ENDPOINT", "https://mirror.example/hub/")];
        assert_eq!(of(mirror).unwrap().endpoint, "https://mirror.example/hub");
        for wrong in ["mirror", "ftp://x", "https://", "https://user@host"] {
            assert!(of(&[("HF_ENDPOINT", wrong)]).is_err(), "{wrong}");
        }
        for (value, offline) in [("1", true), ("Yes", true), ("0", false), ("no", false)] {
            assert_eq!(of(&[("HF_HUB_OFFLINE", value)]).unwrap().offline, offline);
        }
    }

    #[test]
    fn tokens_are_read_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "hf_secret\n").unwrap();
        let settings = of(&[("HF_TOKEN_PATH", file.to_str().unwrap())]).unwrap();
        assert_eq!(settings.token.as_ref().unwrap().text(), "hf_secret");
        assert!(!format!("{settings:?}").contains("secret"));
        assert!(of(&[("HF_TOKEN", "two words")]).is_err());
        fs::write(&file, "x".repeat(5000)).unwrap();
        assert!(of(&[("HF_TOKEN_PATH", file.to_str().unwrap())]).is_err());
    }
}
