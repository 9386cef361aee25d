//! The LoRA adapters of a model, and those that a request chooses.

use std::{collections::BTreeMap, ffi::OsStr, path::Path};

use pelton_graph::Plan;

use crate::{
    Error,
    api::{LoadOptions, Lora, LoraChoice},
};

/// The most LoRA adapters of one request.
pub(super) const LORAS_OF_REQUEST: usize = 4;

/// The LoRA adapters of a model.
pub(super) struct Loras {
    /// Their paths.
    pub(super) names: Vec<String>,
    /// Those of requests that name none, with their scales, in ascending order.
    pub(super) defaults: Vec<(u32, f32)>,
    /// The most adapters of a request.
    most: usize,
}

fn refused(found: String, expected: String) -> Error {
    Error::Option { option: "lora", found, expected }
}

/// The name of an adapter in requests: that of its file without the ending.
fn short_name(path: &Path) -> &OsStr {
    path.file_stem().unwrap_or(path.as_os_str())
}

/// Refuses two adapters of one name: no request could choose one of them. One that is
/// given twice adds up.
pub(super) fn check_names(loras: &[Lora]) -> Result<(), Error> {
    let mut seen: BTreeMap<&OsStr, &Path> = BTreeMap::new();
    for Lora { path, .. } in loras {
        let name = short_name(path);
        let Some(other) = seen.insert(name, path).filter(|other| other != path) else { continue };
        let (name, other, path) = (name.display(), other.display(), path.display());
        let found = format!("{other} and {path}, both by the name {name:?}");
        return Err(refused(found, "adapters of different names: rename one of them".to_owned()));
    }
    Ok(())
}

impl Loras {
    /// The adapters of a plan, which were loaded in the order of the options.
    pub(super) fn new(options: &LoadOptions, plan: &Plan) -> Result<Self, Error> {
        let names: Vec<String> =
            options.loras.iter().map(|adapter| adapter.path.display().to_string()).collect();
        let most = plan.adapters().map_or(0, |adapters| adapters.used);
        let defaults = (0..).zip(options.loras.iter().map(|adapter| adapter.scale)).collect();
        let mut loras = Self { names, defaults: Vec::new(), most };
        loras.defaults = loras.checked(defaults)?;
        Ok(loras)
    }

    /// The adapters with these names, or those of requests that name none.
    pub(super) fn of(&self, named: Option<&[LoraChoice]>) -> Result<Vec<(u32, f32)>, Error> {
        let Some(named) = named else { return Ok(self.defaults.clone()) };
        let mut all = Vec::with_capacity(named.len().min(self.names.len()));
        for LoraChoice { name, scale } in named {
            all.push((self.find(name)?, *scale));
        }
        self.checked(all)
    }

    /// The adapter whose path, or whose file name without its ending, is `name`.
    fn find(&self, name: &str) -> Result<u32, Error> {
        let short = |path: &str| short_name(Path::new(path)) == name;
        let by = |is: &dyn Fn(&str) -> bool| {
            let mut found = (0..).zip(&self.names).filter(|(_, path)| is(path));
            let first = found.next().map(|(id, _)| id);
            if found.next().is_some() { None } else { first }
        };
        by(&|path| path == name).or_else(|| by(&short)).ok_or_else(|| {
            let expected = match self.names.is_empty() {
                true => "none: the model was loaded without adapters".to_owned(),
                false => format!("one of {}", self.names.join(", ")),
            };
            refused(format!("{name:?}"), expected)
        })
    }

    /// The adapters that have an effect, in ascending order.
    fn checked(&self, mut all: Vec<(u32, f32)>) -> Result<Vec<(u32, f32)>, Error> {
        all.sort_by_key(|(id, _)| *id);
        let name = |id: u32| self.names.get(id as usize).map_or("", String::as_str);
        if let Some((id, scale)) = all.iter().find(|(_, scale)| !scale.is_finite()) {
            let found = format!("a scale of {scale} for {}", name(*id));
            return Err(refused(found, "a finite number".to_owned()));
        }
        if let Some([(id, _), _]) = all.array_windows().find(|[a, b]| a.0 == b.0) {
            return Err(refused(format!("{} twice", name(*id)), "each adapter once".to_owned()));
        }
        all.retain(|(_, scale)| *scale != 0.0);
        match all.len() > self.most {
            true => Err(refused(
                format!("{} adapters for one request", all.len()),
                format!("at most {}", self.most),
            )),
            false => Ok(all),
        }
    }
}
