//! Places where a test can stop the product between two steps. Without the `failpoints` feature a
//! place costs nothing and cannot be armed.
//!
//! A place has a name and a key (a workspace's id, say), so tests that run side by side in one
//! process stop only themselves.

/// Waits here while a test holds this place with this key.
#[cfg(not(feature = "failpoints"))]
#[expect(
    clippy::unused_async,
    reason = "the same shape with and without the feature"
)]
pub async fn pass(_name: &'static str, _key: &str) {}

#[cfg(feature = "failpoints")]
pub use armed::{Gate, arm, pass};

#[cfg(feature = "failpoints")]
mod armed {
    use std::collections::HashMap;
    use std::ffi::OsString;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, LazyLock, Mutex, PoisonError};
    use std::time::Duration;

    use tokio::sync::{Semaphore, watch};

    type Gates = Mutex<HashMap<(&'static str, String), Arc<Place>>>;

    /// Gates that stand: a place costs nothing while there are none.
    static ARMED: AtomicUsize = AtomicUsize::new(0);

    static GATES: LazyLock<Gates> = LazyLock::new(Gates::default);

    #[derive(Debug)]
    struct Place {
        /// How many came here.
        arrived: watch::Sender<usize>,
        /// Closed when the gate opens.
        open: Semaphore,
    }

    /// A held place; dropping it lets everyone through.
    #[derive(Debug)]
    pub struct Gate {
        at: (&'static str, String),
        place: Arc<Place>,
    }

    /// Holds whoever comes to `name` with `key`, until the gate is dropped.
    #[must_use]
    pub fn arm(name: &'static str, key: &str) -> Gate {
        let place = Arc::new(Place {
            arrived: watch::Sender::new(0),
            open: Semaphore::new(0),
        });
        let at = (name, key.to_owned());
        gates().insert(at.clone(), Arc::clone(&place));
        ARMED.fetch_add(1, Ordering::AcqRel);
        Gate { at, place }
    }

    impl Gate {
        /// Waits until someone stands here.
        pub async fn reached(&self) {
            self.reached_by(1).await;
        }

        /// Waits until so many came here.
        pub async fn reached_by(&self, count: usize) {
            // The sender lives as long as `self`: this cannot fail.
            let _ = self
                .place
                .arrived
                .subscribe()
                .wait_for(|arrived| *arrived >= count)
                .await;
        }
    }

    impl Drop for Gate {
        fn drop(&mut self) {
            gates().remove(&self.at);
            ARMED.fetch_sub(1, Ordering::AcqRel);
            self.place.open.close();
        }
    }

    /// Names a place where the whole process ends at once, as by a power cut.
    static ABORT_AT: LazyLock<Option<OsString>> =
        LazyLock::new(|| std::env::var_os("TOOLCAST_FAILPOINT_ABORT"));

    /// A folder: whoever comes to a place waits there while it has a file of the place's name, and
    /// makes one called `<name>.reached`. For a process that a test can only reach from outside.
    static HOLD_IN: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("TOOLCAST_FAILPOINT_HOLD").map(PathBuf::from));

    /// Between two looks at that folder.
    const PAUSE: Duration = Duration::from_millis(5);

    /// Waits here while a test holds this place with this key.
    pub async fn pass(name: &'static str, key: &str) {
        if ABORT_AT.as_ref().is_some_and(|at| at == name) && !key.is_empty() {
            std::process::abort();
        }
        if let Some(folder) = HOLD_IN.as_ref() {
            while folder.join(name).exists() {
                // A test that waits for it says so.
                let _ = std::fs::write(folder.join(name).with_added_extension("reached"), "");
                tokio::time::sleep(PAUSE).await;
            }
        }
        if ARMED.load(Ordering::Acquire) == 0 {
            return;
        }
        let place = gates().get(&(name, key.to_owned())).cloned();
        if let Some(place) = place {
            place.arrived.send_modify(|arrived| *arrived += 1);
            // Ends with an error when the gate is dropped, which is how it opens.
            let _ = place.open.acquire().await;
        }
    }

    fn gates() -> std::sync::MutexGuard<'static, HashMap<(&'static str, String), Arc<Place>>> {
        GATES.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
