//! The proxy through which this machine reaches the network.

use run_protocol::ExitCode;
use run_shim::UpstreamProxy;

use crate::command_error::CommandError;
use crate::host::environment::Environment;

/// The host's proxy, for the shim to use.
pub struct HostProxy {
    pub variable: &'static str,
    /// It may contain a password.
    pub address: String,
}

pub fn host_proxy(environment: &Environment) -> Result<Option<HostProxy>, CommandError> {
    let set = ["https_proxy", "HTTPS_PROXY"].into_iter().find_map(|variable| {
        let address = environment.variable(variable)?.to_string_lossy().into_owned();
        Some(HostProxy { variable, address })
    });
    let Some(proxy) = set else { return Ok(None) };
    match proxy.address.parse::<UpstreamProxy>() {
        Ok(_) => Ok(Some(proxy)),
        Err(error) => {
            let what = format!("the proxy that `{}` names cannot be used", proxy.variable);
            let hint = "unset it, or give the run the host's own network: --network host";
            Err(CommandError::new(ExitCode::Usage, what).because(error).hint(hint))
        }
    }
}

/// True if the variable names a proxy, or the hosts that need none.
pub(crate) fn is_proxy_variable(name: &str) -> bool {
    let known = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];
    known.iter().any(|known| name.eq_ignore_ascii_case(known))
}
