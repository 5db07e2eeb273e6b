//! A new file in `migrations` rebuilds what embeds it.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
