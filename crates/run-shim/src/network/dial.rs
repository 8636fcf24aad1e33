//! Dials an allowed host: resolves its name, checks the address, and connects to that address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use egress::{ConnectTarget, check_address};
use run_protocol::NetRefusal;
use tokio::net::TcpStream;

use super::egress_control::{EgressControl, Refused};
use super::tunnel::leads_through_tunnel;
use super::upstream_proxy::UpstreamProxy;

/// The time limit for the host's resolver.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(15);
/// The time limit for one address, if there is another one to try.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(5);
/// The time limit for the last address.
const LAST_PATIENCE: Duration = Duration::from_secs(20);
/// The most addresses to try for one name.
const MOST_ADDRESSES: usize = 8;

/// Connects to a host that is on the list.
pub(super) async fn dial(
    target: &ConnectTarget,
    control: &EgressControl,
) -> Result<TcpStream, Refused> {
    match &control.policy.upstream {
        Some(proxy) => through(proxy, target).await,
        None => directly(target, control).await,
    }
}

async fn directly(target: &ConnectTarget, control: &EgressControl) -> Result<TcpStream, Refused> {
    let addresses = resolve(target, control).await?;
    let tun = control.policy.tun;
    let is_tunnelled = |address| tun.unwrap_or_else(|| leads_through_tunnel(address));
    let addresses = checked(addresses, &own_addresses()?, is_tunnelled)?;
    let unreachable = |error: io::Error| Refused::because(NetRefusal::Unreachable, error);
    let (last, others) =
        addresses.split_last().ok_or_else(|| Refused::plainly(NetRefusal::Unresolved))?;
    for address in others {
        if let Ok(stream) = connect(*address, ADDRESS_PATIENCE).await {
            return Ok(stream);
        }
    }
    connect(*last, LAST_PATIENCE).await.map_err(unreachable)
}

async fn connect(address: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = tokio::time::timeout(patience, TcpStream::connect(address))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    // Small packets are often urgent.
    stream.set_nodelay(true).ok();
    Ok(stream)
}

async fn resolve(
    target: &ConnectTarget,
    control: &EgressControl,
) -> Result<Vec<SocketAddr>, Refused> {
    let unresolved = |detail: String| Refused::because(NetRefusal::Unresolved, detail);
    let _turn = control.lookups.acquire().await.map_err(|error| unresolved(error.to_string()))?;
    let lookup = tokio::net::lookup_host((target.host.as_str(), target.port));
    match tokio::time::timeout(LOOKUP_PATIENCE, lookup).await {
        Ok(Ok(addresses)) => Ok(addresses.take(MOST_ADDRESSES).collect()),
        Ok(Err(error)) => Err(unresolved(error.to_string())),
        Err(_) => Err(unresolved("the host's resolver took too long".to_owned())),
    }
}

/// Returns the addresses that the shim may dial, or why it may not dial any.
fn checked(
    addresses: Vec<SocketAddr>,
    own: &[IpAddr],
    is_tunnelled: impl Fn(Ipv4Addr) -> bool,
) -> Result<Vec<SocketAddr>, Refused> {
    let mut refused = Refused::plainly(NetRefusal::Unresolved);
    let mut good = Vec::new();
    for address in addresses {
        match check_address(address.ip(), own, &is_tunnelled) {
            Ok(()) => good.push(address),
            Err(why) => {
                let detail = format!("it resolves to {}: {why}", address.ip());
                refused = Refused::because(NetRefusal::ForbiddenAddress, detail);
            }
        }
    }
    if good.is_empty() { Err(refused) } else { Ok(good) }
}

/// The current addresses of this machine's interfaces.
fn own_addresses() -> Result<Vec<IpAddr>, Refused> {
    // Without them the shim cannot check any address, so it dials none.
    let interfaces = nix::ifaddrs::getifaddrs()
        .map_err(|errno| Refused::because(NetRefusal::ForbiddenAddress, errno))?;
    Ok(interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        })
        .collect())
}

/// Connects through the machine's own proxy. The user chose it, so it may be anywhere. The proxy resolves the name.
async fn through(proxy: &UpstreamProxy, target: &ConnectTarget) -> Result<TcpStream, Refused> {
    let unreachable = |error: io::Error| {
        Refused::because(NetRefusal::Unreachable, format!("through this machine's proxy: {error}"))
    };
    let work = async {
        let stream = TcpStream::connect((proxy.host(), proxy.port())).await?;
        stream.set_nodelay(true).ok();
        proxy.ask(stream, target).await
    };
    match tokio::time::timeout(LAST_PATIENCE, work).await {
        Ok(stream) => stream.map_err(unreachable),
        Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
    }
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
