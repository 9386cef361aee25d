//! The folders of models, and the hub.

use pelton_hub::{Folder, Hub};
use serde_json::json;

use super::{
    report::{Report, Row},
    system::{is_set, yes},
};
use crate::{hub, output};

/// Variables that name a proxy or certificates. Their values may hold a password.
const VARIABLES: [&str; 5] =
    ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Adds the folders and the settings of the hub.
pub(super) fn add(report: &mut Report) {
    match hub::open() {
        Ok(hub) => {
            report.list("folders", hub.folders().iter().map(folder).collect());
            report.add("hub", settings(&hub));
        }
        Err(error) => {
            let sentence = output::sentence(&error);
            report.add("hub", vec![Row::new("fault", "fault", &*sentence, &*sentence)]);
        }
    }
}

fn folder(folder: &Folder) -> (Vec<(String, String)>, serde_json::Value) {
    let (place, path) = (folder.place.name(), folder.path.display());
    let size = folder.bytes.map_or_else(|| "not there".to_owned(), output::bytes);
    let free = folder.free.map_or_else(|| "unknown".to_owned(), output::bytes);
    let object = json!({
        "place": place, "path": folder.path, "bytes": folder.bytes, "free_bytes": folder.free,
    });
    (vec![(place.to_owned(), format!("{path}: {size}, {free} free on its disk"))], object)
}

fn settings(hub: &Hub) -> Vec<Row> {
    let settings = hub.settings();
    let set: Vec<&str> =
        VARIABLES.into_iter().filter(|name| is_set(name) || is_set(&name.to_lowercase())).collect();
    let named = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
    vec![
        Row::new("address", "endpoint", &*settings.endpoint, &*settings.endpoint),
        yes("token", "token", settings.token.is_some()),
        yes("offline", "offline", settings.offline),
        Row::new("proxy, certificates", "variables", named, set),
    ]
}
