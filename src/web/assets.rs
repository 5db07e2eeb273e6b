//! Styles, scripts and pictures, embedded in the binary.
//!
//! Their address holds a digest of all of them, so a browser may keep them for ever and a script's
//! relative imports are always of its own release. An address of another release (a page that was
//! open during an upgrade) gets today's file, to be asked for again.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};

/// One embedded file.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($name:literal: $content_type:ident),+ $(,)?) => {
        &[$(Asset {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!("assets/", $name)),
        }),+]
    };
}

static ASSETS: &[Asset] = assets! {
    "add_server.js": JS,
    "api.js": JS,
    "connect.js": JS,
    "copy.js": JS,
    "diff.js": JS,
    "dom.js": JS,
    "external.js": JS,
    "feed.js": JS,
    "forms.js": JS,
    "home.js": JS,
    "icon.svg": SVG,
    "lines.js": JS,
    "menu.js": JS,
    "sample.js": JS,
    "servers.js": JS,
    "sign_in.js": JS,
    "sign_in_ended.js": JS,
    "state.js": JS,
    "stream.js": JS,
    "toolcast.css": CSS,
};

/// Names this release's assets.
static DIGEST: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in ASSETS {
        hash.update(asset.name);
        hash.update([0]);
        hash.update(asset.bytes);
        hash.update([0]);
    }
    short(&hash.finalize())
});

/// Where templates find the assets, without a trailing slash.
pub(super) static BASE: LazyLock<String> = LazyLock::new(|| format!("/assets/{}", *DIGEST));

/// The route of [`BASE`].
pub(super) const ROUTE: &str = "/assets/{digest}/{name}";

fn short(hash: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(hash.get(..12).unwrap_or(hash))
}

/// Serves one asset; `None` when there is none of this name.
pub(super) fn serve(digest: &str, name: &str, headers: &HeaderMap) -> Option<Response> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let keep = if digest == *DIGEST {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let tag = format!("\"{}\"", short(&Sha256::digest(asset.bytes)));
    let head = [(CACHE_CONTROL, keep.to_owned()), (ETAG, tag.clone())];
    if knows(headers, &tag) {
        return Some((StatusCode::NOT_MODIFIED, head).into_response());
    }
    Some((head, [(CONTENT_TYPE, asset.content_type)], asset.bytes).into_response())
}

/// Whether the browser has the file that `tag` names.
fn knows(headers: &HeaderMap, tag: &str) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each script is embedded, and imports only scripts that are.
    #[test]
    fn imports_lead_to_embedded_files() {
        for asset in ASSETS.iter().filter(|asset| asset.content_type == JS) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let path = line.split('"').nth(1).unwrap();
                let name = path.strip_prefix("./").unwrap();
                assert!(
                    ASSETS.iter().any(|a| a.name == name),
                    "{}: {line}",
                    asset.name
                );
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/web/assets");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(ASSETS.iter().any(|asset| asset.name == name), "{name}");
        }
    }

    #[test]
    fn a_known_tag_is_recognised_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, "\"a\", W/\"b\"".parse().unwrap());
        assert!(knows(&headers, "\"b\""));
        assert!(!knows(&headers, "\"c\""));
    }
}
