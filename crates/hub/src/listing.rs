//! The files of a repository, as the hub lists them.

use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    cancel::Cancel,
    choose::Entry,
    download::Hash,
    error::{Error, Result},
    http::{self, Client},
    name::{Repository, Revision, encoded, is_hex},
};

/// The largest description of a repository, in bytes. It names all files too.
const INFO_BYTES: u64 = 16 << 20;
/// The largest page of a list, in bytes. The hub sends a thousand files a page.
const LIST_BYTES: u64 = 4 << 20;
/// The largest number of files of a repository, as the hub recommends.
const ENTRIES: usize = 100_000;
/// The largest number of pages of a list.
const PAGES: usize = 100;

/// A repository at one commit.
#[derive(Debug)]
pub(crate) struct Listing {
    /// 40 hexadecimal digits.
    pub(crate) commit: String,
    /// Its files, without those whose names are refused.
    pub(crate) entries: Vec<Entry>,
    /// The number of files whose names are refused.
    pub(crate) refused: usize,
}

#[derive(Deserialize)]
struct Info {
    sha: String,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    /// The hash of the Git blob.
    oid: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    size: u64,
    /// SHA-256.
    oid: Option<String>,
}

/// Asks the hub for the commit of a revision and for the files in it.
pub(crate) fn read(
    client: &Client,
    endpoint: &str,
    repository: &Repository,
    revision: &Revision,
    cancel: &Cancel,
) -> Result<Listing> {
    let models = format!("{endpoint}/api/models/{repository}");
    let url = format!("{models}/revision/{}", encoded(revision.as_str()));
    let info: Info = json(&url, &client.document(&url, INFO_BYTES, cancel)?.body)?;
    if !is_hex(&info.sha, 40) {
        return Err(Error::answer(&url, "its commit is not 40 hexadecimal digits"));
    }
    let mut listing = Listing { commit: info.sha, entries: Vec::new(), refused: 0 };
    let mut url = format!("{models}/tree/{}?recursive=true", listing.commit);
    for _ in 0..PAGES {
        let page = client.document(&url, LIST_BYTES, cancel)?;
        let (entries, refused) = entries(&url, &page.body)?;
        listing.entries.extend(entries);
        listing.refused += refused;
        if listing.entries.len() > ENTRIES {
            let problem = format!("it lists more than {ENTRIES} files, expected a model");
            return Err(Error::answer(&url, problem));
        }
        match page.next {
            None => return Ok(listing),
            Some(next) if http::same_origin(&next, endpoint) => url = next,
            Some(_) => {
                return Err(Error::answer(&url, "the list goes on at another host"));
            }
        }
    }
    Err(Error::answer(&url, format!("the list of files has more than {PAGES} pages")))
}

/// The files of a page, and the number of those whose names are refused.
pub(crate) fn entries(url: &str, body: &[u8]) -> Result<(Vec<Entry>, usize)> {
    let (mut entries, mut refused) = (Vec::new(), 0);
    for item in json::<Vec<Item>>(url, body)?.into_iter().filter(|item| item.kind == "file") {
        let size = item.lfs.as_ref().map_or(item.size, |lfs| lfs.size);
        // a large file without a hash has none: the blob is that of its pointer
        let large = item.lfs.as_ref().map(|lfs| lfs.oid.as_deref().unwrap_or_default());
        let hash = Hash::of_entry(item.oid.as_deref(), large);
        match item.path.parse() {
            Ok(name) => entries.push(Entry { name, size, hash }),
            Err(_) => refused += 1,
        }
    }
    Ok((entries, refused))
}

fn json<T: DeserializeOwned>(url: &str, body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        Error::answer(url, format!("it is not the JSON of Hugging Face's interface ({error})"))
    })
}
