//! Models by name: found on this machine, or downloaded.

use std::{fs, path::Path, sync::Arc};

use ureq::{Body, http::Response};

use crate::{
    cache::RepositoryCache,
    cancel::Cancel,
    choose::{Choice, Entry, choose, total},
    download::{self, Etag, Hash, Job, Meter, Phase, Progress},
    error::{Error, Result},
    failure,
    http::{Client, Method},
    listing,
    local::{self, Folder, Model, Place, Removed},
    name::{Part, Reference, RepositoryReference, UrlReference, encoded},
    settings::Settings,
};

/// The largest download in bytes, whatever a host announces: 64 TiB.
const LARGEST: u64 = 1 << 46;

/// The entity tag of a file's bytes, in a redirect to them.
const LINKED_TAG: &str = "x-linked-etag";

/// The hub and the models of this machine.
///
/// [`find`](Self::find) asks no host. [`plan`](Self::plan) asks the hub what a name means, and
/// [`fetch`](Self::fetch) downloads that. All of them block, so that a caller needs no runtime.
#[derive(Debug)]
pub struct Hub {
    settings: Settings,
    client: Arc<Client>,
}

/// A download: the files, their sizes and their source.
#[derive(Clone, Debug)]
pub struct Plan {
    name: String,
    choice: Choice,
    missing: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Repository { wanted: RepositoryReference, commit: String },
    Url { url: UrlReference, etag: Etag, repeats_tag: bool },
}

impl Plan {
    /// The model's name, with its quantization.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why these files, if the reference left that open.
    pub fn reason(&self) -> Option<&str> {
        self.choice.reason.as_deref()
    }

    /// The files with their bytes.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.choice.files.iter().map(|file| (file.name.as_str(), file.size))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.choice.bytes()
    }

    /// Bytes that are not on this machine yet.
    pub fn missing_bytes(&self) -> u64 {
        self.missing
    }
}

impl Hub {
    /// A hub with these settings. No host is asked.
    ///
    /// # Errors
    /// If the endpoint is no address.
    pub fn new(settings: Settings) -> Result<Self> {
        let client = Arc::new(Client::new(&settings)?);
        Ok(Self { settings, client })
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Finds a complete model on this machine: in the hub's cache, and in the folders of LM Studio
    /// and Ollama. `budget` is the memory for it in bytes, if it is known; it decides between
    /// quantizations.
    pub fn find(&self, reference: &Reference, budget: Option<u64>) -> Option<Model> {
        local::find(&self.settings, reference, budget)
    }

    /// All complete models of this machine, by their names.
    pub fn list(&self) -> Vec<Model> {
        local::list(&self.settings)
    }

    /// The model of a name: found on this machine, or else downloaded. `report` is called as by
    /// [`fetch`](Self::fetch).
    ///
    /// # Errors
    /// As [`plan`](Self::plan) and [`fetch`](Self::fetch).
    pub fn get(
        &self,
        reference: &Reference,
        budget: Option<u64>,
        report: &mut dyn FnMut(&Progress),
        cancel: &Cancel,
    ) -> Result<Model> {
        match self.find(reference, budget) {
            Some(model) => Ok(model),
            None => self.fetch(&self.plan(reference, budget, cancel)?, report, cancel),
        }
    }

    /// The folders in which models are looked for and that exist, in words.
    pub fn searched(&self) -> String {
        local::searched(&self.settings)
    }

    /// The folders in which models are looked for, with their sizes. All files below them are
    /// visited.
    pub fn folders(&self) -> Vec<Folder> {
        local::folders(&self.settings)
    }

    /// Removes a model from the hub's cache or from the downloads. A repository without a
    /// quantization goes as a whole.
    ///
    /// # Errors
    /// If it is not there, belongs to another program, or a file cannot be removed.
    pub fn remove(&self, reference: &Reference) -> Result<Removed> {
        let in_cache = match reference {
            Reference::Repository(wanted) => local::remove(&self.settings, wanted)?,
            Reference::Short(short) => match short.repository() {
                Some(wanted) => local::remove(&self.settings, &wanted)?,
                None => None,
            },
            Reference::Url(url) => {
                let path = local::downloaded(&self.settings, url.host(), url.url(), url.file());
                let found = self.find(reference, None);
                found.map(|model| remove_download(&path, model.bytes)).transpose()?
            }
        };
        if let Some(removed) = in_cache {
            return Ok(removed);
        }
        match self.find(reference, None) {
            Some(Model { name, place, path, .. }) => {
                Err(Error::Foreign { name, owner: place.name(), path })
            }
            None => Err(Error::Files {
                name: reference.to_string(),
                problem: "it is not on this machine".to_owned(),
            }),
        }
    }

    /// Asks the hub what a reference means. `budget` is the memory for the model in bytes, if it is
    /// known.
    ///
    /// # Errors
    /// If the name is none that a hub has, the hub is switched off, cannot be reached or refuses,
    /// or has no such model.
    pub fn plan(
        &self,
        reference: &Reference,
        budget: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Plan> {
        let name = reference.to_string();
        let wanted = match reference {
            Reference::Short(short) => short.repository().ok_or_else(|| Error::Unknown {
                name: name.clone(),
                places: self.searched(),
                known: short.suggestions(),
            })?,
            Reference::Repository(wanted) => wanted.clone(),
            Reference::Url(url) if !self.settings.offline => return self.plan_url(url, cancel),
            Reference::Url(_) => return Err(self.offline(name)),
        };
        match self.settings.offline {
            true => Err(self.offline(name)),
            false => self.plan_repository(&wanted, budget, cancel),
        }
    }

    /// The error of a model that only a download brings, without downloads.
    fn offline(&self, name: String) -> Error {
        Error::Offline { name, places: self.searched() }
    }

    fn plan_repository(
        &self,
        wanted: &RepositoryReference,
        budget: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Plan> {
        let endpoint = &self.settings.endpoint;
        let (repository, revision) = (&wanted.repository, &wanted.revision);
        let listing = listing::read(&self.client, endpoint, repository, revision, cancel)?;
        let name = wanted.to_string();
        let choice = choose(&name, &listing.entries, &wanted.part, budget, &self.settings.towers);
        let choice = choice.map_err(|error| match error {
            Error::Files { name, problem } if listing.refused > 0 => {
                let more = format!("{problem}; {} names of files were refused", listing.refused);
                Error::Files { name, problem: more }
            }
            other => other,
        })?;
        let cache = RepositoryCache::new(&self.settings.cache, repository);
        let is_missing =
            |file: &&Entry| !is_there(&cache.file(&listing.commit, &file.name), file.size);
        let missing = total(choice.files.iter().filter(is_missing));
        let name = match &choice.tag {
            Some(tag) => {
                let part = Part::Quantization(tag.clone());
                RepositoryReference { part, ..wanted.clone() }.to_string()
            }
            None => name,
        };
        let source = Source::Repository { wanted: wanted.clone(), commit: listing.commit };
        Ok(Plan { name, choice, missing, source })
    }

    fn plan_url(&self, url: &UrlReference, cancel: &Cancel) -> Result<Plan> {
        let address = url.url();
        let (size, tag, repeats_tag) = self.client.tried(cancel, || {
            let response = self.client.attempt(Method::Head, address, None, &|_, _| true)?;
            let headers = response.headers();
            let size = failure::text(headers, "content-length").and_then(|text| text.parse().ok());
            let tag = failure::text(headers, "etag");
            let repeats_tag = tag.is_some();
            let tag = tag.or_else(|| failure::text(headers, "last-modified"));
            Ok((size, Etag::of_server(address, tag)?, repeats_tag))
        })?;
        let size: u64 =
            size.ok_or_else(|| Error::answer(address, "it does not say the size of the file"))?;
        let path = local::downloaded(&self.settings, url.host(), address, url.file());
        let is_there = is_there(&path, size);
        let file = url.file().clone();
        let files = vec![Entry { name: file.clone(), size, hash: None }];
        Ok(Plan {
            name: address.to_owned(),
            choice: Choice { files, main: Some(file), tag: None, reason: None },
            missing: if is_there { 0 } else { size },
            source: Source::Url { url: url.clone(), etag: tag, repeats_tag },
        })
    }

    /// Downloads the files of a plan, and returns the model. `report` is called about ten times a
    /// second.
    ///
    /// Files that are there are not downloaded again. An interrupted download goes on where it
    /// ended. A revision of the cache leads to the new files when all of them are complete.
    ///
    /// # Errors
    /// If the disk has no room, a host fails again and again or refuses, a hash is wrong, or
    /// `cancel` was set.
    pub fn fetch(
        &self,
        plan: &Plan,
        report: &mut dyn FnMut(&Progress),
        cancel: &Cancel,
    ) -> Result<Model> {
        let mut meter = Meter::new(plan.bytes(), report);
        match &plan.source {
            Source::Repository { wanted, commit } => {
                self.fetch_repository(plan, wanted, commit, &mut meter, cancel)
            }
            Source::Url { url, etag, repeats_tag } => {
                self.fetch_url(plan, url, etag, *repeats_tag, &mut meter, cancel)
            }
        }
    }

    fn fetch_repository(
        &self,
        plan: &Plan,
        wanted: &RepositoryReference,
        commit: &str,
        meter: &mut Meter<'_>,
        cancel: &Cancel,
    ) -> Result<Model> {
        let cache = RepositoryCache::new(&self.settings.cache, &wanted.repository);
        let (mut jobs, mut unverified) = (Vec::new(), Vec::new());
        for file in &plan.choice.files {
            meter.begin(file.name.as_str(), file.size);
            meter.show(Phase::Asking);
            match is_there(&cache.file(commit, &file.name), file.size) {
                true => meter.set_done(meter.done() + file.size),
                false => jobs.push((file, self.job(wanted, commit, file, &cache, cancel)?)),
            }
        }
        check_disk(&self.settings.cache, jobs.iter().map(|(_, job)| job))?;
        for (file, job) in &jobs {
            meter.begin_job(file.name.as_str(), job);
            download::fetch(&self.client, job, meter, cancel)?;
            unverified.extend(noted(job));
            cache.link(job.etag.as_str(), commit, &file.name)?;
        }
        cache.set_commit(&wanted.revision, commit)?;
        let folder = cache.snapshot(commit);
        let model = local::model(plan.name.clone(), Place::Cache, &folder, &plan.choice);
        Ok(Model { unverified, ..model })
    }

    /// The download of a file of a repository into the cache.
    fn job(
        &self,
        wanted: &RepositoryReference,
        commit: &str,
        file: &Entry,
        cache: &RepositoryCache,
        cancel: &Cancel,
    ) -> Result<Job> {
        let names: Vec<String> = file.name.names().map(encoded).collect();
        let (endpoint, names) = (&self.settings.endpoint, names.join("/"));
        let url = format!("{endpoint}/{}/resolve/{commit}/{names}", wanted.repository);
        let Head { etag, size } = self.head(&url, commit, file.hash.as_ref(), cancel)?;
        let mut hashes: Vec<Hash> = file.hash.iter().cloned().collect();
        if let Some(told) = Hash::of_tag(&etag) {
            if let Some(listed) = file.hash.as_ref().filter(|listed| listed.contradicts(&told)) {
                let problem = format!(
                    "it has the {} {}, expected {} as the list says",
                    told.kind(),
                    told.digits(),
                    listed.digits()
                );
                return Err(Error::answer(&url, problem));
            }
            if !hashes.contains(&told) {
                hashes.push(told);
            }
        }
        if let Some(found) = size.filter(|found| *found != file.size) {
            let problem = format!("it has {found} bytes, expected {} as the list says", file.size);
            return Err(Error::answer(&url, problem));
        }
        let size = file.size;
        let to = cache.blobs().join(etag.as_str());
        let lock = cache.lock(etag.as_str());
        let (connections, repeats_tag) = (self.settings.connections, false);
        let name = file.name.to_string();
        Ok(Job { url, to, lock, size, etag, hashes, name, repeats_tag, connections })
    }

    /// The size and the entity tag of a file, without the redirect to the host of its bytes. A file
    /// without an entity tag is named by the hash of the list.
    fn head(
        &self,
        url: &str,
        commit: &str,
        listed: Option<&Hash>,
        cancel: &Cancel,
    ) -> Result<Head> {
        let attempt = |beyond: bool| {
            self.client.tried(cancel, || {
                // the bytes may lie on the hub's own host: its tag comes with the first redirect to
                // them
                let follows = |response: &Response<Body>, leaves: bool| {
                    let is_told = failure::text(response.headers(), LINKED_TAG).is_some();
                    !is_told && (beyond || !leaves)
                };
                let response = self.client.attempt(Method::Head, url, None, &follows)?;
                Ok(head_of(url, commit, &response)?)
            })
        };
        let (etag, size) = match attempt(false)? {
            // a hub that does not tell leaves that to the host of the bytes
            (None, _) => attempt(true)?,
            told => told,
        };
        let etag = match (etag, listed) {
            (Some(etag), _) => etag,
            (None, Some(listed)) => Etag::of_header(url, listed.digits())?,
            (None, None) => return Err(Error::answer(url, "it has no ETag, expected one")),
        };
        Ok(Head { etag, size })
    }

    fn fetch_url(
        &self,
        plan: &Plan,
        url: &UrlReference,
        etag: &Etag,
        repeats_tag: bool,
        meter: &mut Meter<'_>,
        cancel: &Cancel,
    ) -> Result<Model> {
        let to = local::downloaded(&self.settings, url.host(), url.url(), url.file());
        let (size, connections) = (plan.bytes(), self.settings.connections);
        meter.begin(url.file().as_str(), size);
        let lock = to.with_extension("lock");
        let (etag, address) = (etag.clone(), url.url().to_owned());
        let (name, hashes) = (url.file().to_string(), Vec::new());
        let job =
            Job { url: address, to, lock, size, etag, hashes, name, repeats_tag, connections };
        check_disk(&self.settings.downloads, std::iter::once(&job))?;
        download::fetch(&self.client, &job, meter, cancel)?;
        let note = job.to.with_file_name(local::ADDRESS);
        fs::write(&note, url.url()).map_err(Error::io(&note))?;
        let files = vec![job.to.clone()];
        let unverified = noted(&job).into_iter().collect();
        let (name, path, place) = (plan.name.clone(), job.to, Place::Downloads);
        Ok(Model { name, place, path, bytes: size, files, reason: None, unverified })
    }
}

/// The name of a file for which the host has no hash.
fn noted(job: &Job) -> Option<String> {
    if !job.hashes.is_empty() {
        return None;
    }
    tracing::warn!(file = job.name, "the host has no hash of the file: only its size was compared");
    Some(job.name.clone())
}

/// Refuses downloads for which the disk has no room.
fn check_disk<'a>(folder: &Path, jobs: impl Iterator<Item = &'a Job>) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    // a system that cannot tell refuses the writes
    let free = fs4::available_space(folder).unwrap_or(LARGEST).min(LARGEST);
    let needed = jobs.fold(0_u64, |sum, job| sum.saturating_add(download::missing_bytes(job)));
    match needed > free {
        true => Err(Error::Disk { needed, free, folder: folder.to_owned() }),
        false => Ok(()),
    }
}

/// Whether a path is a file of this size.
fn is_there(path: &Path, size: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == size)
}

/// The hub's description of a file.
struct Head {
    etag: Etag,
    size: Option<u64>,
}

/// The entity tag and the size in the headers of a file or of a redirect to it.
fn head_of(
    url: &str,
    commit: &str,
    response: &Response<Body>,
) -> Result<(Option<Etag>, Option<u64>)> {
    let header = |name: &str| failure::text(response.headers(), name);
    // those of a redirect itself are not those of the file
    let own = |name: &str| header(name).filter(|_| !response.status().is_redirection());
    if header("x-repo-commit").is_some_and(|found| found != commit) {
        return Err(Error::answer(url, format!("it is of another commit than {commit}")));
    }
    let etag = header(LINKED_TAG).or_else(|| own("etag"));
    let size = header("x-linked-size").or_else(|| own("content-length"));
    let etag = etag.map(|etag| Etag::of_header(url, etag)).transpose()?;
    Ok((etag, size.and_then(|size| size.parse().ok())))
}

fn remove_download(path: &Path, bytes: u64) -> Result<Removed> {
    fs::remove_file(path).map_err(Error::io(path))?;
    if let Some(folder) = path.parent() {
        fs::remove_dir_all(folder).map_err(Error::io(folder))?;
    }
    Ok(Removed { files: vec![path.to_owned()], bytes })
}
