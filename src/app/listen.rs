//! Taking a port, in words for whoever chose it.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;

use crate::server;

/// Listens at the address that the setting `variable` gave.
pub(super) fn listen(variable: &str, address: SocketAddr) -> Result<TcpListener> {
    let error = match server::listen(address) {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let free = (1..=20)
                .filter_map(|step| address.port().checked_add(step))
                .map(|port| SocketAddr::new(address.ip(), port))
                .find(|other| server::listen(*other).is_ok());
            let hint = free.map_or_else(String::new, |free| {
                format!(", for example {variable}={free}")
            });
            bail!("{variable}: {address} is taken by another program; choose another{hint}")
        }
        io::ErrorKind::AddrNotAvailable => {
            bail!("{variable}: {address} is no address of this machine")
        }
        _ => Err(error).context(format!("{variable}: cannot listen on {address}")),
    }
}
